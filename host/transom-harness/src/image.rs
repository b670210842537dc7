//! Images in messages: what a prompt may carry, what bytes have to be to count as an image, and what is logged of
//! them (S-58, S-85, A-128, B-124). Keeping the bytes is the store's, showing them to a model the provider's.

mod left_out;
mod whole;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use imagesize::ImageType;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use transom_frame::{Code, Failure};

pub use self::left_out::without_images;
use crate::block::Block;

/// What an image may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MediaType {
    /// PNG.
    #[serde(rename = "image/png")]
    Png,
    /// JPEG.
    #[serde(rename = "image/jpeg")]
    Jpeg,
    /// WebP.
    #[serde(rename = "image/webp")]
    Webp,
    /// GIF.
    #[serde(rename = "image/gif")]
    Gif,
}

impl MediaType {
    /// All of them.
    pub const ALL: [MediaType; 4] =
        [MediaType::Png, MediaType::Jpeg, MediaType::Webp, MediaType::Gif];

    /// The name on wires and in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            MediaType::Png => "image/png",
            MediaType::Jpeg => "image/jpeg",
            MediaType::Webp => "image/webp",
            MediaType::Gif => "image/gif",
        }
    }

    /// The one of this name.
    pub fn parse(name: &str) -> Option<MediaType> {
        MediaType::ALL.into_iter().find(|known| known.as_str() == name)
    }
}

/// How much of images one message may carry (B-124).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// Images in one message, uploads and references together.
    pub count_max: usize,
    /// Bytes of one image.
    pub bytes_max: usize,
    /// Bytes of all uploads of a message together.
    pub total_bytes_max: usize,
    /// Width times height. Small files can stand for pictures that no memory holds.
    pub pixels_max: u64,
}

impl Default for ImageLimits {
    /// What published clients count on.
    fn default() -> ImageLimits {
        ImageLimits {
            count_max: 20,
            bytes_max: 5 << 20,
            total_bytes_max: 100 << 20,
            pixels_max: 40_000_000,
        }
    }
}

/// Why images are not taken; the code of `attachment-error` (B-124).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The model of the session takes no images.
    Unsupported,
    /// This host keeps no images.
    NoStore,
    /// More than [`ImageLimits::count_max`].
    TooMany,
    /// The text is not the one base64 form of some bytes.
    InvalidBase64,
    /// Together more than [`ImageLimits::total_bytes_max`].
    TotalTooLarge,
    /// No image, or not the whole of one; or a block that names none.
    Invalid,
    /// More than [`ImageLimits::bytes_max`].
    TooLarge,
    /// None of [`MediaType`], or not what the bytes are.
    TypeMismatch,
    /// More than [`ImageLimits::pixels_max`].
    TooManyPixels,
    /// Nothing is kept under that name.
    NotFound,
    /// The session's log does not name it (B-156).
    NotReferenced,
    /// The store could not keep it.
    WriteFailed,
}

impl Reason {
    /// The code in a failure's details.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Unsupported => "MODEL_DOES_NOT_SUPPORT_IMAGES",
            Reason::NoStore => "NO_ATTACHMENT_STORE",
            Reason::TooMany => "TOO_MANY_IMAGES",
            Reason::InvalidBase64 => "INVALID_IMAGE_BASE64",
            Reason::TotalTooLarge => "IMAGES_TOO_LARGE",
            Reason::Invalid => "INVALID_IMAGE",
            Reason::TooLarge => "IMAGE_TOO_LARGE",
            Reason::TypeMismatch => "IMAGE_TYPE_MISMATCH",
            Reason::TooManyPixels => "IMAGE_TOO_MANY_PIXELS",
            Reason::NotFound => "ATTACHMENT_NOT_FOUND",
            Reason::NotReferenced => "ATTACHMENT_NOT_REFERENCED",
            Reason::WriteFailed => "ATTACHMENT_WRITE_FAILED",
        }
    }
}

/// An image that is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ImageError {
    /// For programs.
    pub reason: Reason,
    /// For people; may be shown to the peer.
    pub message: String,
}

impl ImageError {
    /// An error with these words.
    pub fn new(reason: Reason, message: impl Into<String>) -> ImageError {
        ImageError { reason, message: message.into() }
    }

    /// The same, said of the n-th image of a prompt.
    fn of(self, number: usize) -> ImageError {
        ImageError { message: format!("image {number} of the prompt {}", self.message), ..self }
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Failure {
        Failure::new(Code::AttachmentError, error.message).with("reason", error.reason.as_str())
    }
}

/// What bytes are a picture of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// What the bytes are, whatever anybody calls them.
    pub media_type: MediaType,
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
}

/// What stands in the log for an image (S-85). Members are in the order in which published runtimes write them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageReference {
    /// `sha256:<hex>`.
    pub attachment_id: String,
    /// What the bytes are.
    pub media_type: MediaType,
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
    /// How many bytes there are.
    pub bytes: u64,
    /// What the person who sent it calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ImageReference {
    /// The reference to bytes that are kept under this name.
    pub fn new(attachment_id: String, facts: Facts, bytes: usize) -> ImageReference {
        let Facts { media_type, width, height } = facts;
        let bytes = bytes as u64;
        ImageReference { attachment_id, media_type, width, height, bytes, name: None }
    }

    /// The block that carries it.
    pub fn block(&self) -> Block {
        #[derive(Serialize)]
        struct Wire<'a> {
            r#type: &'static str,
            attachment: &'a ImageReference,
        }
        // String keys and whole numbers: this cannot fail.
        serde_json::value::to_raw_value(&Wire { r#type: "image", attachment: self })
            .map_or_else(|_| Block::text("[image]"), Block::Raw)
    }

    /// The reference that a block carries; `None` for every other block.
    pub fn read(block: &Block) -> Option<ImageReference> {
        #[derive(Deserialize)]
        struct Wire {
            attachment: ImageReference,
        }
        let Block::Raw(raw) = block else { return None };
        if block.kind() != "image" {
            return None;
        }
        serde_json::from_str::<Wire>(raw.get()).ok().map(|wire| wire.attachment)
    }
}

/// Whether a block is an image, however it is carried.
pub fn is_image(block: &Block) -> bool {
    matches!(block, Block::Raw(_)) && block.kind() == "image"
}

/// One block of a prompt, as far as it can be judged without a store.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// No image, and kept to the letter.
    Other(Block),
    /// An image to be kept.
    Upload {
        /// A whole image, within bounds.
        bytes: Vec<u8>,
        /// What they show.
        facts: Facts,
        /// What the person calls it.
        name: Option<String>,
    },
    /// An image that is said to be kept already.
    Stored(Claim),
}

/// What a peer says of an image that is kept already. All but the name may be left out, and what is said must hold.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Claim {
    /// `sha256:<hex>`.
    pub attachment_id: String,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    width: Option<u32>,
    #[serde(default)]
    height: Option<u32>,
    #[serde(default)]
    bytes: Option<u64>,
    #[serde(default)]
    name: Option<String>,
    /// Its place among the images of the prompt, from 1.
    #[serde(skip)]
    number: usize,
}

impl Claim {
    /// The reference, if the bytes that are kept bear out what is said. `None`: nothing is kept.
    pub fn confirm(
        self,
        kept: Option<&[u8]>,
        limits: &ImageLimits,
    ) -> Result<ImageReference, ImageError> {
        let number = self.number;
        self.held_against(kept, limits).map_err(|error| error.of(number))
    }

    fn held_against(
        self,
        kept: Option<&[u8]>,
        limits: &ImageLimits,
    ) -> Result<ImageReference, ImageError> {
        let Some(bytes) = kept else {
            let text = format!(
                "refers to {:?}, which is not kept here; send its bytes",
                self.attachment_id
            );
            return Err(ImageError::new(Reason::NotFound, text));
        };
        let declared = self.media_type.as_deref().map(declared).transpose()?;
        let facts = inspect(bytes, declared, limits)?;
        let mut reference = ImageReference::new(self.attachment_id, facts, bytes.len());
        let said = [
            ("width", self.width.map(u64::from), u64::from(reference.width)),
            ("height", self.height.map(u64::from), u64::from(reference.height)),
            ("bytes", self.bytes, reference.bytes),
        ];
        for (member, said, is) in said {
            if let Some(said) = said.filter(|said| *said != is) {
                let text = format!("says `{member}` is {said}, but what is kept has {is}");
                return Err(ImageError::new(Reason::Invalid, text));
            }
        }
        reference.name = self.name;
        Ok(reference)
    }
}

/// The members that an image of a prompt may have. `mimeType` is the word of the SDK wire, whose blocks reach the
/// host untouched (S-52); all others say `mediaType` (decision 47).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    #[serde(rename = "type")]
    _kind: IgnoredAny,
    data: Option<String>,
    #[serde(alias = "mimeType")]
    media_type: Option<String>,
    name: Option<String>,
    attachment: Option<Claim>,
}

/// A block whose base64 is read, and that is not judged further.
enum Carried {
    Other(Block),
    Upload { number: usize, bytes: Vec<u8>, media_type: String, name: Option<String> },
    Stored(Claim),
}

/// Judges the images of a prompt, in the order of B-124: how many, whether they are base64, how much together, then
/// each by itself. Nothing is stored before all are judged.
pub fn judge(content: Vec<Block>, limits: &ImageLimits) -> Result<Vec<Part>, ImageError> {
    let count = content.iter().filter(|block| is_image(block)).count();
    if count > limits.count_max {
        let text =
            format!("the prompt has {count} images, {} or fewer are possible", limits.count_max);
        return Err(ImageError::new(Reason::TooMany, text));
    }
    let mut number = 0;
    let carried = content.into_iter().map(|block| {
        if !is_image(&block) {
            return Ok(Carried::Other(block));
        }
        number += 1;
        read(&block, number).map_err(|error| error.of(number))
    });
    let carried: Vec<_> = carried.collect::<Result<_, _>>()?;
    let sizes = carried.iter().map(|carried| match carried {
        Carried::Upload { bytes, .. } => bytes.len(),
        Carried::Other(_) | Carried::Stored(_) => 0,
    });
    let total: usize = sizes.sum();
    if total > limits.total_bytes_max {
        let text = format!(
            "the images of the prompt have {total} bytes together, {} or fewer are possible",
            limits.total_bytes_max
        );
        return Err(ImageError::new(Reason::TotalTooLarge, text));
    }
    let judged = carried.into_iter().map(|carried| match carried {
        Carried::Other(block) => Ok(Part::Other(block)),
        Carried::Stored(claim) => Ok(Part::Stored(claim)),
        Carried::Upload { number, bytes, media_type, name } => declared(&media_type)
            .and_then(|declared| inspect(&bytes, Some(declared), limits))
            .map_err(|error| error.of(number))
            .map(|facts| Part::Upload { bytes, facts, name }),
    });
    judged.collect()
}

/// What the n-th image block carries.
fn read(block: &Block, number: usize) -> Result<Carried, ImageError> {
    let Block::Raw(raw) = block else { return Ok(Carried::Other(block.clone())) };
    let wire: Wire = serde_json::from_str(raw.get()).map_err(|error| {
        // The position is one in text that the peer has not written like this.
        let error = error.to_string();
        let error = error.split(" at line ").next().unwrap_or_default();
        ImageError::new(Reason::Invalid, format!("is no image block: {error}"))
    })?;
    let Wire { data, media_type, name, attachment, .. } = wire;
    match (data, media_type, attachment) {
        (Some(data), Some(media_type), None) => {
            let decoded = STANDARD.decode(data.as_bytes()).ok().filter(|bytes| !bytes.is_empty());
            let bytes = decoded.ok_or_else(|| {
                let text = "has `data` that is not the padded base64, without white space, of at least one byte";
                ImageError::new(Reason::InvalidBase64, text)
            })?;
            Ok(Carried::Upload { number, bytes, media_type, name })
        }
        (None, None, Some(claim)) if name.is_none() => {
            Ok(Carried::Stored(Claim { number, ..claim }))
        }
        _ => Err(ImageError::new(
            Reason::Invalid,
            "needs `data` and `mediaType` of an upload, or `attachment` alone of what is kept",
        )),
    }
}

fn declared(name: &str) -> Result<MediaType, ImageError> {
    MediaType::parse(name).ok_or_else(|| {
        let known = MediaType::ALL.map(MediaType::as_str).join(", ");
        let text = format!("is declared as {name:?}; it must be one of {known}");
        ImageError::new(Reason::TypeMismatch, text)
    })
}

/// What bytes show, if they are a whole image within bounds, and of the declared type where one is declared. The
/// message says what is wrong with "it".
pub fn inspect(
    bytes: &[u8],
    declared: Option<MediaType>,
    limits: &ImageLimits,
) -> Result<Facts, ImageError> {
    if bytes.len() > limits.bytes_max {
        let text = format!("has {} bytes, {} or fewer are possible", bytes.len(), limits.bytes_max);
        return Err(ImageError::new(Reason::TooLarge, text));
    }
    let media_type = match imagesize::image_type(bytes) {
        Ok(ImageType::Png) => MediaType::Png,
        Ok(ImageType::Jpeg) => MediaType::Jpeg,
        Ok(ImageType::Webp) => MediaType::Webp,
        Ok(ImageType::Gif) => MediaType::Gif,
        _ => {
            let known = MediaType::ALL.map(MediaType::as_str).join(", ");
            let text = format!("is none of {known}");
            return Err(ImageError::new(Reason::Invalid, text));
        }
    };
    if let Some(declared) = declared.filter(|declared| *declared != media_type) {
        let text = format!(
            "is declared as {}, but its bytes are {}",
            declared.as_str(),
            media_type.as_str()
        );
        return Err(ImageError::new(Reason::TypeMismatch, text));
    }
    let broken = || {
        let text = format!("is not a whole image of type {}", media_type.as_str());
        ImageError::new(Reason::Invalid, text)
    };
    if whole::check(media_type, bytes).is_none() {
        return Err(broken());
    }
    let size = imagesize::blob_size(bytes).map_err(|_| broken())?;
    let side = |pixels: usize| u32::try_from(pixels).ok().filter(|pixels| *pixels > 0);
    let (Some(width), Some(height)) = (side(size.width), side(size.height)) else {
        return Err(broken());
    };
    let pixels = u64::from(width) * u64::from(height);
    if pixels > limits.pixels_max {
        let text = format!(
            "has {width} x {height} pixels, {pixels} in all, {} or fewer are possible",
            limits.pixels_max
        );
        return Err(ImageError::new(Reason::TooManyPixels, text));
    }
    Ok(Facts { media_type, width, height })
}

#[cfg(test)]
mod tests;
