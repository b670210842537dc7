//! What the agent has said to its prompt, as far as it is given back: the text of its last message (A-153).

use transom_guest::{json::push_text, pack::Packer, pack::Unpacker};

/// Bytes of text that are kept: as much as one session can hand another at once. What an agent says beyond that is counted.
pub(crate) const TEXT_BYTES_MAX: usize = 512 << 10;

/// Bytes of a message's id that is kept. Two ids that differ only behind that are taken for one.
const ID_BYTES_MAX: usize = 256;

/// The text so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    /// Of the last message.
    text: String,
    /// The id of the last message, where the agent gives one.
    message: Option<String>,
    /// Something stood between the last text and the next one.
    parted: bool,
    /// Bytes of the last message that were left out.
    left_out: u64,
}

/// What a piece of text has come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Added<'a> {
    /// What of it is kept.
    pub(crate) text: &'a str,
    /// It begins another message than the text before it was of.
    pub(crate) begins: bool,
}

impl Answer {
    /// Takes in a piece of text. `message` is the id of the message that it is of, if the agent says so.
    pub(crate) fn add<'a>(&mut self, text: &'a str, message: Option<&str>) -> Added<'a> {
        let message =
            message.map(|id| id.get(..id.floor_char_boundary(ID_BYTES_MAX)).unwrap_or_default());
        if text.is_empty() {
            return Added { text, begins: false };
        }
        let another = match (self.message.as_deref(), message) {
            (Some(known), Some(id)) => known != id,
            (None, _) | (_, None) => false,
        };
        let begins = self.parted || another;
        if begins {
            self.text.clear();
            self.left_out = 0;
            self.message = None;
        }
        self.parted = false;
        if let Some(id) = message {
            self.message = Some(id.to_owned());
        }
        // Once something is left out, nothing behind it is kept.
        let room = match self.left_out {
            0 => TEXT_BYTES_MAX.saturating_sub(self.text.len()),
            _ => 0,
        };
        let kept = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
        self.text.push_str(kept);
        self.left_out += (text.len() - kept.len()) as u64;
        Added { text: kept, begins }
    }

    /// What follows is of another message.
    pub(crate) fn part(&mut self) {
        self.parted = !self.text.is_empty();
    }

    /// The blocks that are given back, as JSON text; none where nothing was said.
    pub(crate) fn blocks(&self) -> String {
        let mut blocks = String::from("[");
        if !self.text.is_empty() {
            push_block(&mut blocks, &self.text);
        }
        if self.left_out > 0 {
            blocks.push(',');
            let left_out = self.left_out;
            push_block(&mut blocks, &format!("[cut here: {left_out} more bytes were left out]"));
        }
        blocks.push(']');
        blocks
    }

    pub(crate) fn pack(&self, out: &mut Packer) {
        out.text(&self.text);
        out.option(self.message.as_deref(), Packer::text);
        out.truth(self.parted);
        out.number(self.left_out);
    }

    pub(crate) fn unpack(reader: &mut Unpacker<'_>) -> Option<Answer> {
        Some(Answer {
            text: reader.text()?.to_owned(),
            message: reader.option(|reader| reader.text().map(str::to_owned))?,
            parted: reader.truth()?,
            left_out: reader.number()?,
        })
    }
}

fn push_block(out: &mut String, text: &str) {
    out.push_str(r#"{"type":"text","text":"#);
    push_text(out, text);
    out.push('}');
}
