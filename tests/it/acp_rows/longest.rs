//! A-21: the longest line that a client may write, full of what takes most room or time, is answered like any other
//! (A-11). The component runs alone under the limits of its built-in policy; what a host makes of a prompt of that length
//! is not looked at.

use std::fs;

use transom_connection::codec::{
    Codec, CodecSource as _, Form, Framing, Input, Output, Setup, Unit,
};
use transom_frame::{Frame, SessionId};
use transom_sandbox::{Limits, Sandbox, SandboxConfig};

use crate::support::process::built;

/// What stands before the content of a prompt, and behind it.
const PROMPT: [&[u8]; 2] = [
    br#"{"id":7,"method":"session/prompt","params":{"sessionId":"s","prompt":["#,
    br#"{"type":"text","text":""}]}}"#,
];
const NEW: [&[u8]; 2] =
    [br#"{"id":7,"method":"session/new","params":{"cwd":"/w","mcpServers":["#, br#"{}]}}"#];

/// A line of exactly `bytes`: the unit repeated between the two ends, and spaces for what is left.
fn filled(bytes: usize, head: &[u8], unit: &[u8], tail: &[u8]) -> Vec<u8> {
    let room = bytes - head.len() - tail.len();
    let mut line = [head, &unit.repeat(room / unit.len()), tail].concat();
    line.resize(bytes, b' ');
    line
}

/// Hands an answer to each request of these outputs, and gives what follows.
fn answered(codec: &mut dyn Codec, outputs: Vec<Output>) -> Vec<Output> {
    let mut next = Vec::new();
    for output in outputs {
        let Output::Frame(request) = output else { continue };
        let session = (&*request.name == "session/open").then(|| SessionId::new("s"));
        let reply = Frame::reply(&request, session, "{}");
        next.extend(codec.handle(0, Input::Frame(reply)).expect("an answer is heard"));
    }
    next
}

fn unit(bytes: Vec<u8>) -> Input {
    Input::Unit(Unit { lane: 0, form: Form::Text, bytes })
}

#[test]
fn a_21_no_line_within_the_bounds_ends_the_connection() {
    let policy = transom_doors::find("acp").expect("the door").policy().expect("its policy");
    let limits = Limits {
        memory_bytes: policy.limits.memory_bytes_max,
        outputs_per_call: policy.limits.outputs_per_call_max,
        bytes_per_call: policy.limits.output_bytes_per_call_max,
        call_base_ms: policy.limits.call_ms_base,
        call_ms_per_mib: policy.limits.call_ms_per_mib,
        ..Limits::default()
    };
    let bytes_max = usize::try_from(policy.limits.unit_bytes_max).expect("a length");
    let sandbox = Sandbox::new(SandboxConfig::default()).expect("a sandbox");
    let component = fs::read(built("components/acp.wasm")).expect("the component");
    let source = sandbox.load("acp", &component, limits).expect("the component loads");
    let setup = Setup {
        framing: Framing::Lines,
        seed: (1, 2),
        options: "{}".to_owned(),
        facts: Vec::new(),
    };

    let link = br#"{"type":"resource_link","uri":"x:y","name":""#;
    let text = br#"{"type":"text","text":""#;
    for (what, ends, before, repeated, behind) in [
        ("plain text", PROMPT, &text[..], &b"x"[..], &br#""},"#[..]),
        ("quotes", PROMPT, text, br#"\""#, br#""},"#),
        ("quotes in the name of a link", PROMPT, link, br#"\""#, br#""},"#),
        ("controls", PROMPT, text, br"\u0001", br#""},"#),
        ("no UTF-8", PROMPT, text, b"\xff", br#""},"#),
        ("many texts", PROMPT, b"", br#"{"type":"text","text":"a"},"#, b""),
        ("many links", PROMPT, b"", br#"{"type":"resource_link","uri":"","name":""},"#, b""),
        ("blocks that are none", PROMPT, b"", b"{},", b""),
        ("servers that are none", NEW, b"", b"{},", b""),
    ] {
        let (mut codec, _) = source.open(&setup).expect("a connection");
        let opening = br#"{"id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#;
        let subscribes = codec.handle(0, unit(opening.to_vec())).expect("a request");
        let opens = answered(codec.as_mut(), subscribes);
        assert_eq!(answered(codec.as_mut(), opens).len(), 1, "the session is open");

        let [head, tail] = ends;
        let line = filled(bytes_max, &[head, before].concat(), repeated, &[behind, tail].concat());
        let outputs = codec
            .handle(1, unit(line))
            .unwrap_or_else(|error| panic!("{what} ends the connection: {error}"));
        let said = outputs.iter().any(|output| match output {
            Output::Unit(unit) => unit.bytes.starts_with(br#"{"jsonrpc":"2.0","id":"#),
            Output::Frame(frame) => &*frame.name == "session/prompt",
            _ => false,
        });
        assert!(said, "{what} is taken or refused");
    }
}
