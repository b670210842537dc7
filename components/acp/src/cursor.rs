//! Texts of `session/list`: the cursor of a page, which is base64url of `[createdAt,"sessionId"]`, and times as RFC 3339
//! has them.

use transom_guest::{
    json::{Reader, push_text},
    jsonrpc::string,
};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The cursor behind a session.
pub(crate) fn cursor(created_at: u64, session: &str) -> String {
    let mut text = format!("[{created_at},");
    push_text(&mut text, session);
    text.push(']');
    let mut cursor = String::new();
    for three in text.as_bytes().chunks(3) {
        let word = three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - three.len()));
        for at in 0..=three.len() {
            let digit = word >> (18 - 6 * at) & 63;
            cursor.extend(DIGITS.get(digit as usize).map(|digit| char::from(*digit)));
        }
    }
    cursor
}

/// The place behind which a page begins: when the session was made, and its id. `None`: it is no cursor of ours, to the
/// letter.
pub(crate) fn place(given: &str) -> Option<(u64, String)> {
    let mut bytes = Vec::new();
    let (mut word, mut bits) = (0_u32, 0);
    for byte in given.bytes() {
        let digit = DIGITS.iter().position(|digit| *digit == byte)?;
        word = word << 6 | u32::try_from(digit).ok()?;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits & 0xff) as u8);
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    let mut parts = Vec::new();
    Reader::new(&text).array(|reader| {
        parts.push(reader.value()?);
        Some(())
    })?;
    let [time, session] = parts.as_slice() else { return None };
    let (time, session) = (time.parse().ok()?, string(Some(session))?);
    (cursor(time, &session) == given).then(|| (time, session.into_owned()))
}

/// Milliseconds since 1970 as RFC 3339 has them, in UTC.
pub(crate) fn rfc3339(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = date(days);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, ms) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The day of the Gregorian calendar that many days after 1970 began. Years are counted from March, so that the leap
/// day is their last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::{cursor, place, rfc3339};

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_in_no_other_way() {
        for (time, session) in [(0, ""), (1_753_000_000_123, "a-1"), (u64::MAX, "你\"\\")] {
            let written = cursor(time, session);
            assert_eq!(place(&written), Some((time, session.to_owned())));
            assert_eq!(place(&format!("{written}=")), None);
            assert_eq!(place(&format!("{written}A")), None);
        }
        assert_eq!(cursor(1, "s"), "WzEsInMiXQ");
        // Empty, no base64, no JSON, spaces, another shape, a number of another form.
        for wrong in ["", "!!", "AAAA", "WzEsICJzIl0", "WzEsInMiLDJd", "WzEuMCwicyJd", "WyJzIiwxXQ"]
        {
            assert_eq!(place(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (ms, expected) in cases {
            assert_eq!(rfc3339(ms), expected);
        }
    }
}
