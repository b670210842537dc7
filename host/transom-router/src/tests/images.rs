//! Prompts with images: kept before they are admitted, in the order of the session (S-58, decision 47).

use super::*;

const LIMITS: ImageLimits =
    ImageLimits { count_max: 1, bytes_max: 2, total_bytes_max: 3, pixels_max: 4 };

/// As compositions of the SDK wire have it.
pub(super) const KEPT: Images = Images::Kept { limits: LIMITS, unseen: Unseen::Admitted };

/// As manifests have it.
pub(super) const SEEN: Images = Images::Kept { limits: LIMITS, unseen: Unseen::Refused };

/// A host with a session, and what it does with images.
pub(super) fn house(images: Images) -> House {
    let mut house = House::of(HostFacts { images, ..host() }, AgentConfig::default());
    house.connect(1, facts(Reach::Owned));
    house.watch(1, "owned");
    house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
    house.commit();
    house.told();
    house
}

pub(super) fn look() -> Value {
    json!({ "content": [{ "type": "image", "data": "AA==", "mediaType": "image/png" }] })
}

/// What stands in the log of prompts that were admitted.
pub(super) fn admitted(house: &House) -> Vec<Value> {
    let inserted = house.log.iter().filter(|append| &*append.kind == "agent/inbox/spliced");
    let events = inserted.map(|append| serde_json::from_str::<Value>(&append.text).unwrap());
    let messages = events.filter_map(|event| event.pointer("/data/inserted/0/content").cloned());
    messages.collect()
}

#[test]
fn the_log_names_images_that_are_kept() {
    let mut house = house(KEPT);
    house.ask(1, "session/prompt", Some("main"), look());
    house.commit();
    assert_eq!(house.kept, [(1, LIMITS)]);
    assert_eq!(admitted(&house), [json!([{ "type": "text", "text": "kept" }])]);
    assert!(house.told().contains("reply session/prompt"));
    // What has none goes straight on.
    house.prompt("main", "words");
    assert_eq!(house.kept.len(), 1);
}

#[test]
fn what_is_asked_behind_an_image_prompt_waits_for_it_and_keeps_its_order() {
    let mut house = house(KEPT);
    house.held = Some(VecDeque::new());
    house.ask(1, "session/prompt", Some("main"), look());
    house.prompt("main", "second");
    house.ask(1, "session/prompt", Some("main"), look());
    house.prompt("main", "fourth");
    assert_eq!(admitted(&house), [] as [Value; 0], "nothing overtakes it");
    for _ in 0..2 {
        let answered = house.held.as_mut().and_then(VecDeque::pop_front).unwrap();
        house.happen(answered);
    }
    let text = |text: &str| json!([{ "type": "text", "text": text }]);
    assert_eq!(admitted(&house), [text("kept"), text("second"), text("kept"), text("fourth")]);
}

#[test]
fn images_that_are_not_taken_leave_no_trace() {
    let mut house = house(KEPT);
    house.refuses = Some(Failure::new(Code::AttachmentError, "no picture"));
    house.ask(1, "session/prompt", Some("main"), look());
    house.commit();
    assert_eq!(house.told(), "1 failure session/prompt attachment-error: no picture");
    assert_eq!(admitted(&house), [] as [Value; 0]);
    // And keep nobody waiting.
    house.prompt("main", "words");
    assert_eq!(admitted(&house).len(), 1);
}

#[test]
fn without_a_store_images_are_refused_or_left_as_they_came() {
    let mut refusing = house(Images::Refused);
    refusing.ask(1, "session/prompt", Some("main"), look());
    assert_eq!(
        refusing.told(),
        "1 failure session/prompt attachment-error: image prompt requires an attachment store"
    );
    let mut baseline = house(Images::AsTheyCame);
    baseline.ask(1, "session/prompt", Some("main"), look());
    assert_eq!(admitted(&baseline), [look()["content"].clone()]);
    assert_eq!((refusing.kept.len(), baseline.kept.len()), (0, 0));
}

#[test]
fn a_session_that_has_left_meanwhile_gets_no_prompt() {
    let mut house = house(KEPT);
    house.held = Some(VecDeque::new());
    house.ask(1, "session/prompt", Some("main"), look());
    let answered = house.held.take().unwrap().pop_front().unwrap();
    house.happen(Event::Disconnected { connection: ConnectionId(1) });
    house.commit();
    house.happen(answered);
    assert_eq!(admitted(&house), [] as [Value; 0]);
    assert_eq!(house.router.remembered(), []);
}

/// B-156: what is asked of the disk is bounded by what the peer has been shown.
#[test]
fn an_attachment_is_looked_for_in_what_was_shown() {
    let mut house = house(KEPT);
    house.ask(1, "session/prompt", Some("main"), look());
    let ask = json!({ "attachmentId": "sha256:x" });
    house.ask(1, "attachment/read", Some("main"), ask.clone());
    assert_eq!(house.body(1, "attachment/read")["events"], 0, "nothing is durable yet");
    house.commit();
    house.ask(1, "attachment/read", Some("main"), ask.clone());
    let shown = house.body(1, "attachment/read");
    assert!(shown["events"].as_u64().unwrap() > 0, "{shown}");
    house.told();
    house.ask(1, "attachment/read", Some("other"), ask);
    assert_eq!(
        house.told(),
        "1 failure attachment/read session-not-found: session \"other\" not found"
    );
}

/// B-124: whether the model takes images is asked first, and nothing of a prompt that it cannot be shown is kept.
#[test]
fn a_prompt_with_images_is_refused_where_the_model_takes_none() {
    let mut house = house(SEEN);
    house.ask(1, "session/prompt", Some("main"), look());
    let text = "attachment-error: model \"m\" of provider \"p\" does not take images";
    assert_eq!(house.told(), format!("1 failure session/prompt {text}"));
    let details = &house.body(1, "session/prompt")["details"];
    assert_eq!(details, &json!({ "reason": "MODEL_DOES_NOT_SUPPORT_IMAGES" }));
    assert_eq!((house.kept.len(), admitted(&house).len()), (0, 0));
    // And keeps nobody waiting.
    house.prompt("main", "words");
    assert_eq!(admitted(&house).len(), 1);
}

/// A route that nobody serves says nothing of images, and fails the turn as it fails every turn.
#[test]
fn a_prompt_with_images_is_admitted_where_the_model_takes_them_or_is_not_known() {
    for sight in [Some(true), None] {
        let mut house = house(SEEN);
        house.sight = sight;
        house.ask(1, "session/prompt", Some("main"), look());
        assert_eq!(house.kept, [(1, LIMITS)], "{sight:?}");
        assert_eq!(admitted(&house), [json!([{ "type": "text", "text": "kept" }])], "{sight:?}");
    }
}

#[test]
fn images_are_offered_where_they_can_be_kept_and_seen() {
    //
    let cases = [(SEEN, true, true), (SEEN, false, false), (Images::Refused, true, false)];
    for (images, sight, offered) in cases {
        let mut house = house(images);
        house.sight = Some(sight);
        house.ask(1, "models/check", None, json!({}));
        assert_eq!(house.body(1, "models/check")["images"], offered, "{images:?} {sight}");
    }
}

#[test]
fn images_are_for_the_model_that_their_prompt_names() {
    // A-129, decision 48.
    let mut house = house(SEEN);
    house.sight = Some(false);
    let mut prompt = look();
    prompt["route"] = json!({ "provider": "p", "model": "blind" });
    house.ask(1, "session/prompt", Some("main"), prompt);
    let said = house.told();
    assert!(said.contains("does not take images"), "{said}");
    assert_eq!(admitted(&house), Vec::<Value>::new());
}
