//! Guests that misbehave: each crime ends its own instance, says why, and leaves a neighbour as it was.

use transom_connection::codec::{CodecError, CodecSource, Setup};
use transom_frame::FaultKind;

use crate::{Capacity, Limits, LoadError, Sandbox, SandboxConfig, tests::*};

/// Commits a crime beside a neighbour on the same engine, and gives what the host made of it.
fn commit(program: &str, unit: &str, limits: Limits) -> CodecError {
    let neighbour = load("mirrors", Limits::default());
    let mut neighbour = open(&neighbour);
    say(&mut *neighbour, "before").unwrap();

    let component = load(program, limits);
    let mut culprit = open(&component);
    assert_eq!(
        say(&mut *culprit, "hello").unwrap(),
        ["hello"],
        "{program} echoes until it is told"
    );
    let error = say(&mut *culprit, unit).expect_err(program);

    assert_eq!(say(&mut *culprit, "hello"), Err(CodecError::Gone), "{program}");
    assert_eq!(culprit.suspend(), Err(CodecError::Gone), "{program}");
    assert_eq!(culprit.memory_bytes(), 0, "{program} gives its memory back at once");

    assert_eq!(say(&mut *neighbour, "after").unwrap(), ["after"]);
    assert_eq!(neighbour.suspend().unwrap(), 2u64.to_le_bytes(), "the neighbour kept its state");
    assert_eq!(
        say(&mut *open(&component), "again").unwrap(),
        ["again"],
        "{program} can be opened again"
    );
    error
}

fn short() -> Limits {
    Limits { call_base_ms: 30, ..Limits::default() }
}

#[test]
fn spins_is_stopped_at_its_time() {
    let CodecError::Limit { limit, found, allowed } = commit("spins", "spin", short()) else {
        panic!()
    };
    assert_eq!((limit, allowed), ("call_ms", 30));
    assert!(found > allowed, "{found}");
}

#[test]
fn spins_in_open_is_stopped_at_its_time() {
    let component = load("spins_in_open", short());
    for opened in [component.open(&setup()).err(), component.resume(&setup(), 1, &[]).err()] {
        let Some(CodecError::Limit { limit: "call_ms", allowed: 30, .. }) = opened else {
            panic!("{opened:?}")
        };
    }
}

#[test]
fn a_large_unit_gets_more_time() {
    let limits = Limits { call_base_ms: 20, call_ms_per_mib: 40, ..Limits::default() };
    let component = load("spins", limits);
    let padded = format!("spin{}", " ".repeat(1 << 20));
    assert_eq!(say(&mut *open(&component), &padded).unwrap(), [padded]);
    assert_eq!(limits.call_ms(1 << 20), 60);
}

#[test]
fn grows_is_refused_memory() {
    let limits = Limits { memory_bytes: 16 << 20, ..Limits::default() };
    let CodecError::Limit { limit, found, allowed } = commit("grows", "grow", limits) else {
        panic!()
    };
    assert_eq!((limit, allowed), ("memory_bytes", 16 << 20));
    assert!(found > allowed, "what it wanted is named: {found}");
}

#[test]
fn a_guest_that_copes_with_a_refusal_goes_on() {
    let component = load("grows", Limits { memory_bytes: 16 << 20, ..Limits::default() });
    let mut codec = open(&component);
    assert_eq!(say(&mut *codec, "grow 64").unwrap(), ["refused"]);
    assert_eq!(say(&mut *codec, "grow 4").unwrap(), ["taken"]);
    assert_eq!(say(&mut *codec, "hello").unwrap(), ["hello"]);
}

#[test]
fn traps_is_explained_with_a_readable_backtrace() {
    let CodecError::Trap(text) = commit("traps", "trap", Limits::default()) else { panic!() };
    assert!(text.contains("`unreachable` instruction executed"), "{text}");
    // Innermost first, names as their author wrote them.
    let failed = text.find("traps::fail_to_find").unwrap_or_else(|| panic!("{text}"));
    let looked = text.find("traps::look_up").unwrap_or_else(|| panic!("{text}"));
    assert!(failed < looked, "{text}");
}

#[test]
fn floods_is_stopped_at_its_outputs() {
    let limits = Limits { memory_bytes: 512 << 20, ..Limits::default() };
    for (count, found) in [(10_001, 10_001), (1_000_000, 33_554_433)] {
        let CodecError::Limit { limit, found: seen, allowed } =
            commit("floods", &format!("flood {count}"), limits)
        else {
            panic!()
        };
        // The first is counted; the second is not even lifted out of the guest.
        assert_eq!(
            (limit == "outputs_per_call", seen),
            (found < 33_554_433, found),
            "{limit} {allowed}"
        );
    }
    let component = load("floods", limits);
    assert_eq!(say(&mut *open(&component), "flood 10000").unwrap().len(), 10_000);
}

#[test]
fn huge_is_stopped_before_the_host_copies_it() {
    let error = commit("huge", "huge 1024", Limits::default());
    assert!(matches!(error, CodecError::Limit { limit: "memory_bytes", .. }), "{error}");

    // With memory for it in the guest, the bound on what is handed over holds.
    let roomy = Limits { memory_bytes: 1 << 30, ..Limits::default() };
    for (mebibytes, limit) in [(33, "bytes_per_call"), (200, "bytes_per_call")] {
        let error = commit("huge", &format!("huge {mebibytes}"), roomy);
        let CodecError::Limit { limit: seen, found, allowed } = error else { panic!("{error}") };
        assert_eq!((seen, allowed), (limit, 32 << 20));
        assert!(found > allowed);
    }
    let component = load("huge", roomy);
    assert_eq!(say(&mut *open(&component), "huge 32").unwrap()[0].len(), 32 << 20);
}

#[test]
fn recurses_ends_at_the_end_of_its_stack() {
    for (unit, trap) in
        [("recurse", "call stack exhausted"), ("recurse in memory", "out of bounds memory access")]
    {
        let CodecError::Trap(text) = commit("recurses", unit, Limits::default()) else { panic!() };
        assert!(text.contains(trap), "{unit}: {text}");
        assert!(text.len() < 16 << 10, "a backtrace is bounded: {} bytes", text.len());
    }
}

#[test]
fn faults_after_keeps_faulting_in_its_own_words() {
    let component = load("faults_after", Limits::default());
    let mut codec = open(&component);
    assert_eq!(say(&mut *codec, "hello").unwrap(), ["hello"]);
    for text in ["fault", "hello"] {
        let Err(CodecError::Fault(fault)) = say(&mut *codec, text) else { panic!("{text}") };
        assert_eq!(
            (fault.kind, fault.detail.as_str()),
            (FaultKind::Malformed, "this is not a word of ours")
        );
    }
    // A fault is an answer, not a crash: the instance is there, and so is its state.
    assert!(codec.suspend().is_ok());
    assert!(codec.memory_bytes() > 0);
}

#[test]
fn a_codec_may_refuse_to_open() {
    let component = load("faults_after", Limits::default());
    let setup = Setup { options: r#"{"refuse":true}"#.to_owned(), ..setup() };
    let Some(CodecError::Fault(fault)) = component.open(&setup).err() else { panic!() };
    assert_eq!((fault.kind, fault.detail.as_str()), (FaultKind::Unsupported, "the options say so"));
}

#[test]
fn imports_clock_is_refused_with_every_import_named() {
    let error =
        sandbox().load("imports_clock", &guest("imports_clock"), Limits::default()).unwrap_err();
    let LoadError::Imports { names } = &error else { panic!("{error}") };
    let mut names = names.clone();
    names.sort();
    assert_eq!(names, ["programs:clocks/sundial", "wasi:clocks/monotonic-clock@0.2.6"]);
    assert!(error.to_string().ends_with("a codec imports nothing"), "{error}");
}

#[test]
fn wrong_types_is_refused_with_every_difference_named() {
    let error =
        sandbox().load("wrong_types", &guest("wrong_types"), Limits::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the component does not fit transom:codec@0.1:
  missing: `connection.open: func(setup: setup) -> result<tuple<connection, list<output>>, fault>`
  missing: `connection.suspend: func() -> list<u8>`
  missing: `connection.resume: func(setup: setup, format: u32, state: list<u8>) -> result<connection, fault>`
  extra: `connection.pause: func()`
  changed: `connection.handle(now)`: expected u64, found u32
  changed: `connection.handle(input)`: expected the cases head, unit, skipped, end, frame, deadline, drain, other, found the cases unit, deadline
  changed: `connection.handle(input).unit.form`: expected the cases text, binary, unfinished, found the cases text, binary
  changed: `connection.handle() -> ok[]`: expected output, found unit
  changed: `connection.handle() -> error`: expected fault, found string"
    );
}

#[test]
fn a_component_too_large_for_its_limits_is_refused_when_it_is_loaded() {
    for (limits, limit) in [
        (Limits { memory_bytes: 64 << 10, ..Limits::default() }, "memory_bytes"),
        (Limits { table_elements: 1, ..Limits::default() }, "table_elements"),
    ] {
        let error = sandbox().load("mirrors", &guest("mirrors"), limits).unwrap_err();
        let LoadError::Describe(CodecError::Limit { limit: seen, .. }) = error else {
            panic!("{error}")
        };
        assert_eq!(seen, limit);
    }
}

#[test]
fn a_full_pool_says_so_and_serves_again_when_one_leaves() {
    let capacity = Capacity::Pool { connections: 2 };
    let sandbox = Sandbox::new(SandboxConfig { capacity, ..SandboxConfig::default() }).unwrap();
    let component = sandbox.load("mirrors", &guest("mirrors"), Limits::default()).unwrap();

    let mut open = Vec::new();
    let error = loop {
        match component.open(&setup()) {
            Ok((codec, _)) => open.push(codec),
            Err(error) => break error,
        }
    };
    assert_eq!(error, CodecError::Limit { limit: "instances", found: 3, allowed: 2 });
    assert!(
        open.len() >= 2,
        "the connections fit, and a few spare instances with them: {}",
        open.len()
    );

    open.pop();
    let (mut codec, _) = component.open(&setup()).unwrap();
    assert_eq!(say(&mut *codec, "hello").unwrap(), ["hello"]);
    for codec in &mut open {
        assert_eq!(say(&mut **codec, "hello").unwrap(), ["hello"]);
    }
}

#[test]
fn a_pool_stops_every_crime_too() {
    let capacity = Capacity::Pool { connections: 4 };
    let sandbox = Sandbox::new(SandboxConfig { capacity, ..SandboxConfig::default() }).unwrap();
    for (program, unit, limits) in [
        ("spins", "spin", short()),
        ("grows", "grow", Limits { memory_bytes: 8 << 20, ..Limits::default() }),
        ("traps", "trap", Limits::default()),
        ("recurses", "recurse", Limits::default()),
    ] {
        let component = sandbox.load(program, &guest(program), limits).unwrap();
        // More often than there are slots: a slot that was not given back would be missed.
        for _ in 0..25 {
            let mut codec = open(&component);
            assert_eq!(say(&mut *codec, "hello").unwrap(), ["hello"]);
            if program != "spins" {
                say(&mut *codec, unit).expect_err(program);
            }
        }
        say(&mut *open(&component), unit).expect_err(program);
    }
}
