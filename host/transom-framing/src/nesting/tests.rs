//! Depth is counted outside strings only.

use super::nests_deeper_than;

fn check(text: &str, nesting_max: u64, expected: bool) {
    assert_eq!(
        nests_deeper_than(text.as_bytes(), nesting_max),
        expected,
        "{text} over {nesting_max}"
    );
}

#[test]
fn only_brackets_outside_strings_count() {
    check(r#"{"a":[1,{"b":2}]}"#, 3, false);
    check(r#"{"a":[1,{"b":2}]}"#, 2, true);
    check(r#"[[],[],[],[],[]]"#, 2, false);
    check(r#"["[[[[[[","{{{{{{"]"#, 1, false);
    check(r#"["\"[[[[[["]"#, 1, false);
    check(r#"["\\",[1]]"#, 2, false);
    check(r#"["\\",[1]]"#, 1, true);
    check(r#"["\u005b[[[["]"#, 1, false);
    check(r#"["é[[[[",[]]"#, 2, false);
    check("1234567", 0, false);
    check("[1234567]", 0, true);
}

#[test]
fn text_that_is_not_json_gets_an_answer() {
    check(r#"["never closed [[[[[["#, 1, false);
    check(r#"["ends in an escape \"#, 1, false);
    check("]]]]]][[]]", 2, false);
    check("]]]]]][[]]", 1, true);
    check("[[[[[[[[[[", 4, true);
}

#[test]
fn invalid_utf8_hides_no_bracket() {
    assert!(nests_deeper_than(b"\xff[\xc3[\xe2\x82[", 2));
    assert!(nests_deeper_than(b"[\"\xc3\",[[]]]", 2));
}

#[test]
fn decision_55_five_hundred_and_twelve_levels_pass_and_one_more_does_not() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    check(&nested(512), 512, false);
    check(&nested(513), 512, true);
}

#[test]
fn a_million_levels_need_no_stack() {
    check(&"[".repeat(1_000_000), 999_999, true);
    check(&"[".repeat(1_000_000), 1_000_000, false);
}
