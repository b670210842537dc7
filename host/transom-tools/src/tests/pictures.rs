//! `read_image`: a picture is kept and named; what is none, or too large, or hidden, is not (L-101, S-58).

use std::sync::Mutex;

use serde_json::json;
use transom_harness::{
    image::ImageReference,
    ports::{Asker, Attachment, Attachments, StoreError},
};

use super::*;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03\x08\x06\0\0\0\0\0\0\0\0\0\0\x01IDATx\0\0\0\0\0\0\0\0IEND\0\0\0\0";

/// A store that only remembers.
#[derive(Default)]
struct Kept {
    kept: Mutex<Vec<(Vec<u8>, Option<String>)>>,
    is_full: bool,
}

impl Attachments for Kept {
    fn keep_attachment(
        &self,
        bytes: &[u8],
        media_type: Option<&str>,
    ) -> Result<String, StoreError> {
        if self.is_full {
            return Err(StoreError::Io("no room".to_owned()));
        }
        self.kept.lock().unwrap().push((bytes.to_vec(), media_type.map(str::to_owned)));
        Ok("sha256:x".to_owned())
    }

    fn attachment(&self, _: &str) -> Result<Option<Attachment>, StoreError> {
        Ok(None)
    }
}

fn bench(kept: &Arc<Kept>) -> Bench {
    Bench::with(|options| {
        options.enabled = vec!["read_image".to_owned()];
        options.attachments = Some(kept.clone());
    })
}

#[tokio::test]
async fn a_picture_is_kept_and_named() {
    let kept = Arc::new(Kept::default());
    let bench = bench(&kept);
    bench.put("a.png", PNG);
    let outcome = bench.call("read_image", json!({ "file_path": "a.png" })).await;
    let [Block::Text { text }, image] = outcome.content.as_slice() else { panic!("{outcome:?}") };
    assert_eq!(
        *text,
        format!(
            "<path>{}</path>\n<type>image</type>\n<content>\nimage/png, 2 x 3 pixels, 58 bytes\n</content>",
            bench.shown("a.png")
        )
    );
    let reference = ImageReference::read(image).unwrap();
    assert_eq!((reference.width, reference.height, reference.bytes), (2, 3, 58));
    assert_eq!(reference.attachment_id, "sha256:x");
    let all = kept.kept.lock().unwrap().clone();
    assert_eq!(all, [(PNG.to_vec(), Some("image/png".to_owned()))]);
    assert!(
        bench.registry.is_parallel(&"main".into(), "read_image", r#"{"file_path":"a.png"}"#),
        "L-57"
    );
}

#[tokio::test]
async fn what_is_no_picture_is_not_kept() {
    let kept = Arc::new(Kept::default());
    let bench = bench(&kept);
    bench.put("text.png", "hello");
    bench.put("cut.png", &PNG[..40]);
    bench.put("large.png", vec![0; (5 << 20) + 1]);
    fs::create_dir(bench.path("dir")).unwrap();
    bench.fifo("pipe");
    for (name, why) in [
        ("text.png", "it is none of image/png, image/jpeg, image/webp, image/gif"),
        ("cut.png", "it is not a whole image of type image/png"),
        ("large.png", "it has 5242881 bytes, 5242880 or fewer are possible"),
        ("dir", "not a regular file"),
        ("pipe", "not a regular file"),
        ("missing", "not found"),
    ] {
        let (message, _) = bench.error("read_image", json!({ "file_path": name })).await;
        assert_eq!(message, format!("cannot read \"{}\": {why}", bench.shown(name)));
    }
    let (message, _) =
        bench.error("read_image", json!({ "file_path": "/proc/self/environ" })).await;
    assert_eq!(message, "cannot read \"/proc/self/environ\": hidden by this host");
    assert_eq!(kept.kept.lock().unwrap().len(), 0);
}

/// L-90: a picture in the log of such a session would fail each of its later requests.
#[tokio::test]
async fn a_session_whose_model_takes_no_images_is_shown_none() {
    let kept = Arc::new(Kept::default());
    let bench = bench(&kept);
    bench.put("a.png", PNG);
    let arguments = json!({ "file_path": "a.png" });
    bench.registry.note(&"main".into(), false);
    let (message, _) = bench.error("read_image", arguments.clone()).await;
    assert_eq!(message, "the model of this session does not take images");
    assert_eq!(kept.kept.lock().unwrap().len(), 0);
    // Another step, another model.
    bench.registry.note(&"main".into(), true);
    assert!(!bench.call("read_image", arguments.clone()).await.is_error);

    // What a session is told may be found out beside the loop, and be late: nothing of it stays.
    bench.registry.note(&"main".into(), false);
    bench.registry.forget(&"main".into());
    let asker = Asker { session: "main".into(), cwd: None, root: None, images: false };
    bench.registry.specs_for(&asker);
    assert!(!bench.call("read_image", arguments).await.is_error);
}

#[tokio::test]
async fn a_picture_that_cannot_be_kept_is_not_shown() {
    let bench = bench(&Arc::new(Kept { is_full: true, ..Kept::default() }));
    bench.put("a.png", PNG);
    let (message, _) = bench.error("read_image", json!({ "file_path": "a.png" })).await;
    assert_eq!(message, format!("the image \"{}\" cannot be kept: no room", bench.shown("a.png")));
}
