//! Images in the log, and a model that takes none (L-90): the turn that brings one fails, and those behind it do not.

use serde_json::{Value, json};

use super::*;

const IMAGE: &str = r#"{"type":"image","attachment":{"attachmentId":"sha256:00","mediaType":"image/png","width":1,"height":1,"bytes":1}}"#;
const LEFT_OUT: &str = "[an image was left out here: this model takes no images]";

fn image() -> Block {
    serde_json::from_str(IMAGE).unwrap()
}

fn show(play: &mut Play, delivery: Delivery) {
    let content = vec![Block::text("look"), image()];
    play.act(|agent, out, now| agent.prompt(out, now, content, Source::user(), delivery)).unwrap();
}

/// The contents of the messages of the last request.
fn asked(play: &Play) -> Vec<Value> {
    let messages = play.requests.last().unwrap().messages.iter();
    messages.map(|message| serde_json::to_value(&message.content).unwrap()).collect()
}

fn words(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

fn seen() -> Value {
    json!([{ "type": "text", "text": "look" }, serde_json::from_str::<Value>(IMAGE).unwrap()])
}

fn unseen() -> Value {
    json!([{ "type": "text", "text": "look" }, { "type": "text", "text": LEFT_OUT }])
}

#[test]
fn an_image_fails_the_turn_that_brings_it_and_is_left_out_of_later_requests() {
    let mut play = Play::new();
    show(&mut play, Delivery::Followup);
    play.assemble();
    assert_eq!(asked(&play), [seen()], "its own turn is the provider's to judge");
    play.fail("UNSUPPORTED_CONTENT");
    play.prompt("on").assemble();
    assert_eq!(asked(&play), [unseen(), words("on")]);
    let stored = play.texts.iter().filter(|text| text.contains(LEFT_OUT)).count();
    assert_eq!(stored, 0, "the log keeps what it has");
    // Nor does an attempt that is made again bring it back.
    play.fail("SERVER").ring();
    assert_eq!(asked(&play), [unseen(), words("on")]);
}

#[test]
fn a_steer_with_an_image_belongs_to_the_turn_that_it_enters() {
    let mut play = Play::new();
    play.prompt("go").assemble();
    show(&mut play, Delivery::Steer);
    play.answer("well").assemble();
    assert_eq!(asked(&play), [words("go"), words("well"), seen()]);
    play.fail("UNSUPPORTED_CONTENT").prompt("on").assemble();
    assert_eq!(asked(&play)[2], unseen());
}

#[test]
fn a_model_that_takes_images_is_given_all_of_them() {
    let mut play = Play::new();
    show(&mut play, Delivery::Followup);
    play.assemble().fail("UNSUPPORTED_CONTENT").prompt("on");
    let token = play.assembling.remove(0);
    let mut sighted = assembly();
    sighted.served = sighted.served.map(|served| Served { images: true, ..served });
    play.happen(Happened::Assembled(token, sighted));
    assert_eq!(asked(&play), [seen(), words("on")]);
}

/// What a tool shows is no prompt of the turn's: nobody could have kept it from the model.
#[test]
fn an_image_in_a_result_is_left_out_in_its_own_turn_too() {
    let mut play = Play::new();
    play.prompt("go").assemble().call(0, "c1", "shot").finish(Finish::ToolCalls).plan(&[false]);
    let mut shown = ToolOutcome::error("here", None);
    shown.content.push(image());
    play.tool("c1", shown).assemble();
    let result = &asked(&play)[2][0];
    assert_eq!(result["content"][1], json!({ "type": "text", "text": LEFT_OUT }), "{result}");
    assert_eq!((&result["toolCallId"], &result["isError"]), (&json!("c1"), &json!(true)));
}
