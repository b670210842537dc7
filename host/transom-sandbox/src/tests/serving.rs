//! What a connection gets from its component.

use std::thread;

use transom_connection::codec::{
    Closing, CodecError, CodecSource, Ending, Farewell, Form, Framing, Head, Input, Output, Setup,
    Skipped, Unit,
};
use transom_frame::{FaultKind, Frame, FrameKind};
use transom_framing::Excess;

use crate::{Limits, tests::*};

#[test]
fn a_component_says_what_it_is() {
    let component = load("mirrors", Limits::default());
    let manifest = component.manifest();

    assert_eq!(manifest.protocol, "mirrors");
    assert_eq!(manifest.revisions, ["1", "2024-11-05"]);
    assert_eq!(
        manifest.framings,
        [Framing::Lines, Framing::Messages, Framing::Exchange, Framing::Outbound, Framing::Chunks]
    );
    assert_eq!(manifest.sends, ["session/*", "ask/answer"]);
    assert_eq!(manifest.headers, ["accept"]);
    assert_eq!((manifest.state_format, &manifest.resumes[..]), (3, &[2, 3][..]));

    let identity = component.identity();
    let digest = identity.strip_prefix("mirrors sha256:").unwrap();
    assert_eq!(digest, crate::inspect(&guest("mirrors")).unwrap().sha256);
}

#[test]
fn open_learns_the_setup() {
    let component = load("mirrors", Limits::default());
    let setup = Setup {
        framing: Framing::Exchange,
        seed: (u64::MAX, 5),
        options: r#"{"a":"ü"}"#.to_owned(),
        facts: vec![
            ("door".to_owned(), "browser".to_owned()),
            ("header:accept".to_owned(), String::new()),
            ("door".to_owned(), "again".to_owned()),
        ],
    };
    let (_, outputs) = component.open(&setup).unwrap();
    let text =
        r#"Exchange (18446744073709551615, 5) {"a":"ü"} door=browser header:accept= door=again"#;
    assert_eq!(outputs, [Output::Note("setup".to_owned(), text.to_owned())]);
}

#[test]
fn everything_crosses_the_boundary_unchanged() {
    let frame = |kind, session: Option<&str>, id: Option<&str>, body: &str| Frame {
        kind,
        session: session.map(Into::into),
        id: id.map(Into::into),
        name: "session/prompt".into(),
        body: body.into(),
    };
    let unit = |lane, form, bytes: &[u8]| Unit { lane, form, bytes: bytes.to_vec() };
    let head = Head {
        lane: 4,
        fields: vec![(":status".to_owned(), "200".to_owned()), ("a".to_owned(), "".to_owned())],
    };
    let note = |name: &str, json: &str| Output::Note(name.to_owned(), json.to_owned());
    let close = |code, reason: &str| Output::Close(Closing { code, reason: reason.to_owned() });
    let ending =
        |lane, broken: Option<&str>| Input::End(Ending { lane, broken: broken.map(str::to_owned) });
    let skipped = |why| Input::Skipped(Skipped { lane: 3, why, bytes: u64::MAX });

    let mut table = vec![
        (Input::Head(head.clone()), vec![Output::Head(head)]),
        (skipped(Excess::TooLong), vec![note("too-long", "[3,18446744073709551615]")]),
        (skipped(Excess::TooDeep), vec![note("too-deep", "[3,18446744073709551615]")]),
        (ending(u32::MAX, None), vec![Output::End(u32::MAX)]),
        (ending(2, Some("exit 3")), vec![Output::Abort(2), close(Some(1011), "exit 3")]),
        (Input::Deadline, vec![Output::Deadline(None), Output::Deadline(Some(1_000_006))]),
        (Input::Drain(Farewell::Shutdown), vec![close(None, "shutdown")]),
        (Input::Drain(Farewell::Replaced), vec![close(None, "replaced")]),
        (
            Input::Other("later".to_owned(), "{\"ä\":1}".to_owned()),
            vec![Output::Other("later".to_owned(), "{\"ä\":1}".to_owned())],
        ),
    ];
    for form in [Form::Text, Form::Binary, Form::Unfinished] {
        let unit = unit(9, form, &[0, 255, b'x']);
        table.push((Input::Unit(unit.clone()), vec![Output::Unit(unit)]));
    }
    let big = unit(0, Form::Text, &vec![b'x'; 3 << 20]);
    table.push((Input::Unit(big.clone()), vec![Output::Unit(big)]));
    for kind in [FrameKind::Request, FrameKind::Reply, FrameKind::Failure, FrameKind::Notice] {
        for frame in [
            frame(kind, Some("s"), Some("1"), "{\"n\":9007199254740993}"),
            frame(kind, None, None, "{}"),
        ] {
            table.push((Input::Frame(frame.clone()), vec![Output::Frame(frame)]));
        }
    }

    let component = load("mirrors", Limits::default());
    let mut codec = open(&component);
    for (input, expected) in table {
        assert_eq!(codec.handle(1_000_000, input).unwrap(), expected);
    }
}

#[test]
fn a_suspended_connection_goes_on_in_a_new_instance() {
    let component = load("mirrors", Limits::default());
    let mut old = open(&component);
    for text in ["a", "b", "c"] {
        say(&mut *old, text).unwrap();
    }
    let state = old.suspend().unwrap();
    let prepared = component.prepare().unwrap().expect("an instance ahead");

    assert_eq!(state, 3u64.to_le_bytes());
    for resumed in [component.resume(&setup(), 3, &state), prepared.resume(&setup(), 3, &state)] {
        let mut new = resumed.unwrap();
        assert_eq!(new.suspend().unwrap(), state);
        let outputs = new.handle(10, Input::Deadline).unwrap();
        assert_eq!(outputs.last(), Some(&Output::Deadline(Some(14))));
    }
    // Suspend only reads, so the old one could go on too (decision 52).
    assert_eq!(old.handle(10, Input::Deadline).unwrap().last(), Some(&Output::Deadline(Some(14))));
}

#[test]
fn a_refused_state_is_a_fault_in_the_codecs_words() {
    let component = load("mirrors", Limits::default());
    let refused = component.resume(&setup(), 8, &[0; 8]).err().unwrap();
    let CodecError::Fault(fault) = refused else { panic!("{refused}") };
    assert_eq!(
        (fault.kind, fault.detail.as_str()),
        (FaultKind::Unsupported, "no state of format 8")
    );
}

#[test]
fn an_instance_counts_its_memory() {
    let component = load("grows", Limits::default());
    let mut codec = open(&component);
    let before = codec.memory_bytes();
    assert!(before > 0 && before < 8 << 20, "{before} bytes");
    assert_eq!(say(&mut *codec, "grow 8").unwrap(), ["taken"]);
    assert!(codec.memory_bytes() >= before + (8 << 20));
}

#[test]
fn one_component_serves_many_threads() {
    let component = load("mirrors", Limits::default());
    thread::scope(|scope| {
        for thread in 0..8 {
            let component = &component;
            scope.spawn(move || {
                for connection in 0..50 {
                    let mut codec = open(component);
                    let text = format!("{thread}/{connection}");
                    assert_eq!(say(&mut *codec, &text).unwrap(), [text]);
                    assert_eq!(codec.suspend().unwrap(), 1u64.to_le_bytes());
                }
            });
        }
    });
}

#[test]
fn a_connection_may_move_between_threads() {
    let mut codec = open(&load("mirrors", Limits::default()));
    for _ in 0..4 {
        codec = thread::spawn(move || {
            say(&mut *codec, "on").unwrap();
            codec
        })
        .join()
        .unwrap();
    }
    assert_eq!(codec.suspend().unwrap(), 4u64.to_le_bytes());
}

#[test]
fn what_was_loaded_outlives_its_sandbox() {
    let sandbox = Sandbox::new(SandboxConfig::default()).unwrap();
    let component = sandbox
        .load("spins", &guest("spins"), Limits { call_base_ms: 30, ..Limits::default() })
        .unwrap();
    drop(sandbox);

    let mut codec = open(&component);
    assert_eq!(say(&mut *codec, "still here").unwrap(), ["still here"]);
    // And its calls are still bounded.
    assert!(matches!(say(&mut *codec, "spin"), Err(CodecError::Limit { limit: "call_ms", .. })));
}
