//! Which frames a policy lets through, and why.

use super::{Action, decide};
use crate::Policy;

const TEXT: &str = r#"
[frames]
allow = ["host/describe", "session/*", "tools/offer", "a/b/*"]
"#;

fn check(text: &str, frame: &str, allowed: bool, reason: &str) {
    let policy = Policy::parse("test.toml", text).expect("a policy");
    let decision = decide(&policy, Action::SendFrame(frame));
    assert_eq!(
        (decision.allowed, decision.reason.to_string().as_str()),
        (allowed, reason),
        "{frame}"
    );
}

#[test]
fn what_is_named_is_allowed_and_everything_else_is_denied() {
    check(TEXT, "host/describe", true, "frames.allow names host/describe");
    check(TEXT, "session/open", true, "frames.allow names session/*");
    check(TEXT, "session/open/later", true, "frames.allow names session/*");
    check(TEXT, "a/b/c", true, "frames.allow names a/b/*");

    check(TEXT, "host/shutdown", false, "frames.allow does not name host/shutdown");
    check(TEXT, "host/describe/more", false, "frames.allow does not name host/describe/more");
    check(TEXT, "tools/offers", false, "frames.allow does not name tools/offers");
    check(TEXT, "tools", false, "frames.allow does not name tools");
    check(TEXT, "a/c", false, "frames.allow does not name a/c");
}

#[test]
fn a_prefix_does_not_mean_itself_or_a_longer_word() {
    check(TEXT, "session", false, "frames.allow does not name session");
    check(TEXT, "session/", false, "frames.allow does not name session/");
    check(TEXT, "sessions/open", false, "frames.allow does not name sessions/open");
    check(TEXT, "Session/open", false, "frames.allow does not name Session/open");
    check(TEXT, "", false, "frames.allow does not name ");
}

#[test]
fn an_empty_policy_denies_everything() {
    check("", "session/open", false, "frames.allow does not name session/open");
    check(
        "[frames]\nallow = []",
        "host/describe",
        false,
        "frames.allow does not name host/describe",
    );
}
