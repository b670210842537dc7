//! The built-in doors agree with their policies and names.

use transom_policy::{Action, decide};

use crate::{Carrier, DOORS, Door, DoorCodec, find};

fn door(name: &str) -> &'static Door {
    find(name).expect("a built-in door")
}

#[test]
fn a_door_is_found_by_its_name_and_a_slip_is_corrected() {
    for expected in DOORS {
        assert_eq!(door(expected.name).name, expected.name);
    }
    let check = |name: &str, expected: &str| {
        assert_eq!(find(name).expect_err("no door").to_string(), expected);
    };
    check("skd", "unknown door \"skd\"; did you mean \"sdk\"?");
    check("SDK", "unknown door \"SDK\"; did you mean \"sdk\"?");
    check("frame", "unknown door \"frame\"; did you mean \"frames\"?");
    check("telnet", "unknown door \"telnet\"; built in are acp, acp-child, frames, sdk");
    check("", "unknown door \"\"; built in are acp, acp-child, frames, sdk");
}

#[test]
fn every_door_can_be_offered_as_it_stands() {
    for door in DOORS {
        assert!(
            door.carriers.contains(&door.carrier),
            "{}: its carrier is one of its carriers",
            door.name
        );
        assert!(door.options.starts_with('{'), "{}: options are an object", door.name);
        assert_eq!(door.policy_file, format!("policies/{}.toml", door.name));
        if let Err(error) = door.policy() {
            panic!("{}: {error}", door.name);
        }
        if let DoorCodec::Native(source) = door.codec {
            assert!(source().manifest().framings.contains(&door.framing), "{}", door.name);
            assert_eq!(door.component(), None);
        }
    }
}

#[test]
fn names_are_in_order_and_differ() {
    let names: Vec<_> = DOORS.iter().map(|door| door.name).collect();
    assert!(names.is_sorted_by(|left, right| left < right), "{names:?}");
}

#[test]
fn every_carrier_is_read_as_it_is_written() {
    for carrier in Carrier::ALL {
        assert_eq!(Carrier::parse(carrier.as_str()), Some(*carrier));
    }
    assert_eq!(Carrier::parse("pipe"), None);
}

#[test]
fn a_door_may_send_what_its_protocol_needs_and_nothing_else() {
    let check = |name: &str, frame: &str, allowed: bool| {
        let policy = door(name).policy().expect("a policy");
        assert_eq!(decide(&policy, Action::SendFrame(frame)).allowed, allowed, "{name} {frame}");
    };
    for frame in [
        "events/subscribe",
        "host/shutdown",
        "models/check",
        "session/directory",
        "session/open",
        "session/prompt",
        "session/wait",
    ] {
        check("sdk", frame, true);
        check("frames", frame, true);
    }
    // S-65: the wire has no cancel and no close.
    for frame in ["session/cancel", "session/close", "host/describe", "ask/answer"] {
        check("sdk", frame, false);
        check("frames", frame, true);
    }
    // ACP clients cancel and are asked, and editors list sessions and models; the host is not
    // theirs to end.
    for frame in [
        "session/open",
        "session/list",
        "session/cancel",
        "session/queue",
        "session/wait",
        "models/list",
        "attachment/read",
        "ask/answer",
        "ask/settle",
    ] {
        check("acp", frame, true);
    }
    for frame in
        ["host/shutdown", "session/read", "session/directory", "session/fork", "session/rename"]
    {
        check("acp", frame, false);
    }
    // P-35: what sessions may do is the operator's to widen.
    for frame in ["session/permissions", "tools/offer", "ask/open", "agent/output"] {
        check("acp", frame, false);
        check("sdk", frame, false);
        check("frames", frame, false);
    }
    // An agent that the host has started tells what it says, and asks for nothing.
    check("acp-child", "agent/output", true);
    for frame in ["session/open", "session/prompt", "tools/offer", "ask/open", "events/subscribe"] {
        check("acp-child", frame, false);
    }
}
