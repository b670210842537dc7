//! Rows 42 to 44 and 47: lines as they come.

use serde_json::{Value, json};

use crate::support::{
    acp::{Acp, Stage, error, prompt, request, stop},
    process::Process,
    wire::Wire as _,
};

/// Whatever was said before has been dealt with when this is answered.
fn probe(client: &mut Acp<Process>) {
    let answer = client.call("probe", "authenticate", json!({"methodId": "x"}));
    assert_eq!(answer["result"], json!({}));
}

#[test]
fn row_42_a_bad_line_is_answered_and_no_more() {
    let mut stage = Stage::new();
    let batch = "-32600 Invalid request: JSON-RPC batches are not supported";
    for (line, answer) in [
        ("this is not json", "-32700 Parse error"),
        ("[]", batch),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}]"#,
            batch,
        ),
        ("42", "-32600 Invalid request"),
        (r#""s""#, "-32600 Invalid request"),
        ("true", "-32600 Invalid request"),
        ("null", "-32600 Invalid request"),
        ("{}", "-32600 Invalid request"),
    ] {
        stage.client.say(line);
        let said = stage.client.next();
        assert_eq!((error(&said).as_str(), &said["id"]), (answer, &Value::Null), "{line}");
        assert!(said["error"].get("data").is_none(), "nothing is repeated (A-11): {said}");
        probe(&mut stage.client);
    }
    assert_eq!(stage.client.end(), (vec![], 0));
}

#[test]
fn row_43_pieces_and_white_space_do_no_harm() {
    let mut stage = Stage::new();
    let session = stage.session();
    let ask = |id: u32| request(id, "authenticate", json!({"methodId": "x"}));
    let whole = ask(1);
    let (head, tail) = whole.split_at(20);
    stage.client.wire.write(head.as_bytes());
    stage.client.wire.write(format!("{tail}\n{}\n\n \r\n  {}  \r\n", ask(2), ask(3)).as_bytes());
    for id in [1, 2, 3] {
        assert_eq!(stage.client.next()["id"], id);
    }
    // A character that is cut in two.
    let line = format!("{}\n", request("u", "session/prompt", prompt(&session, "[[ECHO]] 世界🎉")));
    let inside = line.find('世').expect("a character") + 1;
    stage.client.wire.write(&line.as_bytes()[..inside]);
    stage.client.wire.write(&line.as_bytes()[inside..]);
    let (updates, answer) = stage.client.until("u");
    assert_eq!(updates[0]["params"]["update"]["content"]["text"], "ECHO:[[ECHO]] 世界🎉");
    assert_eq!(stop(&answer), "end_turn");
    // A last line without its end.
    stage.client.wire.write(ask(9).as_bytes());
    let (rest, code) = stage.client.end();
    assert_eq!((rest, code), (vec![json!({"jsonrpc": "2.0", "id": 9, "result": {}})], 0));
}

#[test]
fn row_44_ids_come_back_and_stray_responses_are_ignored() {
    let mut stage = Stage::new();
    for id in [Value::Null, json!("a"), json!(1.5), json!(0)] {
        let answer = stage.client.call(id.clone(), "authenticate", json!({"methodId": "x"}));
        assert_eq!(answer["result"], json!({}), "{id}");
    }
    stage.client.say(r#"{"jsonrpc":"2.0","id":999,"result":{}}"#);
    stage.client.say(r#"{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"x"}}"#);
    probe(&mut stage.client);
}

#[test]
fn a_21_a_line_over_32_mib_is_answered_and_passed_over() {
    let mut stage = Stage::new();
    let long = request(1, "authenticate", json!({"methodId": "x".repeat(33_554_432)}));
    stage.client.say(&long);
    let said = stage.client.next();
    assert!(error(&said).starts_with("-32600 Invalid request: "), "{said}");
    assert_eq!(said["id"], Value::Null);
    probe(&mut stage.client);
}
