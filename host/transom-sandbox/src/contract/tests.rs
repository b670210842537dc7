//! The contract against itself with one thing changed: what was expected, what was found, and where.

use super::*;

/// What is said of a component whose world is the contract's text with `from` replaced by `to`.
fn complaint(from: &str, to: &str) -> String {
    assert!(TEXT.contains(from), "{from}");
    let mut resolve = Resolve::default();
    let package = resolve.push_source("changed.wit", &TEXT.replacen(from, to, 1)).unwrap();
    let world = resolve.select_world(&[package], Some("codec-component")).unwrap();
    match (Shape { resolve, world }).is_codec() {
        Ok(()) => "fits".to_owned(),
        Err(error) => {
            error.to_string().replace("the component does not fit transom:codec@0.1:\n  ", "")
        }
    }
}

#[test]
fn a_difference_is_named_with_its_place() {
    for (from, to, expected) in [
        ("codec@0.1.0", "codec@0.1.0", "fits"),
        // A version of the same track, another order of the text, another comment: types are what counts.
        ("codec@0.1.0", "codec@0.1.7", "fits"),
        ("type millis = u64", "/// Time.\n  type millis = u64", "fits"),
        ("handle: func(now: millis", "handle: func(now: u64", "fits"),
        (
            "describe: func() -> manifest;",
            "describe: func() -> string;",
            "changed: `describe() ->`: expected manifest, found string",
        ),
        (
            "describe: func() -> manifest;",
            "describe: func();",
            "changed: `describe() ->`: expected manifest, found nothing",
        ),
        ("describe: func() -> manifest;", "", "missing: `describe: func() -> manifest`"),
        (
            "describe: func() -> manifest;",
            "describe: func() -> manifest; later: func(a: option<u8>, b: list<string>) -> result<_, string>;",
            "extra: `later: func(a: option<u8>, b: list<string>) -> result<_, string>`",
        ),
        (
            "handle: func(now: millis, input: input)",
            "handle: func(at: millis, input: input)",
            "changed: `connection.handle`: expected the parameters self, now, input, found the parameters self, at, input",
        ),
        ("now: millis", "now: u32", "changed: `connection.handle(now)`: expected u64, found u32"),
        (
            "code: option<u16>",
            "code: option<u32>",
            "changed: `connection.open() -> ok.1[].close.code`: expected u16, found u32\n  changed: `connection.handle() -> ok[].close.code`: expected u16, found u32",
        ),
        (
            "seed: tuple<u64, u64>",
            "seed: tuple<u64, u64, u64>",
            "changed: `connection.open(setup).seed`: expected tuple<u64, u64>, found tuple<u64, u64, u64>\n  changed: `connection.resume(setup).seed`: expected tuple<u64, u64>, found tuple<u64, u64, u64>",
        ),
        (
            "enum farewell { shutdown, replaced }",
            "enum farewell { replaced, shutdown }",
            "changed: `connection.handle(input).drain`: expected the cases shutdown, replaced, found the cases replaced, shutdown",
        ),
        (
            "record ending { lane: lane, broken: option<string> }",
            "record ending { lane: lane, broken: option<string>, more: bool }",
            "changed: `connection.handle(input).end`: expected the fields lane, broken, found the fields lane, broken, more",
        ),
        (
            "world codec-component {",
            "world codec-component {\n  export run: func();",
            "extra: the function `run`",
        ),
        (
            "world codec-component {\n  export codec;",
            "interface other { x: func(); }\nworld codec-component {\n  export other;",
            "missing: the interface `transom:codec/codec@0.1`\n  extra: the interface `transom:codec/other@0.1.0`",
        ),
        (
            "codec@0.1.0",
            "codec@0.2.0",
            "missing: the interface `transom:codec/codec@0.1`\n  extra: the interface `transom:codec/codec@0.2.0`",
        ),
        (
            "world codec-component {",
            "interface clock { now: func() -> u64; }\nworld codec-component {\n  import clock;",
            "the component imports `transom:codec/clock@0.1.0`; a codec imports nothing",
        ),
    ] {
        assert_eq!(complaint(from, to), expected, "{to}");
    }
}

#[test]
fn a_long_list_is_cut() {
    let many: String = (0..30).map(|number| format!("f{number}: func();\n")).collect();
    let complaint = complaint(
        "describe: func() -> manifest;",
        &format!("describe: func() -> manifest; {many}"),
    );
    assert_eq!(complaint.lines().count(), LISTED_MAX + 1);
    assert!(complaint.ends_with("extra: and 10 more"), "{complaint}");
}
