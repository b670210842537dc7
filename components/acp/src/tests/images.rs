//! The option `images` (decision 39): what is advertised, and which prompts may hold images (A-110, A-128 to A-131).

use super::*;

const PICTURE: &str = "iVBORw0KGgo=";

fn initialize(reply: &str) -> [String; 2] {
    [
        r#"0 unit {"id":0,"method":"initialize","params":{"protocolVersion":1}}"#.to_owned(),
        reply.to_owned(),
    ]
}

/// Opens `s` behind a handshake whose check of the model comes out like this.
fn opened(check: &str) -> Vec<String> {
    let mut inputs = initialize(check).to_vec();
    let numbered = |line: &&str| line.replace("id=2", "id=3").replace("id=1", "id=2");
    inputs.extend(OPENED.iter().map(numbered));
    inputs
}

const TAKES: &str = r#"0 frame reply models/check id=1 {"route":{"provider":"p"},"images":true}"#;
const TAKES_NOT: &str =
    r#"0 frame reply models/check id=1 {"route":{"provider":"p"},"images":false}"#;

fn with_images() -> Setup {
    with_options(r#"{"images":true,"model":"m"}"#)
}

/// What becomes of a prompt behind that handshake.
fn prompted(check: &str, blocks: &str) -> Vec<String> {
    let mut inputs = opened(check);
    let count = said_in(with_images(), &inputs).len();
    inputs.push(format!(
        r#"1 unit {{"id":7,"method":"session/prompt","params":{{"sessionId":"s","prompt":{blocks}}}}}"#
    ));
    said_in(with_images(), &inputs).split_off(count)
}

fn image(data: &str, media_type: &str) -> String {
    format!(r#"{{"type":"image","data":"{data}","mimeType":"{media_type}"}}"#)
}

#[test]
fn a_110_images_are_advertised_where_the_model_takes_them() {
    for (reply, image) in [
        (TAKES, "true"),
        (TAKES_NOT, "false"),
        (
            r#"0 frame failure models/check id=1 {"code":"no-adapter","message":"x","details":{}}"#,
            "false",
        ),
        ("0 end", "false"),
    ] {
        let said = said_in(with_images(), &initialize(reply));
        assert_eq!(said[0], r#"frame request models/check id=1 {"model":"m"}"#);
        let capability = format!(r#""promptCapabilities":{{"image":{image},"audio":false,"#);
        assert!(said[1].contains(&capability), "{reply}: {}", said[1]);
    }
}

#[test]
fn a_130_images_stand_between_the_texts() {
    let picture = image(PICTURE, "image/png");
    let blocks = format!(
        r#"[{{"type":"text","text":"a"}},{{"type":"resource_link","name":"n","uri":"u:v"}},{picture},{picture},{{"type":"text","text":"b"}}]"#
    );
    let shown = format!(r#"{{"type":"image","data":"{PICTURE}","mediaType":"image/png"}}"#);
    let text = r#"{"type":"text","text":"a\n[resource_link name=\"n\" uri=\"u:v\"]\n"}"#;
    assert_eq!(
        prompted(TAKES, &blocks),
        [format!(
            r#"frame request session/prompt session=s id=4 {{"content":[{text},{shown},{shown},{{"type":"text","text":"b"}}]}}"#
        )]
    );
    assert_eq!(
        prompted(TAKES, &format!("[{picture}]")),
        [format!(r#"frame request session/prompt session=s id=4 {{"content":[{shown}]}}"#)]
    );
}

#[test]
fn a_128_a_129_what_is_no_image_prompt_is_refused() {
    let type_message = "image mimeType must be image/png, image/jpeg, image/webp, or image/gif";
    let base64 = "image data must be canonical base64";
    for (block, why) in [
        (image(PICTURE, "image/bmp"), type_message),
        (image(PICTURE, "IMAGE/PNG"), type_message),
        (image("", "image/png"), "Image is empty."),
        (image("iVBORw0KGgo", "image/png"), base64),
        (image("iVBORw0KGgp=", "image/png"), base64),
        (image("iVBORw0KGg_-", "image/png"), base64),
        (image("iVBO Rw0", "image/png"), base64),
        (image("====", "image/png"), base64),
        (image("AA=A", "image/png"), base64),
        (
            r#"{"type":"audio","data":"AAAA","mimeType":"audio/wav"}"#.to_owned(),
            "audio prompt content is not supported",
        ),
        (
            r#"{"type":"resource","resource":{"uri":"file:///a","text":"t"}}"#.to_owned(),
            "embedded resource prompt content is not supported",
        ),
    ] {
        let message = format!("Invalid params: {why}");
        let good = image(PICTURE, "image/png");
        for blocks in [format!("[{block}]"), format!("[{good},{block}]")] {
            assert_eq!(prompted(TAKES, &blocks), [refused("7", -32602, &message)], "{blocks}");
        }
    }
    for right in ["AA==", "AAA=", "AAAA", "+/+/"] {
        assert_eq!(
            prompted(TAKES, &format!("[{}]", image(right, "image/gif"))).len(),
            1,
            "{right}"
        );
    }
    let unsaid = "Invalid params: inline image prompts were not advertised by this connection";
    let picture = format!("[{}]", image(PICTURE, "image/png"));
    assert_eq!(prompted(TAKES_NOT, &picture), [refused("7", -32602, unsaid)]);
    let blank = prompted(TAKES, r#"[{"type":"text","text":" "}]"#);
    assert_eq!(blank, [refused("7", -32602, "Invalid params: empty prompt")]);
}

#[test]
fn a_128_what_the_host_finds_out_is_told_in_the_words_of_the_protocol() {
    for (reason, words) in [
        ("INVALID_IMAGE", "Unsupported or malformed image data."),
        ("IMAGE_TYPE_MISMATCH", "Declared image type does not match its bytes."),
        ("TOO_MANY_IMAGES", "the host's words"),
    ] {
        let mut inputs = opened(TAKES);
        let picture = image(PICTURE, "image/png");
        inputs.extend([
            format!(
                r#"1 unit {{"id":7,"method":"session/prompt","params":{{"sessionId":"s","prompt":[{picture}]}}}}"#
            ),
            format!(
                r#"2 frame failure session/prompt session=s id=4 {{"code":"attachment-error","message":"the host's words","details":{{"reason":"{reason}"}}}}"#
            ),
        ]);
        let message = format!("Invalid params: {words}");
        assert_eq!(said_in(with_images(), &inputs).last(), Some(&refused("7", -32602, &message)));
    }
}
