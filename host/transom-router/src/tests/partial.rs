//! What becomes of cut answers: who says so, and for which lives of a session (L-48, decision 42).

use super::*;

fn open(house: &mut House, connection: u64, session: &str, body: Value) -> String {
    house.ask(connection, "session/open", Some(session), body);
    house.commit();
    house.told()
}

/// An answer is cut, and what the model is asked next shows whether it was kept.
fn keeps_cut_answers(house: &mut House, session: &str) -> bool {
    let before = answers(house, session);
    house.prompt(session, "go");
    house.commit();
    house.chunk(Chunk::TextDelta { index: 0, text: "half".to_owned() });
    house.ask(1, "session/cancel", Some(session), json!({ "inbox": "clear" }));
    house.calls.clear();
    house.commit();
    house.told();
    answers(house, session) > before
}

fn answers(house: &House, session: &str) -> usize {
    house.kinds(session).iter().filter(|kind| *kind == "assistant/message").count()
}

fn connected() -> House {
    let mut house = House::new();
    house.connect(1, facts(Reach::All));
    house
}

#[test]
fn a_fork_does_with_cut_answers_what_its_source_does() {
    for (partial, kept) in [(None, false), (Some("drop"), false), (Some("commit"), true)] {
        let mut house = connected();
        let mut body = json!({ "want": "new" });
        if let Some(partial) = partial {
            body["partial"] = partial.into();
        }
        open(&mut house, 1, "main", body);
        assert_eq!(keeps_cut_answers(&mut house, "main"), kept, "{partial:?}");
        house.ask(1, "session/fork", Some("main"), json!({}));
        house.commit();
        let fork = house.frames.last().unwrap().1.session.clone().unwrap();
        assert_eq!(keeps_cut_answers(&mut house, fork.as_str()), kept, "{partial:?}");
    }
}

/// Design §2, rule 6: a live session stays as it is, and who wants it otherwise is told.
#[test]
fn a_live_session_is_joined_as_it_is_or_not_at_all() {
    let mut house = connected();
    open(&mut house, 1, "main", json!({ "want": "new", "partial": "commit" }));
    open(&mut house, 1, "plain", json!({ "want": "new" }));
    let refused = |session: &str, has: &str| {
        format!(
            "1 failure session/open invalid: session \"{session}\" is live with `partial` \"{has}\"; without `partial` it is joined as it is"
        )
    };
    let mut join = |session: &str, partial: &str| {
        open(&mut house, 1, session, json!({ "want": "any", "partial": partial }))
    };
    assert_eq!(join("main", "drop"), refused("main", "commit"));
    assert_eq!(join("plain", "commit"), refused("plain", "drop"));
    assert_eq!(join("main", "commit"), "1 reply session/open");
    assert_eq!(join("plain", "drop"), "1 reply session/open");
    for session in ["main", "plain"] {
        let told = open(&mut house, 1, session, json!({ "want": "any" }));
        assert_eq!(told, "1 reply session/open");
    }
    assert!(keeps_cut_answers(&mut house, "main"));
    assert!(!keeps_cut_answers(&mut house, "plain"));
}

/// The option is of the life that it was said for.
#[test]
fn a_session_that_goes_on_does_what_its_new_opening_says() {
    let mut house = connected();
    open(&mut house, 1, "main", json!({ "want": "new", "partial": "commit" }));
    assert!(keeps_cut_answers(&mut house, "main"));
    for (partial, kept) in [(json!({}), false), (json!({ "partial": "commit" }), true)] {
        house.ask(1, "session/close", Some("main"), json!({}));
        house.commit();
        house.told();
        house.keep_stored();
        let mut body = partial;
        body["want"] = "stored".into();
        assert_eq!(open(&mut house, 1, "main", body), "1 reply session/open");
        assert_eq!(keeps_cut_answers(&mut house, "main"), kept);
    }
}
