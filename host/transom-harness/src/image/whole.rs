//! Whether a file of an image type goes on to its end: its parts are walked by the lengths they give, so that one
//! that was cut off is found out. Whether a decoder likes what is in the parts is left to decoders.

use super::MediaType;

/// Bytes that are taken from the front.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn passes(&mut self, expected: &[u8]) -> Option<()> {
        (self.take(expected.len())? == expected).then_some(())
    }
}

/// `None`: it ends too early, or is not laid out as such files are. Bytes behind its end do no harm.
pub(super) fn check(media_type: MediaType, bytes: &[u8]) -> Option<()> {
    let mut rest = Rest(bytes);
    match media_type {
        MediaType::Png => png(&mut rest),
        MediaType::Jpeg => jpeg(&mut rest),
        MediaType::Webp => webp(&mut rest),
        MediaType::Gif => gif(&mut rest),
    }
}

/// Chunks: length, name, data, checksum; the first is the header, the last says so.
fn png(rest: &mut Rest<'_>) -> Option<()> {
    rest.passes(b"\x89PNG\r\n\x1a\n")?;
    let mut is_first = true;
    let mut has_data = false;
    loop {
        let length = usize::try_from(u32::from_be_bytes(rest.number()?)).ok()?;
        let name = rest.take(4)?;
        if is_first && (name != b"IHDR" || length != 13) {
            return None;
        }
        rest.take(length)?;
        rest.take(4)?;
        is_first = false;
        match name {
            b"IDAT" => has_data = true,
            b"IEND" => return has_data.then_some(()),
            _ => {}
        }
    }
}

/// Segments with a length, then runs of data that end at the next marker.
fn jpeg(rest: &mut Rest<'_>) -> Option<()> {
    rest.passes(b"\xff\xd8")?;
    let mut has_scan = false;
    loop {
        if rest.byte()? != 0xff {
            return None;
        }
        let mut marker = rest.byte()?;
        while marker == 0xff {
            marker = rest.byte()?;
        }
        match marker {
            0xd9 => return has_scan.then_some(()),
            0x00 => return None,
            0x01 | 0xd0..=0xd8 => continue,
            _ => {}
        }
        let length = usize::from(u16::from_be_bytes(rest.number()?));
        rest.take(length.checked_sub(2)?)?;
        if marker == 0xda {
            has_scan = true;
            scan(rest)?;
        }
    }
}

/// Passes the data of a scan, up to a marker that is neither a stuffed byte nor a restart.
fn scan(rest: &mut Rest<'_>) -> Option<()> {
    loop {
        let at = rest.0.iter().position(|byte| *byte == 0xff)?;
        match rest.0.get(at + 1)? {
            0x00 | 0xd0..=0xd7 => rest.take(at + 2)?,
            // Filling before a marker.
            0xff => rest.take(at + 1)?,
            _ => {
                rest.take(at)?;
                return Some(());
            }
        };
    }
}

/// One chunk that gives the length of the whole, and in it chunks of even length.
fn webp(rest: &mut Rest<'_>) -> Option<()> {
    rest.passes(b"RIFF")?;
    let length = usize::try_from(u32::from_le_bytes(rest.number()?)).ok()?;
    let mut inner = Rest(rest.take(length)?);
    inner.passes(b"WEBP")?;
    let mut has_data = false;
    while !inner.0.is_empty() {
        let name = inner.take(4)?;
        let length = usize::try_from(u32::from_le_bytes(inner.number()?)).ok()?;
        inner.take(length)?;
        if length % 2 == 1 && !inner.0.is_empty() {
            inner.take(1)?;
        }
        has_data |= matches!(name, b"VP8 " | b"VP8L" | b"ANMF");
    }
    has_data.then_some(())
}

/// Blocks of pieces that each begin with their length; a piece without length ends a block.
fn gif(rest: &mut Rest<'_>) -> Option<()> {
    let head = rest.take(6)?;
    if !matches!(head, b"GIF87a" | b"GIF89a") {
        return None;
    }
    rest.take(4)?;
    let flags = rest.byte()?;
    rest.take(2)?;
    colours(rest, flags)?;
    let mut has_image = false;
    loop {
        match rest.byte()? {
            0x3b => return has_image.then_some(()),
            0x21 => {
                rest.take(1)?;
            }
            0x2c => {
                rest.take(8)?;
                let flags = rest.byte()?;
                colours(rest, flags)?;
                rest.take(1)?;
                has_image = true;
            }
            _ => return None,
        }
        loop {
            match rest.byte()? {
                0 => break,
                length => rest.take(usize::from(length))?,
            };
        }
    }
}

/// Passes a table of colours, if the flags say that there is one.
fn colours(rest: &mut Rest<'_>, flags: u8) -> Option<()> {
    if flags & 0x80 != 0 {
        rest.take(3 << ((flags & 0x07) + 1))?;
    }
    Some(())
}
