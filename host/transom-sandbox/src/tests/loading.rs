//! Files that are no codecs, and limits that allow nothing: each is refused in its own words.

use crate::{Capacity, Kind, Limits, LoadError, Sandbox, SandboxConfig, inspect, tests::*};

/// What both `load` and `inspect` say of a file that is no component.
fn refusal(bytes: &[u8]) -> String {
    let loaded = sandbox().load("it", bytes, Limits::default()).unwrap_err().to_string();
    assert_eq!(loaded, inspect(bytes).unwrap_err().to_string());
    loaded
}

#[test]
fn what_is_no_component_is_refused_in_its_own_words() {
    let mirrors = guest("mirrors");
    let module = [b"\0asm".as_slice(), &[1, 0, 0, 0]].concat();
    let of_another_time = [b"\0asm".as_slice(), &[2, 0, 3, 0]].concat();
    for (bytes, said) in [
        (&b""[..], "the file is empty"),
        (b"#!/bin/sh\n", "is not WebAssembly: it begins with 23 21 2f 62 69 6e 2f 73"),
        (b"{}", "is not WebAssembly: it begins with 7b 7d"),
        (b"\0as", "is cut short"),
        (b"\0asm\x0d\0", "is cut short"),
        (&module, "is a core WebAssembly module; encode it"),
        (&of_another_time, "of a kind this host does not know (version 2, layer 3)"),
    ] {
        let refusal = refusal(bytes);
        assert!(refusal.contains(said), "{refusal}");
    }
    for length in [9, 10, 100, mirrors.len() / 2, mirrors.len() - 1] {
        let refusal = refusal(&mirrors[..length]);
        assert!(refusal.contains("is cut short"), "{length} bytes: {refusal}");
    }
}

#[test]
fn a_damaged_component_is_refused_with_the_place() {
    let mut bytes = guest("mirrors");
    // A section of an unknown kind, as one flipped bit makes it.
    bytes[8] = 0x5f;
    let refusal = refusal(&bytes);
    assert!(
        refusal.contains("the component is damaged") && refusal.contains("at offset"),
        "{refusal}"
    );
}

#[test]
fn a_component_without_code_is_refused() {
    let empty = [b"\0asm".as_slice(), &[0x0d, 0, 1, 0]].concat();
    let error = sandbox().load("empty", &empty, Limits::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the component does not fit transom:codec@0.1:\n  missing: the interface `transom:codec/codec@0.1`"
    );
}

#[test]
fn a_file_beyond_the_bound_is_not_compiled() {
    let sandbox =
        Sandbox::new(SandboxConfig { component_bytes_max: 1000, ..SandboxConfig::default() })
            .unwrap();
    let error = sandbox.load("mirrors", &guest("mirrors"), Limits::default()).unwrap_err();
    assert!(matches!(error, LoadError::TooLarge { allowed: 1000, .. }), "{error}");
}

#[test]
fn limits_that_allow_nothing_are_refused() {
    let fine = Limits::default();
    for (limits, name) in [
        (Limits { memory_bytes: 0, ..fine }, "memory_bytes"),
        (Limits { table_elements: 0, ..fine }, "table_elements"),
        (Limits { outputs_per_call: 0, ..fine }, "outputs_per_call"),
        (Limits { bytes_per_call: 0, ..fine }, "bytes_per_call"),
        (Limits { call_base_ms: 0, ..fine }, "call_base_ms"),
        (Limits { call_ms_per_mib: 0, ..fine }, "call_ms_per_mib"),
    ] {
        let error = sandbox().load("mirrors", &guest("mirrors"), limits).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the limit `{name}` is 0, which allows nothing; give a number or leave it out")
        );
    }
    for config in [
        SandboxConfig { capacity: Capacity::Pool { connections: 0 }, ..SandboxConfig::default() },
        SandboxConfig { component_bytes_max: 0, ..SandboxConfig::default() },
    ] {
        assert!(matches!(Sandbox::new(config), Err(LoadError::Limit { .. })));
    }
}

#[test]
fn limits_may_be_as_large_as_one_likes() {
    let limits = Limits {
        memory_bytes: u64::MAX,
        table_elements: u64::MAX,
        outputs_per_call: u64::MAX,
        bytes_per_call: u64::MAX,
        call_base_ms: u64::MAX,
        call_ms_per_mib: u64::MAX,
    };
    assert_eq!(say(&mut *open(&load("mirrors", limits)), "hello").unwrap(), ["hello"]);
}

#[test]
fn inspect_says_what_a_component_is() {
    let bytes = guest("mirrors");
    let inspection = inspect(&bytes).unwrap();
    assert_eq!(inspection.kind, Kind::Codec);
    assert_eq!(inspection.imports, Vec::<String>::new());
    assert_eq!(inspection.exports, ["transom:codec/codec@0.1.0"]);
    assert_eq!(inspection.bytes, bytes.len() as u64);
    assert_eq!(inspection.sha256.len(), 64);

    let clock = inspect(&guest("imports_clock")).unwrap();
    let Kind::Other { why } = &clock.kind else { panic!() };
    assert!(why.contains("`wasi:clocks/monotonic-clock@0.2.6`"), "{why}");
    assert_eq!(clock.imports.len(), 2);
}
