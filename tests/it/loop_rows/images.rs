//! Images, from prompts of both doors to the model, the log and back (S-58, B-124, B-156, L-90), against the real
//! binary.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::stage::{Setting, Stage, call, of_kind, reason, results, rule};
use crate::support::{
    client::{self, Client, error},
    model_server::ModelServer,
    place::{Place, text},
    process::{Launch, workspace},
};

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
/// The same as bytes.
const PIXEL: &[u8] = b"\
    \x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x01\x00\x00\
    \x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\x0d\x49\x44\x41\x54\x78\xda\x63\
    \x64\x60\xf8\x5f\x0f\x00\x02\x87\x01\x80\xeb\x47\xba\x92\x00\x00\x00\x00\x49\x45\x4e\x44\
    \xae\x42\x60\x82";
const ID: &str = "sha256:497790947d4666760ce38f3c00e852c71fdb66cae849bae8e9ede352719e1581";

fn upload() -> Value {
    json!({ "type": "image", "data": PNG, "mediaType": "image/png" })
}

fn reference() -> Value {
    json!({ "attachmentId": ID, "mediaType": "image/png", "width": 1, "height": 1, "bytes": 70 })
}

fn stored() -> Value {
    json!({ "type": "image", "attachment": reference() })
}

/// A host whose model says what it sees.
fn seeing() -> Stage {
    let look = json!({ "answer": [{ "text": "[{{images}}]" }] });
    Setting::scripted(json!([look])).seeing().ready()
}

/// Prompts `main` with these blocks and waits for its rest. Gives the text of the answer.
fn look(stage: &mut Stage, rests: usize, content: Value) -> String {
    let id = stage.peer.ask("session/prompt", "main", json!({ "content": content }));
    stage.peer.reply(&id);
    stage.peer.idle("main", rests);
    let events = stage.peer.events("main");
    let answer = of_kind(&events, "assistant/message").pop().expect("an answer").clone();
    answer["data"]["message"]["content"][0]["text"].as_str().expect("text").to_owned()
}

/// Decision 39, decision 47: the model gets the bytes, the log only names them, and `attachment/read` gives them back.
#[test]
fn a_model_that_takes_images_sees_those_of_the_prompt() {
    let mut stage = seeing();
    let words = json!({ "type": "text", "text": "look" });
    assert_eq!(look(&mut stage, 1, json!([words, upload()])), "[image/png 1x1 70 bytes]");
    let events = stage.peer.events("main");
    assert!(!events.iter().any(|event| event.to_string().contains(PNG)), "no bytes in the log");
    for (kind, place) in
        [("agent/inbox/spliced", "/data/inserted/0/content"), ("user/message", "/data/content")]
    {
        let content = of_kind(&events, kind)[0].pointer(place);
        assert_eq!(content, Some(&json!([words, stored()])), "{kind}");
    }
    let read = stage.peer.call("attachment/read", "main", json!({ "attachmentId": ID }));
    assert_eq!(read, json!({ "attachment": reference(), "data": PNG }));
    let none = stage.peer.refusal(
        "attachment/read",
        "main",
        json!({ "attachmentId": ID.replace('4', "5") }),
    );
    assert_eq!(
        (&none["code"], &none["details"]["reason"]),
        (&json!("attachment-error"), &json!("ATTACHMENT_NOT_REFERENCED"))
    );
}

/// Design rule 5: a receipt promises the image with the prompt, whatever happens to the host.
#[test]
fn images_outlive_a_host_that_is_killed() {
    let mut stage = seeing();
    look(&mut stage, 1, json!([upload()]));
    stage.kill();
    stage.restart();
    stage.resume("main");
    // By reference, as clients of the baseline do, and with a name.
    let mut named = stored();
    named["attachment"]["name"] = "a.png".into();
    assert_eq!(look(&mut stage, 1, json!([named])), "[image/png 1x1 70 bytes]");
    let events = stage.peer.events("main");
    assert_eq!(of_kind(&events, "user/message")[0]["data"]["content"], json!([named]));
}

/// B-124: what is wrong is said with its code, and nothing of it is stored or logged.
#[test]
fn images_that_are_none_are_refused_before_anything_is_logged() {
    let mut stage = seeing();
    let with = |member: &str, value: Value| {
        let mut block = upload();
        block[member] = value;
        block
    };
    let many = Value::from(vec![upload(); 21]);
    for (content, reason, message) in [
        (many, "TOO_MANY_IMAGES", "the prompt has 21 images, 20 or fewer are possible"),
        (
            json!([with("data", "!".into())]),
            "INVALID_IMAGE_BASE64",
            "image 1 of the prompt has `data` that is not the padded base64, without white space, of at least one byte",
        ),
        (
            json!([upload(), with("mediaType", "image/gif".into())]),
            "IMAGE_TYPE_MISMATCH",
            "image 2 of the prompt is declared as image/gif, but its bytes are image/png",
        ),
        (
            json!([with("data", PNG[..80].into())]),
            "INVALID_IMAGE",
            "image 1 of the prompt is not a whole image of type image/png",
        ),
        (
            json!([upload(), { "type": "image", "attachment": { "attachmentId": ID } }]),
            "ATTACHMENT_NOT_FOUND",
            &format!(
                "image 2 of the prompt refers to {ID:?}, which is not kept here; send its bytes"
            ),
        ),
    ] {
        let refusal = stage.peer.refusal("session/prompt", "main", json!({ "content": content }));
        assert_eq!(
            refusal,
            json!({ "code": "attachment-error", "message": message, "details": { "reason": reason } })
        );
    }
    assert_eq!(of_kind(&stage.log("main"), "agent/inbox/spliced").len(), 0);
    // The session is none the worse for it.
    assert_eq!(look(&mut stage, 1, json!([{ "type": "text", "text": "nothing" }])), "[]");
}

/// B-124: what a model cannot be shown is refused first of all, and leaves no trace.
#[test]
fn a_prompt_with_an_image_is_refused_where_the_model_takes_none() {
    let mut stage = Setting::scripted(json!([{ "answer": [{ "text": "well" }] }])).ready();
    let mut broken = upload();
    broken["data"] = "!".into();
    for content in [json!([upload()]), json!([broken]), json!([stored()])] {
        let refusal = stage.peer.refusal("session/prompt", "main", json!({ "content": content }));
        assert_eq!(refusal["code"], "attachment-error", "{refusal}");
        assert_eq!(
            refusal["details"],
            json!({ "reason": "MODEL_DOES_NOT_SUPPORT_IMAGES" }),
            "{content}"
        );
    }
    assert_eq!(of_kind(&stage.log("main"), "agent/inbox/spliced").len(), 0);
    assert_eq!(look(&mut stage, 1, json!([{ "type": "text", "text": "words" }])), "well");
}

/// L-101, L-57: a picture in a file is shown by its reference, and only to a model that takes images.
#[test]
fn a_picture_in_the_workspace_is_read_by_its_reference() {
    let script = json!([
        rule("go", 1, json!([call("c1", "read_image", json!({ "file_path": "a.png" }))])),
        { "answer": [{ "text": "[{{images}}]" }] },
    ]);
    let mut stage = Setting::scripted(script.clone()).seeing().ready();
    fs::write(stage.place.cwd.join("a.png"), PIXEL).expect("a file");
    let turn = stage.turn("go");
    let content = &of_kind(&turn, "tool/result")[0]["data"]["message"]["content"][0]["content"];
    assert_eq!(content[1], stored(), "{content}");
    let answer = &of_kind(&turn, "assistant/message")[1]["data"]["message"]["content"];
    assert_eq!(answer[0]["text"], "[image/png 1x1 70 bytes]");
    let read = stage.peer.call("attachment/read", "main", json!({ "attachmentId": ID }));
    assert_eq!(read["data"], PNG);

    let mut blind = Setting::scripted(script).ready();
    fs::write(blind.place.cwd.join("a.png"), PIXEL).expect("a file");
    let turn = blind.turn("go");
    let text = "Error: the model of this session does not take images";
    assert_eq!(results(&turn), [("c1".to_owned(), text.to_owned(), true)]);
    assert_eq!(reason(&turn), json!({ "kind": "completed" }));
}

/// A runtime as published clients start it, with a session root of JSON lines.
fn profile(place: &Place, model: &ModelServer, patches: &[&Path]) -> Launch {
    let mut launch = Launch::new(["--profile", "sdk"]);
    for patch in patches {
        launch = launch.arg("--patch").arg(*patch);
    }
    launch
        .directory(&place.cwd)
        .env("HOME", place.root())
        .env("DSH_HOME", text(&place.home))
        .env("DEEPSEEK_BASE_URL", model.base_url())
        .env("DEEPSEEK_API_KEY", "sk-mock")
}

fn prompt() -> Value {
    json!({ "sessionId": "main", "contentBlocks": [
        { "type": "text", "text": "PROMPT: PLAIN image" },
        { "type": "image", "data": PNG, "mimeType": "image/png" },
    ]})
}

/// The content of the prompt as it was recorded from the later runtime.
fn recorded() -> Value {
    let file = workspace().join("tests/vectors/sdk/v0.2.1rc2.prompt-image.jsonl");
    let lines = fs::read_to_string(file).expect("the recording");
    let events = lines.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line.pointer("/frame/params/event").cloned()
    });
    let events: Vec<_> = events.collect();
    of_kind(&events, "user/message")[0]["data"]["content"].clone()
}

/// S-58: what the SDK door logs is what was recorded, and its bytes are in the session root.
#[test]
fn an_image_of_the_sdk_wire_is_logged_as_it_was_recorded() {
    let (place, model) = (Place::new(), ModelServer::start());
    let mut client = Client::new(profile(&place, &model, &[]).start());
    client.initialize(text(&place.cwd));
    client.ask("p1", "session/prompt", prompt());
    client.until(|frame| client::is_idle(frame, "main"));
    let events = client.events("main");
    assert_eq!(of_kind(&events, "user/message")[0]["data"]["content"], recorded());
    let failed = reason(&events);
    assert_eq!(
        failed["error"],
        json!({
            "message": "The DeepSeek chat-completions adapter does not support image content.",
            "code": "UNSUPPORTED_CONTENT",
        })
    );
    // L-90 fails the turn that brings the image, and no other.
    client.turn("main", "PROMPT: PLAIN words");
    assert_eq!(reason(&client.events("main")), json!({ "kind": "completed" }));
    let asked = model.requests().pop().expect("a request").text;
    assert!(asked.contains("[an image was left out here: this model takes no images]"), "{asked}");

    let kept = place.home.join("sessions/.attachments").join(&ID["sha256:".len()..]);
    assert_eq!(fs::read(kept).expect("the bytes").len(), 70);

    client.ask(
        "p2",
        "session/prompt",
        json!({ "sessionId": "main", "contentBlocks": [
            { "type": "image", "data": PNG, "mimeType": "image/webp" },
        ]}),
    );
    assert_eq!(
        error(&client.response("p2")),
        "-32603 image 1 of the prompt is declared as image/webp, but its bytes are image/png"
    );
    assert_eq!(client.shut_down(), 0);
}

/// S-58, in the words of the later runtime.
#[test]
fn a_profile_without_a_store_for_images_refuses_them() {
    let (place, model) = (Place::new(), ModelServer::start());
    let patch = place.file("patch.yml", "- {id: attachment-local, disabled: true}\n");
    let mut client = Client::new(profile(&place, &model, &[&patch]).start());
    client.initialize(text(&place.cwd));
    assert_eq!(
        error(&client.call("p1", "session/prompt", prompt())),
        "-32603 SDK image prompt requires an attachment store"
    );
    client.turn("main", "PROMPT: PLAIN words");
    assert_eq!(client.shut_down(), 0);
}
