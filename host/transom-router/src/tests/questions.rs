//! Questions of a call to the person behind its session (L-65, B-142 to B-145).

use super::{
    asks::{answered, answering, asking},
    *,
};

fn questions() -> Value {
    let options = json!([{ "label": "Docs" }, { "label": "Code" }]);
    json!([
        { "id": "target", "question": "Where?", "options": options },
        { "id": "parts", "question": "Which?", "options": options, "multiSelect": true },
        { "id": "why", "question": "Why?" },
    ])
}

fn question(house: &mut House, question: u64, session: &str, questions: Value) {
    let question = QuestionId(question);
    house.happen(Event::Question { question, session: session.into(), questions });
}

/// A session whose call has put questions to its person.
fn asked() -> House {
    let mut house = answered();
    house.prompt("main", "go");
    house.commit();
    house.call(&[("c", "ask_user_question")]);
    house.commit();
    house.told();
    question(&mut house, 1, "main", questions());
    house
}

fn answer(house: &mut House, body: Value) {
    let mut body = body;
    body["askId"] = house.body(1, "ask/opened")["askId"].clone();
    house.ask(1, "ask/answer", None, body);
}

#[test]
fn questions_are_shown_as_they_were_asked_and_answered_once() {
    let mut house = asked();
    assert_eq!(house.told(), "1 ask/opened main question");
    assert_eq!(house.body(1, "ask/opened")["questions"], questions());
    let given = json!({ "sessionId": "main", "answer": { "answers": [
        { "id": "target", "selected": ["Docs"], "more": 1 },
        { "id": "parts", "selected": ["Code"], "custom": " and tests " },
        { "id": "why", "selected": [], "custom": "why not" },
    ] } });
    answer(&mut house, json!({ "value": given }));
    assert_eq!(house.told(), "1 ask/closed main answered\n1 reply ask/answer accepted");
    let (id, given) = house.answers.pop().unwrap();
    assert_eq!(id, QuestionId(1));
    let given: Value = serde_json::from_str(&given.unwrap()).unwrap();
    let expected = json!({ "answers": [
        { "id": "target", "selected": ["Docs"] },
        { "id": "parts", "selected": ["Code"], "custom": " and tests " },
        { "id": "why", "selected": [], "custom": "why not" },
    ] });
    assert_eq!(given, expected, "custom untrimmed, strange members gone");
    answer(&mut house, json!({ "value": expected }));
    assert_eq!(house.told(), "1 reply ask/answer not-pending");
    assert!(house.kinds("main").iter().all(|kind| !kind.contains("ask")), "decision 44");
}

#[test]
fn an_answer_fits_all_questions_or_none() {
    // B-143.
    let mut house = asked();
    house.told();
    let good = [
        json!({ "id": "target", "selected": [] }),
        json!({ "id": "parts", "selected": ["Docs", "Code"], "custom": "x" }),
        json!({ "id": "why", "selected": [] }),
    ];
    let with = |at: usize, given: Value| {
        let mut all = good.to_vec();
        all[at] = given;
        json!({ "sessionId": "main", "answer": { "answers": all } })
    };
    for value in [
        json!({ "sessionId": "other", "answer": { "answers": good } }),
        json!({ "sessionId": "main", "answer": { "answers": good[..2] } }),
        json!({ "sessionId": "main", "answer": good }),
        with(0, json!({ "id": "other", "selected": [] })),
        with(0, json!({ "id": "target", "selected": ["Docs", "Code"] })),
        with(0, json!({ "id": "target", "selected": ["Docs"], "custom": "x" })),
        with(0, json!({ "id": "target", "selected": ["Tests"] })),
        with(0, json!({ "id": "target", "selected": [], "custom": " " })),
        with(0, json!({ "id": "target" })),
        with(1, json!({ "id": "parts", "selected": ["Docs", "Docs"] })),
        with(2, json!({ "id": "why", "selected": ["Docs"] })),
    ] {
        answer(&mut house, json!({ "value": value }));
        assert_eq!(house.told(), "1 reply ask/answer invalid", "{value}");
    }
    answer(&mut house, json!({ "value": with(0, good[0].clone()) }));
    assert!(house.told().ends_with("accepted"), "empty is a legal skip");
}

#[test]
fn a_person_may_close_a_question_and_nothing_else_is_an_error() {
    // B-144, row C46.
    let mut house = asked();
    house.told();
    let error = |code: &str| json!({ "error": { "code": code, "message": "", "details": {} } });
    answer(&mut house, error("internal"));
    assert_eq!(house.told(), "1 reply ask/answer invalid");
    answer(&mut house, error("cancelled"));
    assert_eq!(house.told(), "1 ask/closed main cancelled\n1 reply ask/answer accepted");
    assert_eq!(house.answers.pop().unwrap().1.unwrap_err().code, "ASK_CANCELLED");
}

#[test]
fn a_question_is_withdrawn_by_its_call_its_owner_or_the_end_of_its_session() {
    let mut house = asked();
    house.happen(Event::WithdrawQuestion { question: QuestionId(1) });
    house.happen(Event::WithdrawQuestion { question: QuestionId(1) });
    question(&mut house, 2, "main", questions());
    let ask = house.body(1, "ask/opened")["askId"].clone();
    house.ask(1, "ask/settle", None, json!({ "askId": ask, "outcome": "cancelled" }));
    question(&mut house, 3, "main", questions());
    house.told();
    house.ask(1, "session/close", Some("main"), json!({}));
    house.commit();
    // The call does not end: it is given up.
    let (session, token, _) = house.timers.pop().unwrap();
    house.happen(Event::Happened { session, happened: Happened::Timer(token) });
    house.commit();
    let told = house.told();
    let expected = ["ask/closed main cancelled", "session/removed main", "reply session/close"];
    in_order(&told, &expected);
    let codes: Vec<_> = house
        .answers
        .iter()
        .map(|(id, answer)| (id.0, answer.as_ref().unwrap_err().code))
        .collect();
    assert_eq!(codes, [(1, "ASK_ABORTED"), (2, "ASK_ABORTED"), (3, "ASK_ABORTED")]);
}

#[test]
fn what_may_not_be_asked_is_refused_in_the_order_of_the_rule() {
    // L-65, B-145: an empty batch never appears on the wire.
    let mut house = answered();
    house.prompt("main", "go");
    house.commit();
    house.call(&[("c", "subagent")]);
    house.commit();
    house.delegate(7, "main");
    let child = house.child(7);
    house.commit();
    house.told();
    let one = |more: Value| {
        let mut question = json!({ "id": "q", "question": "?" });
        question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        question
    };
    let intent = one(json!({ "intent": { "kind": "plan-review", "approve": "yes" } }));
    for (session, questions, code) in [
        ("nowhere", json!([]), "EMPTY_QUESTIONS"),
        ("nowhere", json!([intent]), "CALLER_NOT_LIVE"),
        (child.as_str(), json!([intent]), "DELEGATED_CALLER"),
        ("main", json!([intent]), "BAD_INTENT"),
        ("main", json!([one(json!({ "intent": "review" }))]), "BAD_INTENT"),
        ("main", json!([one(json!({})), one(json!({}))]), "BAD_QUESTIONS"),
        ("main", json!([one(json!({ "question": " " }))]), "BAD_QUESTIONS"),
        ("main", json!([{ "id": "q" }]), "BAD_QUESTIONS"),
        ("main", json!("?"), "BAD_QUESTIONS"),
    ] {
        question(&mut house, 1, session, questions.clone());
        let refused = house.answers.pop().unwrap().1.unwrap_err();
        assert_eq!(refused.code, code, "{session} {questions}: {}", refused.message);
        assert_eq!(house.told(), "");
    }
}

#[test]
fn without_anybody_who_answers_there_is_nobody_to_ask() {
    let mut house = House::with(asking());
    house.connect(1, answering(Reach::Owned, Answers::Never));
    house.watch_all(1, "owned", None);
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    question(&mut house, 1, "main", questions());
    assert_eq!(house.answers.pop().unwrap().1.unwrap_err().code, "NO_PROVIDER");
}

#[test]
fn a_session_that_goes_away_asks_nothing_any_more() {
    let mut house = asked();
    house.ask(1, "session/close", Some("main"), json!({}));
    question(&mut house, 2, "main", questions());
    assert_eq!(house.answers.pop().unwrap().1.unwrap_err().code, "CALLER_NOT_LIVE");
}
