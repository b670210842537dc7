//! C-8 to C-17, C-57: what counts as a frame, and what is passed over in silence.

use serde_json::{Value, json};

use super::{probe, probed, unknown};
use crate::support::{bench::Bench, wire::Wire};

/// Says these bytes; nothing may come of them, and what comes next is answered.
fn passed_over(said: &[u8]) {
    let mut bench = Bench::fresh();
    bench.client.wire.write(said);
    assert_eq!(probe(&mut bench.client), probed(), "{:?}", String::from_utf8_lossy(said));
}

/// Says these bytes; the answers must be these.
fn answered(said: &[u8], answers: &[Value]) {
    let mut bench = Bench::fresh();
    bench.client.wire.write(said);
    for answer in answers {
        assert_eq!(bench.client.next(), *answer, "{:?}", String::from_utf8_lossy(said));
    }
    assert_eq!(probe(&mut bench.client), probed());
}

#[test]
fn c_08_what_is_no_frame_is_passed_over() {
    passed_over(b"not json\n\n   \nnull\n42\n\"str\"\n[]\n{\"jsonrpc\":\"2.0\"}\n{\"id\":\"m\",\"method\":7}\n");
}

#[test]
fn c_09_a_batch_is_passed_over() {
    passed_over(b"[{\"jsonrpc\":\"2.0\",\"id\":\"b\",\"method\":\"probe\"}]\n");
}

#[test]
fn c_10_ids_that_are_neither_text_nor_number_make_notifications() {
    for id in ["null", "true", "{}", "[1]"] {
        passed_over(
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"probe\"}}\n").as_bytes(),
        );
    }
}

#[test]
fn c_11_stray_responses_and_notifications_are_passed_over() {
    passed_over(
        b"{\"jsonrpc\":\"2.0\",\"id\":\"nobody\",\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":1,\"message\":\"plain\"}}\n{\"jsonrpc\":\"2.0\",\"method\":\"client/notice\",\"params\":{\"a\":1}}\n",
    );
}

#[test]
fn c_12_line_ends_and_padding_do_not_matter() {
    let request = |id: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"m\"}}");
    let said = format!(
        "{}\r\n \t{}  \n\u{feff}{}\n\u{3000}{}\u{2028}\n",
        request("a"),
        request("b"),
        request("c"),
        request("d")
    );
    answered(said.as_bytes(), &["a", "b", "c", "d"].map(|id| unknown(id, "m")));
}

#[test]
fn c_13_a_bare_carriage_return_ends_no_line() {
    let request = "{\"jsonrpc\":\"2.0\",\"id\":\"cr\",\"method\":\"m\"}";
    passed_over(format!("{request}\r{request}\n").as_bytes());
}

#[test]
fn c_14_a_character_may_come_in_two_reads() {
    let mut bench = Bench::fresh();
    let line = "{\"jsonrpc\":\"2.0\",\"id\":\"split\",\"method\":\"你好\"}\n".as_bytes();
    let inside = line.iter().position(|byte| *byte >= 0x80).expect("a long character") + 1;
    let (one, other) = line.split_at(inside);
    // An answer between the parts proves that they were read apart.
    bench.client.wire.write(b"{\"id\":\"first\",\"method\":\"m\"}\n");
    bench.client.wire.write(one);
    assert_eq!(bench.client.next(), unknown("first", "m"));
    bench.client.wire.write(other);
    let answer = bench.client.wire.line().expect("an answer");
    assert!(answer.contains("你好"), "not escaped (S-32): {answer}");
}

#[test]
fn c_15_what_is_not_utf_8_becomes_the_replacement_character() {
    answered(
        b"{\"jsonrpc\":\"2.0\",\"id\":\"bad\",\"method\":\"m-\xff\"}\n",
        &[unknown("bad", "m-\u{fffd}")],
    );
}

#[test]
fn c_16_a_last_line_without_its_end_is_no_line() {
    let mut bench = Bench::fresh();
    bench.client.wire.write(b"{\"jsonrpc\":\"2.0\",\"id\":\"last\",\"method\":\"m\"}");
    bench.client.wire.close_input();
    assert_eq!(bench.client.rest(), Vec::<Value>::new());
    assert_eq!(bench.client.wire.exit(), 0);
}

#[test]
fn c_17_two_requests_in_one_write_have_two_answers() {
    answered(
        b"{\"id\":1,\"method\":\"m\"}\n{\"id\":2,\"method\":\"n\"}\n",
        &[unknown(1, "m"), unknown(2, "n")],
    );
}

#[test]
fn c_57_an_unpaired_surrogate_loses_no_frame() {
    let mut bench = Bench::fresh();
    bench.client.say(r#"{"jsonrpc":"2.0","id":"s","method":"m-\ud800"}"#);
    assert_eq!(bench.client.next(), unknown("s", "m-\u{fffd}"));
    bench.client.say(r#"{"jsonrpc":"2.0","id":"p\udc00","method":"m"}"#);
    assert_eq!(bench.client.next()["id"], json!("p\u{fffd}"));
}

/// S-9: an over-long line is dropped with a diagnostic, the connection stays usable. The bound itself is 160 MiB,
/// so this says a little more than that, in pieces.
#[test]
fn an_over_long_line_is_dropped_and_reported() {
    let mut bench = Bench::fresh();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..161 {
        bench.client.wire.write(&piece);
    }
    bench.client.wire.write(b"\n");
    assert_eq!(probe(&mut bench.client), probed());
    bench.client.wire.close_input();
    assert_eq!(bench.client.wire.exit(), 0);
    let said = bench.client.wire.diagnostics();
    assert!(said.contains("skipped") || said.contains("long"), "{said:?}");
}
