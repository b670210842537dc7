//! Bytes for `suspend` and `resume`: numbers, truths, texts and what may be absent, one behind the other.
//! What is written, and in which order, is each codec's own; so is its format number.
//!
//! Numbers are LEB128, a text is its length in bytes and the bytes, an option is 0, or 1 and the value.

/// Writes a state.
#[derive(Debug, Default)]
pub struct Packer(Vec<u8>);

impl Packer {
    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// A number; also the variant of an enum and the length of a list.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// A truth.
    pub fn truth(&mut self, truth: bool) {
        self.number(truth.into());
    }

    /// A text.
    pub fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// What may be absent.
    pub fn option<T>(&mut self, option: Option<T>, write: impl FnOnce(&mut Packer, T)) {
        match option {
            None => self.number(0),
            Some(value) => {
                self.number(1);
                write(self, value);
            }
        }
    }

    /// A list.
    pub fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Packer, T),
    ) {
        self.number(items.len() as u64);
        for item in items {
            write(self, item);
        }
    }
}

/// Reads a state. Every function returns `None` where the bytes are not what was written.
#[derive(Debug)]
pub struct Unpacker<'a> {
    bytes: &'a [u8],
    length: usize,
}

impl<'a> Unpacker<'a> {
    /// A reader at the start.
    pub fn new(bytes: &'a [u8]) -> Unpacker<'a> {
        Unpacker { bytes, length: bytes.len() }
    }

    /// How many bytes were read.
    pub fn at(&self) -> usize {
        self.length - self.bytes.len()
    }

    /// Whether everything was read.
    pub fn at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    /// See [`Packer::number`].
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// See [`Packer::truth`].
    pub fn truth(&mut self) -> Option<bool> {
        match self.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// See [`Packer::text`].
    pub fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        std::str::from_utf8(text).ok()
    }

    /// See [`Packer::option`].
    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Unpacker<'a>) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.number()? {
            0 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }

    /// See [`Packer::list`]. Grows with what is really there, never with what a damaged length promises.
    pub fn list<T, C: FromIterator<T>>(
        &mut self,
        mut read: impl FnMut(&mut Unpacker<'a>) -> Option<T>,
    ) -> Option<C> {
        let length = self.number()?;
        (0..length).map(|_| read(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Packer, Unpacker};

    #[test]
    fn what_was_packed_comes_back() {
        let mut out = Packer::default();
        for number in [0, 127, 128, 16_384, u64::MAX] {
            out.number(number);
        }
        out.truth(true);
        out.text("你");
        out.option(Some("x"), |out, text| out.text(text));
        out.option(None::<&str>, |out, text| out.text(text));
        out.list([3_u64, 4].into_iter(), |out, number| out.number(number));
        let bytes = out.into_bytes();

        let mut reader = Unpacker::new(&bytes);
        for number in [0, 127, 128, 16_384, u64::MAX] {
            assert_eq!(reader.number(), Some(number));
        }
        assert_eq!(reader.truth(), Some(true));
        assert_eq!(reader.text(), Some("你"));
        assert_eq!(reader.option(Unpacker::text), Some(Some("x")));
        assert_eq!(reader.option(Unpacker::text), Some(None));
        assert_eq!(reader.list(Unpacker::number), Some(vec![3, 4]));
        assert!(reader.at_end());
        assert_eq!(reader.at(), bytes.len());
    }

    #[test]
    fn damaged_bytes_are_refused() {
        assert_eq!(Unpacker::new(&[2]).truth(), None);
        assert_eq!(Unpacker::new(&[2, b'a']).text(), None);
        assert_eq!(Unpacker::new(&[1, 0xff]).text(), None);
        assert_eq!(Unpacker::new(&[0x80]).number(), None);
        assert_eq!(Unpacker::new(&[0xff; 11]).number(), None);
        assert_eq!(Unpacker::new(&[9, 1]).list::<_, Vec<_>>(Unpacker::number), None);
    }
}
