//! `read_image`: shows the model a picture that is a file (L-101). The bytes are kept as an attachment, and the result
//! only names them (S-58); whether the model takes images is known from its last step.

use std::{
    collections::HashSet,
    io::Read as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::{Map, Value, json};
use transom_frame::SessionId;
use transom_harness::{
    block::Block,
    image::{Facts, ImageLimits, ImageReference, inspect},
    ports::{Attachments, ToolOutcome, ToolSpec},
};

use crate::{
    files::{self, Files, Verb, cannot, envelope, refused},
    tool::{Call, Running, Tool, ToolError, blocking, filled},
};

/// Which sessions' models take no images. A picture in the log of such a session would fail every request from then
/// on (L-90). Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sight {
    blind: Arc<Mutex<HashSet<SessionId>>>,
}

impl Sight {
    /// Notes what a session's model takes.
    pub(crate) fn note(&self, session: &SessionId, images: bool) {
        let mut blind = self.lock();
        if images {
            blind.remove(session);
        } else {
            blind.insert(session.clone());
        }
    }

    /// Forgets a session that is gone.
    pub(crate) fn forget(&self, session: &SessionId) {
        self.lock().remove(session);
    }

    fn is_blind(&self, session: &SessionId) -> bool {
        self.lock().contains(session)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.blind.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tool.
pub(crate) struct ReadImage {
    files: Files,
    attachments: Arc<dyn Attachments>,
    limits: ImageLimits,
    sight: Sight,
}

impl ReadImage {
    pub(crate) fn new(files: Files, attachments: Arc<dyn Attachments>, sight: Sight) -> ReadImage {
        ReadImage { files, attachments, limits: ImageLimits::default(), sight }
    }
}

impl Tool for ReadImage {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_image".to_owned(),
            description:
                "Shows a picture: a PNG, JPEG, WebP or GIF file. Only for models that can \
                see pictures; for text use read."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "The file; a relative path stands in the working directory."
                    }
                },
                "required": ["file_path"]
            }),
        }
    }

    fn is_parallel(&self, _arguments: &Map<String, Value>) -> bool {
        true
    }

    fn check(&self, arguments: &Map<String, Value>) -> Result<(), ToolError> {
        filled(arguments, "file_path").map(drop)
    }

    fn run(&self, call: Call) -> Running {
        if self.sight.is_blind(&call.session) {
            let error = ToolError::new("the model of this session does not take images");
            return Box::pin(async move { Err(error) });
        }
        let (files, attachments, limits) =
            (self.files.clone(), self.attachments.clone(), self.limits);
        Box::pin(blocking(move || read_image(&call, &files, &*attachments, &limits)))
    }
}

fn read_image(
    call: &Call,
    files: &Files,
    attachments: &dyn Attachments,
    limits: &ImageLimits,
) -> Result<ToolOutcome, ToolError> {
    let path = call.path(call.filled_text("file_path")?);
    let bounds = files.bounds(call)?;
    let (_, spot) = files::find(&bounds, Verb::Read, &path)?;
    let file = files::open(&bounds, Verb::Read, &path, &spot)?;
    let failed = |error: std::io::Error| refused(Verb::Read, &path, &error);
    let length = file.metadata().map_err(failed)?.len();
    if length > limits.bytes_max as u64 {
        let why = format!("it has {length} bytes, {} or fewer are possible", limits.bytes_max);
        return Err(cannot(Verb::Read, &path, &why));
    }
    // It may have grown meanwhile; then it is too long by one byte.
    let mut bytes = Vec::new();
    file.take(limits.bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    let facts = inspect(&bytes, None, limits)
        .map_err(|error| cannot(Verb::Read, &path, &format!("it {error}")))?;
    if call.abort.is_set() {
        return Err(ToolError::aborted());
    }
    let Facts { media_type, width, height } = facts;
    let id = attachments.keep_attachment(&bytes, Some(media_type.as_str())).map_err(|error| {
        ToolError::new(format!("the image \"{}\" cannot be kept: {error}", path.display()))
    })?;
    let told = format!("{}, {width} x {height} pixels, {} bytes", media_type.as_str(), bytes.len());
    let told = envelope(&path, "image", &told);
    let image = ImageReference::new(id, facts, bytes.len());
    Ok(ToolOutcome {
        content: vec![Block::text(told), image.block()],
        ..ToolOutcome::text(String::new())
    })
}
