//! What counts as an image, what is said of one that does not, and what is logged (S-58, S-85, A-128, B-124).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Facts, ImageLimits, ImageReference, MediaType, Part, Reason, inspect, judge};
use crate::block::Block;

/// One pixel each, whole, made by hand.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const GIF: &str = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";
const WEBP: &str = "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA";

/// Headers, one scan with a stuffed byte and a restart in it, and the end: what a decoder of segments walks through.
fn jpeg() -> Vec<u8> {
    let mut bytes = b"\xff\xd8\xff\xe0\x00\x04ab".to_vec();
    bytes.extend(b"\xff\xc0\x00\x0b\x08\x00\x02\x00\x03\x01\x01\x11\x00");
    bytes.extend(b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00");
    bytes.extend(b"\x12\xff\x00\x34\xff\xd0\x56\xff\xd9");
    bytes
}

fn bytes(base64: &str) -> Vec<u8> {
    STANDARD.decode(base64).unwrap()
}

fn samples() -> [(MediaType, Vec<u8>, (u32, u32)); 4] {
    [
        (MediaType::Png, bytes(PNG), (1, 1)),
        (MediaType::Jpeg, jpeg(), (3, 2)),
        (MediaType::Webp, bytes(WEBP), (1, 1)),
        (MediaType::Gif, bytes(GIF), (1, 1)),
    ]
}

fn block(value: Value) -> Block {
    serde_json::from_value(value).unwrap()
}

fn upload(data: &str, media_type: &str) -> Block {
    block(json!({"type": "image", "data": data, "mediaType": media_type}))
}

/// The reason why a prompt of these blocks is not taken, and in which words.
fn refused(content: Vec<Block>, limits: &ImageLimits) -> (Reason, String) {
    let error = judge(content, limits).unwrap_err();
    (error.reason, error.message)
}

const LIMITS: ImageLimits =
    ImageLimits { count_max: 2, bytes_max: 80, total_bytes_max: 120, pixels_max: 4 };

#[test]
fn a_whole_image_is_known_by_its_bytes() {
    let limits = ImageLimits::default();
    for (media_type, bytes, (width, height)) in samples() {
        let facts = Facts { media_type, width, height };
        assert_eq!(inspect(&bytes, None, &limits), Ok(facts));
        assert_eq!(inspect(&bytes, Some(media_type), &limits), Ok(facts));
        let mut longer = bytes.clone();
        longer.extend(b"more");
        assert_eq!(inspect(&longer, None, &limits), Ok(facts), "what follows the end is no harm");
    }
}

#[test]
fn an_image_that_was_cut_off_anywhere_is_none() {
    for (media_type, bytes, _) in samples() {
        for end in 0..bytes.len() {
            // The last pad byte of a WebP file belongs to its length.
            let error = inspect(&bytes[..end], None, &ImageLimits::default()).unwrap_err();
            assert_eq!(error.reason, Reason::Invalid, "{media_type:?} of {end} bytes");
        }
    }
}

#[test]
fn bytes_of_another_type_are_refused_with_both_names() {
    for (is, bytes, _) in samples() {
        for declared in MediaType::ALL.into_iter().filter(|declared| *declared != is) {
            let error = inspect(&bytes, Some(declared), &ImageLimits::default()).unwrap_err();
            let text =
                format!("is declared as {}, but its bytes are {}", declared.as_str(), is.as_str());
            assert_eq!((error.reason, error.message), (Reason::TypeMismatch, text));
        }
    }
}

/// B-124, in its order.
#[test]
fn what_is_wrong_with_a_prompts_images_is_said_with_the_image() {
    let check = |content: Vec<Block>, reason: Reason, message: &str| {
        assert_eq!(refused(content, &LIMITS), (reason, message.to_owned()));
    };
    let good = || upload(PNG, "image/png");
    check(
        vec![good(), good(), good()],
        Reason::TooMany,
        "the prompt has 3 images, 2 or fewer are possible",
    );
    let base64 = "image 2 of the prompt has `data` that is not the padded base64, without white space, of at least one byte";
    for data in ["", "AAA", "A===", "AA A", "AAAA\n", "_-8=", "AB=="] {
        check(vec![good(), upload(data, "image/png")], Reason::InvalidBase64, base64);
    }
    check(
        vec![good(), good()],
        Reason::TotalTooLarge,
        "the images of the prompt have 140 bytes together, 120 or fewer are possible",
    );
    let long = STANDARD.encode([0; 81]);
    check(
        vec![upload(&long, "image/png")],
        Reason::TooLarge,
        "image 1 of the prompt has 81 bytes, 80 or fewer are possible",
    );
    check(
        vec![upload(PNG, "image/bmp")],
        Reason::TypeMismatch,
        "image 1 of the prompt is declared as \"image/bmp\"; it must be one of image/png, image/jpeg, image/webp, image/gif",
    );
    check(
        vec![upload(GIF, "image/png")],
        Reason::TypeMismatch,
        "image 1 of the prompt is declared as image/png, but its bytes are image/gif",
    );
    check(
        vec![upload("aGVsbG8=", "image/png")],
        Reason::Invalid,
        "image 1 of the prompt is none of image/png, image/jpeg, image/webp, image/gif",
    );
    check(
        vec![upload(&STANDARD.encode(&bytes(PNG)[..60]), "image/png")],
        Reason::Invalid,
        "image 1 of the prompt is not a whole image of type image/png",
    );
    check(
        vec![upload(&STANDARD.encode(jpeg()), "image/jpeg")],
        Reason::TooManyPixels,
        "image 1 of the prompt has 3 x 2 pixels, 6 in all, 4 or fewer are possible",
    );
}

#[test]
fn a_block_that_is_neither_upload_nor_reference_is_refused() {
    let neither = "image 1 of the prompt needs `data` and `mediaType` of an upload, or `attachment` alone of what is kept";
    for members in [
        json!({"type": "image"}),
        json!({"type": "image", "data": PNG}),
        json!({"type": "image", "mediaType": "image/png"}),
        json!({"type": "image", "data": PNG, "mediaType": "image/png", "attachment": {"attachmentId": "x"}}),
        json!({"type": "image", "name": "n", "attachment": {"attachmentId": "x"}}),
    ] {
        let found = refused(vec![block(members)], &ImageLimits::default());
        assert_eq!(found, (Reason::Invalid, neither.to_owned()));
    }
    let check = |members: Value, message: &str| {
        let found = refused(vec![block(members)], &ImageLimits::default());
        assert_eq!(
            found,
            (Reason::Invalid, format!("image 1 of the prompt is no image block: {message}"))
        );
    };
    check(
        json!({"type": "image", "data": 7, "mediaType": "image/png"}),
        "invalid type: integer `7`, expected a string",
    );
    check(
        json!({"type": "image", "data": PNG, "mediaType": "image/png", "mimeType": "image/png"}),
        "duplicate field `mediaType`",
    );
    check(
        json!({"type": "image", "uri": "file:///x"}),
        "unknown field `uri`, expected one of `type`, `data`, `mediaType`, `mimeType`, `name`, `attachment`",
    );
}

#[test]
fn other_blocks_pass_to_the_letter_and_in_their_place() {
    let odd = block(json!({"type": "text", "text": "a", "more": 1}));
    let content = vec![
        odd.clone(),
        block(json!({"type": "image", "data": PNG, "mimeType": "image/png", "name": "a.png"})),
        Block::text("b"),
    ];
    let parts = judge(content, &ImageLimits::default()).unwrap();
    let facts = Facts { media_type: MediaType::Png, width: 1, height: 1 };
    assert_eq!(
        parts,
        [
            Part::Other(odd),
            Part::Upload { bytes: bytes(PNG), facts, name: Some("a.png".to_owned()) },
            Part::Other(Block::text("b")),
        ]
    );
}

fn claimed(attachment: Value, kept: Option<&[u8]>) -> Result<ImageReference, (Reason, String)> {
    let content = vec![block(json!({"type": "image", "attachment": attachment}))];
    let mut parts = judge(content, &ImageLimits::default()).unwrap();
    let Some(Part::Stored(claim)) = parts.pop() else { panic!("a claim") };
    claim.confirm(kept, &ImageLimits::default()).map_err(|error| (error.reason, error.message))
}

/// S-58: what is logged is what is kept, whatever was said of it.
#[test]
fn a_reference_holds_if_what_is_kept_bears_it_out() {
    let png = bytes(PNG);
    let whole = json!({"attachmentId": "sha256:x", "mediaType": "image/png", "width": 1, "height": 1, "bytes": 70, "name": "n"});
    let reference = claimed(whole.clone(), Some(&png)).unwrap();
    assert_eq!(
        serde_json::to_string(&reference.block()).unwrap(),
        r#"{"type":"image","attachment":{"attachmentId":"sha256:x","mediaType":"image/png","width":1,"height":1,"bytes":70,"name":"n"}}"#
    );
    assert_eq!(ImageReference::read(&reference.block()), Some(reference.clone()));
    let short = claimed(json!({"attachmentId": "sha256:x"}), Some(&png)).unwrap();
    assert_eq!(ImageReference { name: None, ..reference }, short);

    let check = |member: &str, value: Value, reason: Reason, message: &str| {
        let mut said = whole.clone();
        said[member] = value;
        let message = format!("image 1 of the prompt {message}");
        assert_eq!(claimed(said, Some(&png)), Err((reason, message)));
    };
    check("width", json!(2), Reason::Invalid, "says `width` is 2, but what is kept has 1");
    check("height", json!(3), Reason::Invalid, "says `height` is 3, but what is kept has 1");
    check("bytes", json!(71), Reason::Invalid, "says `bytes` is 71, but what is kept has 70");
    check(
        "mediaType",
        json!("image/gif"),
        Reason::TypeMismatch,
        "is declared as image/gif, but its bytes are image/png",
    );
    assert_eq!(
        claimed(whole, None),
        Err((
            Reason::NotFound,
            "image 1 of the prompt refers to \"sha256:x\", which is not kept here; send its bytes"
                .to_owned()
        ))
    );
}

proptest! {
    /// Whatever comes, there is an answer, and a cut of what is whole is never whole.
    #[test]
    fn no_bytes_are_too_odd_to_be_judged(
        which in 0_usize..4,
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        tail in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let (_, mut bytes, _) = samples()[which].clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.extend(tail);
        let _ = inspect(&bytes, None, &ImageLimits::default());
    }
}
