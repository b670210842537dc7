//! Zstandard frames in a file: where they end, what they say, where the next one may begin (L-76).
//! What their lines mean is `walk.rs`.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::unix::fs::FileExt as _,
};

use zstd::stream::{Decoder, Encoder};

/// Front of every frame.
const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// The library's own default: more costs time that a stream of events does not have.
const LEVEL: i32 = 3;

/// Bytes of text in one frame. A batch of this store has at most some hundred megabytes; what says more
/// is no log, and must not fill the memory.
pub(crate) const FRAME_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// How much is read at once.
const BLOCK: usize = 64 * 1024;

/// A file up to a length, read in blocks.
pub(crate) struct View<'a> {
    file: &'a File,
    end: u64,
    block: Vec<u8>,
    /// Where in the file the block begins.
    at: u64,
}

impl<'a> View<'a> {
    pub(crate) fn new(file: &'a File, end: u64) -> View<'a> {
        View { file, end, block: Vec::new(), at: 0 }
    }

    /// `None`: they are not all there.
    fn bytes<const N: usize>(&mut self, offset: u64) -> io::Result<Option<[u8; N]>> {
        if self.cut(offset, N).is_none() {
            let room = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
            self.block.resize(BLOCK.min(room), 0);
            let read = read_fully(self.file, &mut self.block, offset)?;
            self.block.truncate(read);
            self.at = offset;
        }
        Ok(self.cut(offset, N).and_then(|bytes| bytes.try_into().ok()))
    }

    fn cut(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.at)?).ok()?;
        self.block.get(start..start.checked_add(length)?)
    }
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn read_fully(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = buffer.get_mut(read..)
        && !rest.is_empty()
    {
        match file.read_at(rest, offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Length of the frame that begins at `offset`, by the lengths of its blocks alone. `None`: there is no
/// frame, or not all of it.
pub(crate) fn measure(view: &mut View<'_>, offset: u64) -> io::Result<Option<u64>> {
    if view.bytes::<4>(offset)? != Some(MAGIC) {
        return Ok(None);
    }
    let Some([descriptor]) = view.bytes::<1>(offset + 4)? else { return Ok(None) };
    let is_single_segment = descriptor & 0b10_0000 != 0;
    let has_checksum = descriptor & 0b100 != 0;
    let dictionary = match descriptor & 0b11 {
        0 => 0,
        1 => 1,
        2 => 2,
        _ => 4,
    };
    let content_size = match descriptor >> 6 {
        0 => u64::from(is_single_segment),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    let mut at = offset + 5 + u64::from(!is_single_segment) + dictionary + content_size;
    loop {
        let Some([a, b, c]) = view.bytes::<3>(at)? else { return Ok(None) };
        let block = u32::from_le_bytes([a, b, c, 0]);
        at += 3 + match (block >> 1) & 0b11 {
            // One byte, repeated.
            1 => 1,
            0 | 2 => u64::from(block >> 3),
            _ => return Ok(None),
        };
        if block & 1 == 1 {
            break;
        }
    }
    at += if has_checksum { 4 } else { 0 };
    Ok((at <= view.end).then_some(at - offset))
}

/// Where after `from` something begins as a frame does.
pub(crate) fn next_candidate(view: &mut View<'_>, from: u64) -> io::Result<Option<u64>> {
    let mut offset = from;
    while let Some(bytes) = view.bytes::<4>(offset)? {
        if bytes == MAGIC {
            return Ok(Some(offset));
        }
        // On to the next byte that could be the first one, within what is in memory already.
        let known = view.cut(offset + 1, 0).and(usize::try_from(offset + 1 - view.at).ok());
        let rest = known.and_then(|start| view.block.get(start..)).unwrap_or_default();
        let skip = rest.iter().position(|byte| *byte == MAGIC[0]).unwrap_or(rest.len());
        offset += 1 + skip as u64;
    }
    Ok(None)
}

/// The text of a whole frame. `Err`: it is damaged; as much of its text as can be had.
pub(crate) fn decode(frame: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
    let mut text = Vec::new();
    let decoded = Decoder::with_buffer(frame).and_then(|decoder| {
        decoder.single_frame().take(FRAME_BYTES_MAX + 1).read_to_end(&mut text)
    });
    match decoded {
        Ok(length) if length as u64 <= FRAME_BYTES_MAX => Ok(text),
        _ => Err(text),
    }
}

/// One checksummed frame.
pub(crate) fn encode(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.set_pledged_src_size(Some(text.len() as u64))?;
    encoder.write_all(text)?;
    encoder.finish()
}
