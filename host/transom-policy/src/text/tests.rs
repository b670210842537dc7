//! Wrong policies beside their complaints.

use std::{fs, path::Path, sync::mpsc, thread, time::Duration};

use super::parse;
use crate::{
    Limits, Policy, TrustKey,
    limits::{LIMIT_KEYS, LimitKey},
};

/// What is wrong with a text, one line for each complaint.
fn check(text: &str, expected: &str) {
    let error = parse("p.toml", text).expect_err("the text is wrong");
    assert_eq!(error.to_string(), expected, "{text}");
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    check("[frame]", "p.toml:1:2: found the unknown key \"frame\"; right would be \"frames\"");
    check(
        "[wires]",
        "p.toml:1:2: found the unknown key \"wires\"; right would be one of frames, limits, trust",
    );
    check(
        "[frames]\nallows = []",
        "p.toml:2:1: found the unknown key \"allows\"; right would be \"allow\"",
    );
    check(
        "[frames]\ndeny = []",
        "p.toml:2:1: found the unknown key \"deny\"; right would be \"allow\"",
    );
    check(
        "[limits]\nunit_bytes_max = 5",
        "p.toml:2:1: found the unknown key \"unit_bytes_max\"; right would be \"unit-bytes-max\"",
    );
    check(
        "[limits]\nsesions-max = 5",
        "p.toml:2:1: found the unknown key \"sesions-max\"; right would be \"sessions-max\"",
    );
}

#[test]
fn a_wrong_frame_name_is_refused() {
    let words = "words of lower-case letters, digits and hyphens with one `/` between them, such as \"session/open\"";
    let cases = [
        ("*", "one prefix an entry, such as \"session/*\""),
        ("*/*", "one prefix an entry, such as \"session/*\""),
        ("session/op*", "`*` only as the whole last word, such as \"session/*\""),
        ("*/open", "`*` only as the whole last word, such as \"session/*\""),
        ("session/", words),
        ("/open", words),
        ("session//open", words),
        ("Session/open", words),
        ("session open", words),
        ("", words),
    ];
    for (name, right) in cases {
        check(
            &format!("[frames]\nallow = [{name:?}]"),
            &format!("p.toml:2:10: found {name:?}; right would be {right}"),
        );
    }
}

#[test]
fn an_entry_stands_once() {
    check(
        "[frames]\nallow = [\n  \"a/*\",\n  \"a/*\",\n]",
        "p.toml:4:3: found \"a/*\" a second time; right would be each entry once",
    );
}

#[test]
fn a_value_of_another_type_is_refused() {
    check(
        "frames = 1",
        "p.toml:1:10: found the number 1; right would be a table with the key \"allow\"",
    );
    check("limits = []", "p.toml:1:10: found a list; right would be a table of limits");
    check(
        "frames.allow = \"a/b\"",
        "p.toml:1:16: found the text \"a/b\"; right would be a list of frame names",
    );
    check(
        "frames.allow = [true]",
        "p.toml:1:17: found true; right would be a frame name in quotation marks",
    );
    check(
        "limits.nesting-max = \"512\"",
        "p.toml:1:22: found the text \"512\"; right would be a whole number from 1 to 65536",
    );
    check(
        "limits.nesting-max = 5.5",
        "p.toml:1:22: found the number 5.5; right would be a whole number from 1 to 65536",
    );
}

#[test]
fn a_number_out_of_range_is_refused() {
    for limit in LIMIT_KEYS {
        let (name, least, most) = (limit.key.name, limit.least(), limit.most());
        let right = format!("a whole number from {least} to {most}");
        let refused = |number: i128| {
            check(
                &format!("[limits]\n{name} = {number}"),
                &format!(
                    "p.toml:2:{}: found {name} = {number}; right would be {right}",
                    name.len() + 4
                ),
            );
        };
        refused(-1);
        refused(i128::from(most) + 1);
        refused(i128::from(u64::MAX) + 1);
        if least > 0 {
            refused(i128::from(least) - 1);
        }
    }
}

#[test]
fn nothing_at_all_is_refused_where_it_would_be_no_door() {
    let zero = |limit: &&LimitKey| limit.least() == 0;
    let zero_allowed: Vec<_> = LIMIT_KEYS.iter().filter(zero).map(|limit| limit.key.name).collect();
    assert_eq!(zero_allowed, ["call-ms-per-mib", "sessions-max"]);
}

#[test]
fn limits_that_contradict_each_other_are_refused() {
    check(
        "[limits]\nunwritten-bytes-rest = 100\nunwritten-bytes-stop = 99",
        "p.toml:3:24: found unwritten-bytes-stop = 99, below unwritten-bytes-rest = 100; right would be at least 100",
    );
    check(
        "[limits]\nunwritten-bytes-rest = 20000000",
        "p.toml:2:24: found unwritten-bytes-rest = 20000000, above unwritten-bytes-stop = 16777216; right would be at most 16777216, or another unwritten-bytes-stop beside it",
    );
    check(
        "[limits]\nmemory-bytes-max = 65536",
        "p.toml:2:20: found memory-bytes-max = 65536, below unit-bytes-max = 167772160; right would be at least 167772160",
    );
}

#[test]
fn text_that_is_no_toml_is_refused_where_it_breaks() {
    let error = parse("p.toml", "[frames]\nallow = [\"a/b\"").expect_err("not TOML");
    let complaint = error.complaints.first().expect("a complaint");
    assert_eq!((complaint.line, complaint.right.as_str()), (2, "TOML"));
    check(
        "[limits]\nnesting-max = 1\nnesting-max = 2",
        "p.toml:3:1: found duplicate key; right would be TOML",
    );
}

#[test]
fn all_complaints_come_at_once_in_the_order_of_the_text() {
    check(
        "[limits]\nnesting-max = 0\nunknown = 1\n\n[frames]\nallow = [\"*\"]\n[frame]",
        &[
            "p.toml:2:15: found nesting-max = 0; right would be a whole number from 1 to 65536",
            "p.toml:3:1: found the unknown key \"unknown\"; right would be one of unit-bytes-max, nesting-max, outputs-per-call-max, output-bytes-per-call-max, memory-bytes-max, call-ms-base, call-ms-per-mib, pending-requests-max, unwritten-bytes-rest, unwritten-bytes-stop, live-notices-max, connections-max, sessions-max",
            "p.toml:6:10: found \"*\"; right would be one prefix an entry, such as \"session/*\"",
            "p.toml:7:2: found the unknown key \"frame\"; right would be \"frames\"",
        ]
        .join("\n"),
    );
}

#[test]
fn columns_count_characters() {
    check(
        "frames.allow = [\"é\", \"*\"]",
        "p.toml:1:17: found \"é\"; right would be words of lower-case letters, digits and hyphens with one `/` between them, such as \"session/open\"\n\
         p.toml:1:22: found \"*\"; right would be one prefix an entry, such as \"session/*\"",
    );
}

#[test]
fn numbers_may_be_written_as_toml_allows() {
    let policy = parse(
        "p.toml",
        "[limits]\nunit-bytes-max = 0x10_0000\nnesting-max = 1_0\nsessions-max = +3\ncall-ms-per-mib = 0",
    )
    .expect("a policy");
    let limits = policy.limits;
    assert_eq!(
        (limits.unit_bytes_max, limits.nesting_max, limits.sessions_max, limits.call_ms_per_mib),
        (1 << 20, 10, 3, 0)
    );
}

#[test]
fn memory_and_output_follow_the_unit_where_they_are_not_named() {
    // Decision 54.
    let limits = |text: &str| parse("p.toml", text).expect("a policy").limits;
    let small = limits("[limits]\nunit-bytes-max = 1_048_576");
    assert_eq!((small.memory_bytes_max, small.output_bytes_per_call_max), (36 << 20, 18 << 20));
    let huge = limits("[limits]\nunit-bytes-max = 4_294_967_296");
    assert_eq!(huge.memory_bytes_max, 4 << 30, "no more than 32 bits can address");
    let named = limits(
        "[limits]\nunit-bytes-max = 1_048_576\nmemory-bytes-max = 2_097_152\noutput-bytes-per-call-max = 7",
    );
    assert_eq!((named.memory_bytes_max, named.output_bytes_per_call_max), (2 << 20, 7));
}

#[test]
fn an_empty_text_is_the_default_policy() {
    assert_eq!(parse("p.toml", ""), Ok(Policy::default()));
    assert_eq!(parse("p.toml", "[frames]\n[limits]\n[trust]"), Ok(Policy::default()));
}

#[test]
fn the_default_text_says_what_the_defaults_are() {
    let text = include_str!("../../../../policies/default.toml");
    let policy = parse("policies/default.toml", text).expect("a policy");
    assert_eq!(policy, Policy::default());
    for limit in LIMIT_KEYS {
        let value = *limit.field(&mut Limits::default());
        let line = format!("\n{} = {value}\n", limit.key.name);
        assert!(text.replace('_', "").contains(&line), "{line}");
    }
    for line in ["\nrequire-signature = false\n", "\nkeys = []\n"] {
        assert!(text.contains(line), "{line}");
    }
}

/// The key under which minisign's own releases are signed.
const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

#[test]
fn trust_is_read_whole() {
    let trust = parse("p.toml", &format!("[trust]\nrequire-signature = true\nkeys = [{KEY:?}]"))
        .expect("a policy")
        .trust;
    assert!(trust.require_signature);
    assert_eq!(trust.keys.iter().map(TrustKey::as_str).collect::<Vec<_>>(), [KEY]);
    let trust = parse("p.toml", &format!("[trust]\nkeys = [{KEY:?}]")).expect("a policy").trust;
    assert_eq!((trust.require_signature, trust.keys.len()), (false, 1));
}

/// The complaint stands in the `.err` beside each file. `ACCEPT_MESSAGES=1` writes it there; read the diff.
#[test]
fn a_wrong_policy_is_refused_with_its_complaint() {
    let directory =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/messages/policy/invalid");
    let files =
        fs::read_dir(&directory).expect("a directory").map(|entry| entry.expect("a file").path());
    let files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect();
    assert!(files.len() >= 6, "{} cases", files.len());
    for path in files {
        let text = fs::read_to_string(&path).expect("a text");
        let found = match parse("policy.toml", &text) {
            Ok(policy) => panic!("{path:?} is accepted: {policy:?}"),
            Err(error) => format!("{error}\n"),
        };
        let beside = path.with_extension("err");
        if std::env::var_os("ACCEPT_MESSAGES").is_some() {
            fs::write(&beside, &found).expect("written");
        }
        let expected = fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(found, expected, "{path:?}");
    }
}

#[test]
fn limits_that_a_text_names_are_told_from_defaults() {
    let text = "[limits]\nnesting-max = 512\nunit-bytes-max = 1\n[frames]\nallow = []\n";
    assert_eq!(crate::named_limits(text), ["nesting-max", "unit-bytes-max"]);
    assert_eq!(crate::named_limits(""), [""; 0]);
    assert_eq!(crate::named_limits("limits = 5"), [""; 0]);
}

/// As many as a program may have written. It takes seconds; were the text, or what was named already, gone through again
/// for each of them, it would take minutes.
#[test]
fn a_policy_is_read_in_one_go_however_long_it_is() {
    let (done, ended) = mpsc::sync_channel(1);
    let reading = thread::spawn(move || {
        read_long_ones();
        done.send(())
    });
    let ended = ended.recv_timeout(Duration::from_secs(60));
    assert_ne!(ended, Err(mpsc::RecvTimeoutError::Timeout));
    reading.join().unwrap().unwrap();
}

fn read_long_ones() {
    const COUNT: usize = 60_000;
    let names: Vec<_> = (0..COUNT).map(|number| format!("\"n{number}/*\"")).collect();
    let names = names.join(",");
    let policy = parse("p.toml", &format!("frames.allow = [{names}]")).unwrap();
    assert_eq!(policy.frames.iter().count(), COUNT);

    // All on one line.
    let complaints = parse("p.toml", &format!("frames.allow = [{names},{names}]"));
    let complaints = complaints.unwrap_err().complaints;
    assert_eq!(complaints.len(), COUNT);
    let begin = "frames.allow = [".len() + names.len() + 2;
    assert_eq!((complaints[0].line, complaints[0].column), (1, begin));
    let last = complaints.last().unwrap();
    assert_eq!(last.column, begin + names.len() - format!("\"n{}/*\"", COUNT - 1).len());

    let keys: String = (0..COUNT).map(|number| format!("k{number} = 1\n")).collect();
    let complaints = parse("p.toml", &format!("[limits]\n{keys}")).unwrap_err().complaints;
    let lines: Vec<_> = complaints.iter().map(|complaint| complaint.line).collect();
    assert!(lines == (2..COUNT + 2).collect::<Vec<_>>(), "{} complaints", lines.len());
}
