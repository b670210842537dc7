//! Reads JSON text in one pass: without recursion, without allocation, by borrowing from the text.
//! Which members matter is left to whoever reads.

use std::borrow::Cow;

/// Arrays and objects open at one place of a value that is skipped. The host lets 512 through (decision 55); text
/// that nests deeper than this is treated like text that is not JSON.
const NESTING_MAX: usize = 1024;

/// A place in JSON text. Every function returns `None` where the text stops being JSON.
#[derive(Debug)]
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    unpaired: bool,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `text`.
    pub fn new(text: &'a str) -> Reader<'a> {
        Reader { text, at: 0, unpaired: false }
    }

    /// Whether a surrogate escape without its other half was passed (S-17).
    pub fn met_unpaired(&self) -> bool {
        self.unpaired
    }

    /// The next byte, without passing it.
    pub fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes white space; whether the text ends behind it.
    pub fn at_end(&mut self) -> bool {
        self.space();
        self.at == self.text.len()
    }

    /// Passes the value that begins here and gives its text.
    pub fn value(&mut self) -> Option<&'a str> {
        let start = self.at;
        match self.peek()? {
            b'{' | b'[' => self.nested()?,
            _ => self.scalar()?,
        }
        self.text.get(start..self.at)
    }

    /// Passes an array or object, however deep.
    fn nested(&mut self) -> Option<()> {
        let mut nest = Nest::new();
        loop {
            match self.peek()? {
                b'{' => {
                    if self.enters(b'}') {
                        nest.push(Kind::Object)?;
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    if self.enters(b']') {
                        nest.push(Kind::Array)?;
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            // A value is complete, and with it perhaps what holds it.
            loop {
                let Some(kind) = nest.top() else { return Some(()) };
                let more = match kind {
                    Kind::Object => self.goes_on(b'}')?,
                    Kind::Array => self.goes_on(b']')?,
                };
                if more {
                    if let Kind::Object = kind {
                        self.key()?;
                    }
                    break;
                }
                nest.pop();
            }
        }
    }

    fn scalar(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number(),
        }
    }

    /// Passes the object that begins here. `member` is called behind each name and has to pass the value.
    ///
    /// Not for objects at arbitrary depth: what `member` reads this way is nested on the stack.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&mut Reader<'a>, Text<'a>) -> Option<()>,
    ) -> Option<&'a str> {
        let start = self.at;
        if self.peek()? != b'{' {
            return None;
        }
        let mut more = self.enters(b'}');
        while more {
            let name = self.key()?;
            member(self, name)?;
            more = self.goes_on(b'}')?;
        }
        self.text.get(start..self.at)
    }

    /// Passes the array that begins here. `element` is called in front of each element and has to pass it.
    pub fn array(
        &mut self,
        mut element: impl FnMut(&mut Reader<'a>) -> Option<()>,
    ) -> Option<&'a str> {
        let start = self.at;
        if self.peek()? != b'[' {
            return None;
        }
        let mut more = self.enters(b']');
        while more {
            element(self)?;
            more = self.goes_on(b']')?;
        }
        self.text.get(start..self.at)
    }

    /// Passes the bracket that opens and what is empty behind it; whether there is a first member or element.
    fn enters(&mut self, end: u8) -> bool {
        self.at += 1;
        self.space();
        let empty = self.peek() == Some(end);
        if empty {
            self.at += 1;
        }
        !empty
    }

    /// Behind a member or element: passes the comma (true) or the bracket that closes (false).
    fn goes_on(&mut self, end: u8) -> Option<bool> {
        self.space();
        let byte = self.peek()?;
        self.at += 1;
        if byte == b',' {
            self.space();
            return Some(true);
        }
        (byte == end).then_some(false)
    }

    /// Passes a member's name, the colon and the space behind it.
    fn key(&mut self) -> Option<Text<'a>> {
        let name = self.string()?;
        self.space();
        if self.peek()? != b':' {
            return None;
        }
        self.at += 1;
        self.space();
        Some(name)
    }

    /// Passes white space.
    #[inline]
    pub fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str) -> Option<()> {
        if !self.text.as_bytes().get(self.at..)?.starts_with(word.as_bytes()) {
            return None;
        }
        self.at += word.len();
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits()?,
            _ => return None,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    /// At least one digit.
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    /// Passes the string that begins here.
    fn string(&mut self) -> Option<Text<'a>> {
        if self.peek()? != b'"' {
            return None;
        }
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += plain_length(self.text.as_bytes().get(self.at..)?);
            match self.peek()? {
                b'"' => {
                    let raw = self.text.get(start..self.at)?;
                    self.at += 1;
                    return Some(Text { raw, escaped });
                }
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                // A control character that is not escaped.
                _ => return None,
            }
        }
    }

    /// Passes one escape, or the two that make a surrogate pair.
    fn escape(&mut self) -> Option<()> {
        match self.text.as_bytes().get(self.at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
            b'u' => {
                let bytes = self.text.as_bytes().get(self.at..)?;
                match unicode_escape(bytes)? {
                    Unicode::Char(_, length) => self.at += length,
                    Unicode::Unpaired => {
                        self.unpaired = true;
                        self.at += ESCAPE_BYTES;
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }
}

/// A string as it stands in JSON text, without its quotation marks. Known to be well formed.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    raw: &'a str,
    escaped: bool,
}

impl<'a> Text<'a> {
    /// The string that makes up the whole of `value`, which a `Reader` has passed; `None` for any other kind.
    pub fn of(value: &'a str) -> Option<Text<'a>> {
        let raw = value.strip_prefix('"')?.strip_suffix('"')?;
        Some(Text { raw, escaped: raw.as_bytes().contains(&b'\\') })
    }

    /// Whether it says `word`.
    pub fn is(self, word: &str) -> bool {
        if self.escaped { self.decode() == word } else { self.raw == word }
    }

    /// What it says. A surrogate without its other half becomes U+FFFD.
    pub fn decode(self) -> Cow<'a, str> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        let mut decoded = String::with_capacity(self.raw.len());
        let mut rest = self.raw;
        while let Some((plain, escape)) = rest.split_once('\\') {
            decoded.push_str(plain);
            let (character, length) = decode_escape(escape);
            decoded.push(character);
            rest = escape.get(length..).unwrap_or_default();
        }
        decoded.push_str(rest);
        Cow::Owned(decoded)
    }
}

/// What the escape says whose text, without the backslash, `escape` begins with, and how long that text is.
fn decode_escape(escape: &str) -> (char, usize) {
    match escape.as_bytes().first() {
        Some(b'b') => ('\u{8}', 1),
        Some(b'f') => ('\u{c}', 1),
        Some(b'n') => ('\n', 1),
        Some(b'r') => ('\r', 1),
        Some(b't') => ('\t', 1),
        Some(b'u') => match unicode_unescaped(escape.as_bytes()) {
            Some(Unicode::Char(character, length)) => (character, length - 1),
            Some(Unicode::Unpaired) | None => (char::REPLACEMENT_CHARACTER, ESCAPE_BYTES - 1),
        },
        // `"`, `\` and `/` stand for themselves.
        Some(other) => (char::from(*other), 1),
        None => (char::REPLACEMENT_CHARACTER, 0),
    }
}

/// Replaces every surrogate escape that lacks its other half by U+FFFD, in place: both escapes have six bytes (S-17).
/// `text` is well-formed JSON.
pub fn mend_unpaired(text: &mut [u8]) {
    let mut at = 0;
    while let Some(found) =
        text.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\'))
    {
        at += found;
        let rest = text.get(at..).unwrap_or_default();
        at += match unicode_escape(rest) {
            Some(Unicode::Char(_, length)) => length,
            Some(Unicode::Unpaired) => {
                if let Some(digits) = text.get_mut(at + 2..at + ESCAPE_BYTES) {
                    digits.copy_from_slice(b"fffd");
                }
                ESCAPE_BYTES
            }
            None => 2,
        };
    }
}

/// Bytes of `\u` and its four digits.
const ESCAPE_BYTES: usize = 6;

enum Unicode {
    /// A character, and how many bytes its escape or pair of escapes takes.
    Char(char, usize),
    /// Half of a surrogate pair alone.
    Unpaired,
}

/// Reads the `\u` escape, or the pair of them, that `bytes` begins with.
fn unicode_escape(bytes: &[u8]) -> Option<Unicode> {
    unicode_unescaped(bytes.strip_prefix(b"\\")?)
}

/// Like `unicode_escape`, behind the first backslash. The length counts that backslash nevertheless.
fn unicode_unescaped(bytes: &[u8]) -> Option<Unicode> {
    let (first, rest) = unit16(bytes)?;
    if let Some(character) = char::from_u32(first) {
        return Some(Unicode::Char(character, ESCAPE_BYTES));
    }
    // Only surrogates are no characters.
    let second = rest.strip_prefix(b"\\").and_then(unit16);
    match second {
        Some((second @ 0xDC00..=0xDFFF, _)) if first < 0xDC00 => {
            let character =
                char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00))?;
            Some(Unicode::Char(character, 2 * ESCAPE_BYTES))
        }
        Some(_) | None => Some(Unicode::Unpaired),
    }
}

/// The four digits behind a `u`, and what follows them.
fn unit16(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = bytes.strip_prefix(b"u")?.split_first_chunk::<4>()?;
    let mut value = 0;
    for digit in digits {
        value = value * 16 + char::from(*digit).to_digit(16)?;
    }
    Some((value, rest))
}

/// How many bytes stand in front of the first quotation mark, backslash or control character.
#[inline]
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;

    let mut passed = 0;
    let mut rest = bytes;
    while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (ONES * b'"' as u64);
        let slash = word ^ (ONES * b'\\' as u64);
        // The high bit of each byte that is below the bound. A borrow can only spoil bytes above a true hit, and the
        // lowest hit is the one that counts.
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let quote = quote.wrapping_sub(ONES) & !quote;
        let slash = slash.wrapping_sub(ONES) & !slash;
        let hits = (control | quote | slash) & HIGHS;
        if hits != 0 {
            return passed + (hits.trailing_zeros() / 8) as usize;
        }
        passed += 8;
        rest = tail;
    }
    passed
        + rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).unwrap_or(rest.len())
}

#[derive(Clone, Copy)]
enum Kind {
    Array,
    Object,
}

/// What is open at one place: one bit each, in a fixed room.
struct Nest {
    depth: usize,
    objects: [u64; NESTING_MAX / 64],
}

impl Nest {
    #[inline]
    fn new() -> Nest {
        Nest { depth: 0, objects: [0; NESTING_MAX / 64] }
    }

    fn push(&mut self, kind: Kind) -> Option<()> {
        let word = self.objects.get_mut(self.depth / 64)?;
        let bit = 1 << (self.depth % 64);
        match kind {
            Kind::Array => *word &= !bit,
            Kind::Object => *word |= bit,
        }
        self.depth += 1;
        Some(())
    }

    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn top(&self) -> Option<Kind> {
        let last = self.depth.checked_sub(1)?;
        let word = self.objects.get(last / 64)?;
        Some(if word >> (last % 64) & 1 == 1 { Kind::Object } else { Kind::Array })
    }
}

/// Appends `text` as a JSON string: non-ASCII stays literal, only what JSON requires is escaped (S-32).
pub fn push_text(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    loop {
        let plain = plain_length(rest.as_bytes());
        let (head, tail) = rest.split_at_checked(plain).unwrap_or((rest, ""));
        out.push_str(head);
        let mut characters = tail.chars();
        let Some(special) = characters.next() else { break };
        match special {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control => {
                const DIGITS: [char; 16] = [
                    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
                ];
                let code = control as usize;
                out.push_str("\\u00");
                out.extend(
                    [code >> 4 & 15, code & 15].iter().filter_map(|digit| DIGITS.get(*digit)),
                );
            }
        }
        rest = characters.as_str();
    }
    out.push('"');
}
