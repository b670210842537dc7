//! Real stores of both kinds: what a prompt becomes, and what is given back.

use std::{
    path::Path,
    sync::{Arc, mpsc},
};

use serde_json::{Value, json};
use transom_harness::{
    block::Block,
    image::ImageLimits,
    ports::{Append, Commit, Store},
};
use transom_store::{Durability, JsonlOptions, JsonlStore, SqliteStore};

use super::{keep, read};

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const GIF: &str = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";
const ID: &str = "sha256:497790947d4666760ce38f3c00e852c71fdb66cae849bae8e9ede352719e1581";

/// Tells a story of every store.
fn on_each(story: impl Fn(&dyn Store, &mpsc::Receiver<Commit>, &Path)) {
    for lines in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let (sender, commits) = mpsc::sync_channel(64);
        let sink = Box::new(move |commit| drop(sender.send(commit)));
        let store: Arc<dyn Store> = if lines {
            let options = JsonlOptions::default();
            Arc::new(JsonlStore::open(&home.path().join("root"), options, sink).unwrap())
        } else {
            let path = home.path().join("store.db");
            Arc::new(SqliteStore::open(&path, Durability::Process, sink).unwrap())
        };
        story(&*store, &commits, home.path());
        store.close().unwrap();
    }
}

fn blocks(value: Value) -> Vec<Block> {
    serde_json::from_value(value).unwrap()
}

/// What stands in the log, or the code and the reason of the refusal.
fn kept(store: &dyn Store, content: Value) -> Result<Value, (String, String)> {
    match keep(store, blocks(content), &ImageLimits::default()) {
        Ok(blocks) => Ok(serde_json::to_value(blocks).unwrap()),
        Err(failure) => {
            let reason = failure.details.get("reason").and_then(Value::as_str).unwrap_or_default();
            Err((failure.code.as_str().to_owned(), reason.to_owned()))
        }
    }
}

fn upload(data: &str, media_type: &str) -> Value {
    json!({ "type": "image", "data": data, "mimeType": media_type })
}

/// The shape of the recording `v0.2.1rc2.prompt-image.jsonl` (S-58).
#[test]
fn an_upload_becomes_a_reference_to_what_is_durable() {
    on_each(|store, _, home| {
        let content = json!([{ "type": "text", "text": "look" }, upload(PNG, "image/png")]);
        let reference = json!({ "type": "image", "attachment": {
            "attachmentId": ID, "mediaType": "image/png", "width": 1, "height": 1, "bytes": 70,
        }});
        let expected = json!([{ "type": "text", "text": "look" }, reference]);
        assert_eq!(kept(store, content.clone()), Ok(expected.clone()));
        let found = store.attachment(ID).unwrap().unwrap();
        assert_eq!((found.bytes.len(), found.media_type.as_deref()), (70, Some("image/png")));

        // Many at once are one, and nothing unfinished stays behind.
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(kept(store, content.clone()), Ok(expected.clone())));
            }
        });
        let directory = home.join("root/.attachments");
        if directory.is_dir() {
            let mut names: Vec<_> = std::fs::read_dir(&directory)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            let digest = ID.strip_prefix("sha256:").unwrap();
            assert_eq!(names, [digest.to_owned(), format!("{digest}.type")]);
        }
        // What is kept can be referred to.
        let again = json!([{ "type": "image", "attachment": { "attachmentId": ID } }]);
        assert_eq!(kept(store, again), Ok(json!([reference])));
    });
}

#[test]
fn nothing_is_stored_unless_all_can_be() {
    on_each(|store, _, _| {
        let refused =
            |second: Value| kept(store, json!([upload(PNG, "image/png"), second])).unwrap_err();
        for (second, reason) in [
            (upload("AA", "image/png"), "INVALID_IMAGE_BASE64"),
            (upload(GIF, "image/webp"), "IMAGE_TYPE_MISMATCH"),
            (upload("AAAA", "image/gif"), "INVALID_IMAGE"),
            (
                json!({ "type": "image", "attachment": { "attachmentId": ID } }),
                "ATTACHMENT_NOT_FOUND",
            ),
            (
                json!({ "type": "image", "attachment": { "attachmentId": "../../store.db" } }),
                "ATTACHMENT_NOT_FOUND",
            ),
        ] {
            assert_eq!(refused(second), ("attachment-error".to_owned(), reason.to_owned()));
            assert_eq!(store.attachment(ID), Ok(None), "{reason}");
        }
    });
}

#[test]
fn a_store_that_cannot_keep_says_so() {
    on_each(|store, _, _| {
        store.close().unwrap();
        let (code, reason) = kept(store, json!([upload(PNG, "image/png")])).unwrap_err();
        assert_eq!((&*code, &*reason), ("attachment-error", "ATTACHMENT_WRITE_FAILED"));
    });
}

/// B-156.
#[test]
fn an_attachment_is_read_where_the_sessions_log_names_it() {
    on_each(|store, commits, _| {
        let content = kept(store, json!([upload(PNG, "image/png")])).unwrap();
        let mut named = content.clone();
        named[0]["attachment"]["name"] = "a.png".into();
        let lookalike = json!({ "content": [{ "type": "text", "text": content.to_string() }] });
        let result =
            json!({ "message": { "content": [{ "type": "tool-result", "content": named }] } });
        let texts = [("quoting", lookalike), ("naming", result)];
        let mut number = 0;
        for (session, data) in texts {
            let events = [json!({ "more": 1 }), data].into_iter().enumerate().map(|(seq, data)| {
                number += 1;
                let text = json!({ "type": "note", "seq": seq, "time": 1, "data": data });
                Append {
                    number,
                    session: session.into(),
                    header: format!(r#"{{"id":"{session}","version":0,"createdAt":1}}"#).into(),
                    seq: seq as u64,
                    time: 1,
                    kind: "note".into(),
                    text: text.to_string().into(),
                }
            });
            store.append(events.collect());
        }
        while commits.recv().unwrap() != Commit::Through(4) {}

        let body = read(store, &"naming".into(), ID, 2).unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body, json!({ "attachment": named[0]["attachment"], "data": PNG }));
        for (session, id, events) in
            [("naming", ID, 1), ("naming", "sha256:00", 2), ("quoting", ID, 2), ("nobody", ID, 0)]
        {
            let failure = read(store, &session.into(), id, events).unwrap_err();
            assert_eq!(failure.details["reason"], "ATTACHMENT_NOT_REFERENCED", "{session} {id}");
        }
    });
}
