//! How a line is read: trimming, classification, ids, characters that cannot be.

use insta::assert_snapshot;

use super::*;
use crate::{
    json::{Reader, Text, push_text},
    message::{Incoming, classify},
};

/// What a line is answered with.
fn answers(line: &[u8]) -> Vec<String> {
    let mut out = transom_guest::Outputs::default();
    let mut conversation = <Conversation as transom_guest::Machine>::open(&mut out, setup())
        .expect("a setup that is accepted");
    let unit =
        transom_guest::Unit { lane: 0, form: transom_guest::Form::Text, bytes: line.to_vec() };
    transom_guest::Machine::handle(
        &mut conversation,
        &mut out,
        0,
        transom_guest::Input::Unit(unit),
    )
    .expect("no line is a fault");
    out.into_vec()
        .into_iter()
        .map(|output| match output {
            transom_guest::Output::Unit(unit) => {
                String::from_utf8(unit.bytes).expect("output is UTF-8")
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

#[track_caller]
fn echoes(id: &str, echoed: &str) {
    let line = format!(r#"{{"id":{id},"method":"probe"}}"#);
    assert_eq!(answers(line.as_bytes()), [unknown(echoed, "probe")], "{id}");
}

fn unknown(id: &str, method: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"unknown DeepSeek Harness SDK runtime method: {method}"}}}}"#
    )
}

#[test]
fn c_6_an_unknown_method_is_named_and_jsonrpc_not_looked_at() {
    // S-13, S-64.
    assert_eq!(
        answers(br#"{"id":"x","method":"nope/unknown"}"#),
        [unknown(r#""x""#, "nope/unknown")]
    );
    assert_eq!(answers(br#"{"jsonrpc":"1.0","id":"x","method":""}"#), [unknown(r#""x""#, "")]);
    assert_eq!(
        answers(br#"{"id":"x","method":"probe","result":1,"error":{}}"#),
        [unknown(r#""x""#, "probe")]
    );
}

#[test]
fn c_7_there_is_no_cancel() {
    let line =
        br#"{"jsonrpc":"2.0","id":1,"method":"session/cancel","params":{"sessionId":"main"}}"#;
    assert_eq!(answers(line), [unknown("1", "session/cancel")]);
}

#[test]
fn c_8_c_9_what_is_no_object_is_ignored() {
    // S-6, S-10, S-11.
    for line in [
        "not json",
        "",
        "   ",
        "\u{a0}\u{feff}",
        "null",
        "42",
        "\"str\"",
        "[]",
        "{\"jsonrpc\":\"2.0\"}",
        "[{\"id\":1,\"method\":\"probe\"}]",
        "{\"id\":1,\"method\":\"probe\"} trailing",
        "{\"id\":1,\"method\":\"probe\"",
        "{\"id\":1,\"method\":\"probe\",}",
        "{\"id\":1 \"method\":\"probe\"}",
        "{\"id\":01,\"method\":\"probe\"}",
        "{\"id\":1.,\"method\":\"probe\"}",
        "{\"id\":+1,\"method\":\"probe\"}",
        "{\"id\":1,\"method\":'probe'}",
        "{\"id\":1,\"method\":\"pro\u{1}be\"}",
        "{\"id\":1,\"method\":\"pro\\xbe\"}",
        "{\"id\":1,\"method\":\"pro\\u12g4\"}",
        "{\"id\":1,\"method\":\"probe\",\"params\":{\"a\":[1,2}}",
        "{\"id\":1,\"method\":\"probe\",\"params\":nul}",
        "{\"id\":1,\"method\":\"probe\",\"params\":{\"contentBlocks\":[{\"type\":\"text\"]}}",
        "{\"id\":1,\"method\":\"probe\",\"params\":{\"contentBlocks\":[,]}}",
    ] {
        assert_eq!(answers(line.as_bytes()), [""; 0], "{line}");
    }
}

#[test]
fn s_12_a_line_is_classified_by_the_types_of_id_and_method() {
    let class = |id: &str, method: &str| {
        let line = match (id, method) {
            ("", "") => "{}".to_owned(),
            ("", method) => format!(r#"{{"method":{method}}}"#),
            (id, "") => format!(r#"{{"id":{id}}}"#),
            (id, method) => format!(r#"{{"id":{id},"method":{method}}}"#),
        };
        match classify(&line) {
            Incoming::Request(_) => "request",
            Incoming::Response => "response",
            Incoming::Notification => "notification",
            Incoming::Ignored => "ignored",
        }
    };
    for id in [r#""a""#, r#""""#, "0", "-1.5e3"] {
        assert_eq!(class(id, r#""m""#), "request", "{id}");
        for method in ["", "7", "null", "{}", r#"["m"]"#] {
            assert_eq!(class(id, method), "response", "{id} {method}");
        }
    }
    for id in ["", "null", "true", "{}", "[1]"] {
        assert_eq!(class(id, r#""m""#), "notification", "{id}");
        for method in ["", "7", "null", "{}"] {
            assert_eq!(class(id, method), "ignored", "{id} {method}");
        }
    }
}

#[test]
fn c_10_c_11_notifications_and_responses_are_not_answered() {
    for line in [
        r#"{"id":null,"method":"probe"}"#,
        r#"{"id":true,"method":"shutdown"}"#,
        r#"{"id":{},"method":"probe"}"#,
        r#"{"id":"server-req-1","result":{"ok":true}}"#,
        r#"{"id":3,"error":{"code":1,"message":"plain"}}"#,
        r#"{"method":"client/notice"}"#,
        r#"{"method":"shutdown"}"#,
    ] {
        assert_eq!(answers(line.as_bytes()), [""; 0], "{line}");
    }
}

#[test]
fn c_12_s_5_the_white_space_of_ecmascript_is_trimmed() {
    let spaces = "\t\u{b}\u{c}\r \u{a0}\u{feff}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\
                  \u{2007}\u{2008}\u{2009}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}";
    for space in spaces.chars() {
        let line = format!("{space}{space}{{\"id\":1,\"method\":\"probe\"}}{space}");
        assert_eq!(answers(line.as_bytes()), [unknown("1", "probe")], "{space:?}");
        // Only JSON's own white space may stand inside.
        let inside = format!("{{\"id\":1,{space}\"method\":\"probe\"}}");
        assert_eq!(
            !answers(inside.as_bytes()).is_empty(),
            matches!(space, '\t' | '\r' | ' '),
            "{space:?}"
        );
    }
    for other in ['\u{85}', '\u{180e}', '\u{200b}', '\u{2060}'] {
        let line = format!("{other}{{\"id\":1,\"method\":\"probe\"}}");
        assert_eq!(answers(line.as_bytes()), [""; 0], "{other:?}");
    }
}

#[test]
fn c_13_a_carriage_return_does_not_end_a_line() {
    assert_eq!(
        answers(b"{\"id\":1,\"method\":\"probe\"}\r{\"id\":2,\"method\":\"probe\"}"),
        [""; 0]
    );
}

#[test]
fn c_14_characters_are_written_as_they_are() {
    // S-32: what came as an escape leaves as a character, U+2028 included.
    let line = r#"{"id":"split-\u4f60","method":"probe-你\u597d\ud83e\udd80\u2028\u0000\n\"\\\/"}"#;
    let method = "probe-你好🦀\u{2028}\\u0000\\n\\\"\\\\/";
    assert_eq!(answers(line.as_bytes()), [unknown("\"split-你\"", method)]);
}

#[test]
fn c_15_bytes_that_are_no_characters_are_replaced() {
    assert_eq!(
        answers(b"{\"id\":\"b\",\"method\":\"probe-\xff\"}"),
        [unknown("\"b\"", "probe-\u{fffd}")]
    );
}

#[test]
fn c_57_half_of_a_surrogate_pair_is_replaced() {
    for (escaped, read) in [
        (r"\ud800", "\u{fffd}"),
        (r"\uDFFFx", "\u{fffd}x"),
        (r"\ud800\ud800\udc00", "\u{fffd}\u{10000}"),
        (r"\ud800\u0041", "\u{fffd}A"),
        (r"\\ud800", r"\\ud800"),
        (r"\udc00\ud83e\udd80\ud83e", "\u{fffd}🦀\u{fffd}"),
    ] {
        let line = format!(r#"{{"id":"{escaped}","method":"{escaped}"}}"#);
        assert_eq!(answers(line.as_bytes()), [unknown(&format!("\"{read}\""), read)], "{escaped}");
    }
}

#[test]
fn c_57_a_prompt_with_half_of_a_surrogate_pair_reaches_the_host_mended() {
    assert_snapshot!(ready(&[
        r#"1 unit {"id":1,"method":"session/prompt","params":{"sessionId":"m\udfff","contentBlocks":[{"type":"text","text":"\\ud800 \ud800 \ud83e\udd80"}]}}"#,
    ]), @r#"
    > 1 unit {"id":1,"method":"session/prompt","params":{"sessionId":"m\udfff","contentBlocks":[{"type":"text","text":"\\ud800 \ud800 \ud83e\udd80"}]}}
    < frame request session/open session=m� id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=m� id=4 {"content":[{"type":"text","text":"\\ud800 \ufffd \ud83e\udd80"}]}
    "#);
}

#[test]
fn s_16_the_last_of_two_members_counts() {
    assert_eq!(
        answers(br#"{"id":"a","method":"x","id":"b","method":"probe"}"#),
        [unknown("\"b\"", "probe")]
    );
    assert_eq!(
        answers(br#"{"id":"a","method":"x","\u0069d":"b","method":"probe"}"#),
        [unknown("\"b\"", "probe")]
    );
    assert_eq!(answers(br#"{"id":"a","id":null,"method":"probe"}"#), [""; 0]);
    assert_snapshot!(ready(&[
        r#"1 unit {"id":1,"method":"session/prompt","params":7,"params":{"sessionId":"x","sessionId":"y","contentBlocks":7,"contentBlocks":[{"type":1,"type":"t"}]}}"#,
        r#"2 unit {"id":2,"method":"session/prompt","params":{"sessionId":"x","contentBlocks":[]},"params":null}"#,
    ]), @r#"
    > 1 unit {"id":1,"method":"session/prompt","params":7,"params":{"sessionId":"x","sessionId":"y","contentBlocks":7,"contentBlocks":[{"type":1,"type":"t"}]}}
    < frame request session/open session=y id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=y id=4 {"content":[{"type":1,"type":"t"}]}
    > 2 unit {"id":2,"method":"session/prompt","params":{"sessionId":"x","contentBlocks":[]},"params":null}
    < unit {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"session/prompt requires a non-empty sessionId string"}}
    "#);
}

#[test]
fn s_18_numbers_come_back_with_the_same_value() {
    for (id, echoed) in [
        ("0", "0"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("7", "7"),
        ("-3.5", "-3.5"),
        ("1e3", "1000"),
        ("1E+3", "1000"),
        ("10.0", "10"),
        ("0.1", "0.1"),
        ("1e-6", "0.000001"),
        ("1.5e-7", "1.5e-7"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("123456789e15", "1.23456789e+23"),
        ("9007199254740993", "9007199254740993"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("12345678901234567890", "12345678901234567890"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("1e999", "1e999"),
        ("5e-324", "5e-324"),
        ("1e-400", "0"),
    ] {
        echoes(id, echoed);
    }
}

#[test]
fn s_18_strings_come_back_with_the_same_characters() {
    for (id, echoed) in [
        (r#""""#, r#""""#),
        (r#""1""#, r#""1""#),
        (r#""a\/b""#, r#""a/b""#),
        (r#""\b\f\n\r\t\"\\""#, r#""\b\f\n\r\t\"\\""#),
        (r#""\u001f\u007f""#, "\"\\u001f\u{7f}\""),
        (r#""\u00E9""#, r#""é""#),
    ] {
        echoes(id, echoed);
    }
}

#[test]
fn depth_costs_no_stack() {
    // Decision 55: as deep as the host allows is fine, in what is passed on and in what is passed over.
    let deep = format!("{}{}", "[{\"a\":".repeat(254), "1".to_owned() + &"}]".repeat(254));
    let line = format!(r#"{{"id":1,"method":"probe","params":{deep}}}"#);
    assert_eq!(answers(line.as_bytes()), [unknown("1", "probe")]);
    let line = format!(
        r#"1 unit {{"id":1,"method":"session/prompt","params":{{"sessionId":"s","contentBlocks":[{{"type":"x","y":{deep}}}]}}}}"#
    );
    assert!(outputs(&ready(&[&line])).last().expect("a frame").contains(&deep));
    // Far beyond, the text counts as none.
    let line = format!(
        r#"{{"id":1,"method":"probe","params":{}}}"#,
        "[".repeat(100_000) + &"]".repeat(100_000)
    );
    assert_eq!(answers(line.as_bytes()), [""; 0]);
}

#[test]
fn c_16_a_line_without_its_end_is_never_parsed() {
    // S-7.
    assert_snapshot!(play(&[r#"1 unfinished {"id":1,"method":"shutdown"}"#, "2 end"]), @r#"
    > 1 unfinished {"id":1,"method":"shutdown"}
    > 2 end
    < close end of input
    "#);
}

#[test]
fn s_9_a_line_that_crossed_a_bound_is_noted_and_the_next_one_answered() {
    assert_snapshot!(play(&[
        "1 skipped too-long 170000000",
        "2 skipped too-deep 4000",
        r#"3 unit {"id":1,"method":"probe"}"#,
    ]), @r#"
    > 1 skipped too-long 170000000
    < note unit-skipped {"why":"too-long","bytes":170000000}
    > 2 skipped too-deep 4000
    < note unit-skipped {"why":"too-deep","bytes":4000}
    > 3 unit {"id":1,"method":"probe"}
    < unit {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"unknown DeepSeek Harness SDK runtime method: probe"}}
    "#);
}

#[test]
fn white_space_inside_is_passed_on_and_passed_over() {
    assert_snapshot!(ready(&[
        "1 unit  { \"id\" : 1 , \"method\" : \"session/prompt\" , \"params\" : { \"sessionId\" : \"s\" , \"contentBlocks\" : [ { \"type\" : \"text\" } , { \"type\":\"x\" } ] } } ",
    ]), @r#"
    > 1 unit  { "id" : 1 , "method" : "session/prompt" , "params" : { "sessionId" : "s" , "contentBlocks" : [ { "type" : "text" } , { "type":"x" } ] } } 
    < frame request session/open session=s id=3 {"want":"new","owner":"connection","cwd":"/src","route":{"provider":"deepseek-official","model":"deepseek-v4-flash"}}
    < frame request session/prompt session=s id=4 {"content":[ { "type" : "text" } , { "type":"x" } ]}
    "#);
}

/// The reader and serde_json agree on what is JSON, for every text made of a few telling pieces.
#[test]
fn the_reader_accepts_what_json_is() {
    let pieces = [
        "{", "}", "[", "]", ",", ":", "\"a\"", "\"\\n\"", "1", "-", "0", ".5", "e2", "true", "nul",
        "null", " ", "\"", "\\",
    ];
    let mut accepted = 0;
    for first in pieces {
        for second in pieces {
            for third in pieces {
                for fourth in pieces {
                    for around in [("", ""), ("{\"k\":", "}"), ("[", ",2]")] {
                        let text =
                            format!("{}{first}{second}{third}{fourth}{}", around.0, around.1);
                        let mut reader = Reader::new(&text);
                        reader.space();
                        let ours = reader.value().is_some() && reader.at_end();
                        let theirs =
                            serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
                        assert_eq!(ours, theirs, "{text}");
                        accepted += usize::from(ours);
                    }
                }
            }
        }
    }
    assert!(accepted > 500, "only {accepted} texts were JSON, which tests little");
}

/// Every kind of character at every place within and across the eight bytes that are looked at together.
#[test]
fn strings_are_read_and_written_as_serde_json_does() {
    for special in [
        "\"", "\\", "\u{0}", "\u{1f}", " ", "!", "#", "[", "]", "\u{7f}", "é", "\u{a2}", "你", "🦀",
    ] {
        for before in 0..18 {
            for after in [0, 1, 7, 9] {
                let text = "x".repeat(before) + special + &"y".repeat(after) + special;
                let printed = serde_json::to_string(&text).expect("a string");
                let mut ours = String::new();
                push_text(&mut ours, &text);
                assert_eq!(ours, printed);
                let mut reader = Reader::new(&printed);
                assert_eq!(reader.value(), Some(&*printed));
                assert_eq!(Text::of(&printed).expect("a string").decode(), text);
            }
        }
    }
}
