//! Cutting reads at line ends.

use proptest::prelude::*;

use super::*;

/// What comes out of these reads, or `None` if the bound was crossed.
fn cut(reads: &[&[u8]], event_bytes_max: usize) -> Option<Vec<String>> {
    let mut cutter = Cutter::new(event_bytes_max);
    let mut out = Vec::new();
    for read in reads {
        out.extend(cutter.push(read).ok()?);
    }
    Some(out)
}

#[test]
fn reads_come_out_as_whole_lines() {
    let table: [(&[&[u8]], &[&str]); 9] = [
        (&[b"a\nb"], &["a\n"]),
        (&[b"a", b"b", b"\nc\n"], &["ab\nc\n"]),
        (&[b"a\r\nb\rc\n"], &["a\nb\nc\n"]),
        (&[b"a\r", b"\nb\n"], &["a\n", "b\n"]),
        (&[b"a\r", b"\r", b"\n", b"\n"], &["a\n", "\n", "\n"]),
        (&[b"\xe4\xbd", b"\xa0\n"], &["你\n"]),
        (&[b"\xff\n"], &["\u{fffd}\n"]),
        (&[b"\xef", b"\xbb\xbf", b"a\n\xef\xbb\xbfb\n"], &["a\n\u{feff}b\n"]),
        (&[b"", b"a"], &[]),
    ];
    for (reads, expected) in table {
        assert_eq!(cut(reads, 100).unwrap(), expected, "{reads:?}");
    }
}

#[test]
fn an_event_may_be_as_long_as_the_bound_and_no_longer() {
    let table: [(&[u8], bool); 9] = [
        (b"12345678\n", true),
        (b"123456789", false),
        (b"1234\n5678\n\n12345678\n\n", true),
        (b"1234\n56789", false),
        (b"1234\r\n56789", false),
        (b"1234\r\n\r\n56789", true),
        (b":234\n:678\n:234\n1234", true),
        (b":23456789", false),
        (b"1234\n:6789", false),
    ];
    for (text, fits) in table {
        assert_eq!(cut(&[text], 8).is_some(), fits, "{:?}", String::from_utf8_lossy(text));
    }
}

proptest! {
    /// Where a text is cut into reads makes no difference.
    #[test]
    fn cuts_do_not_matter(text in "[a:é🦀\u{feff}\r\n]{0,40}", size in 1_usize..9) {
        let whole = cut(&[text.as_bytes()], 1000).unwrap_or_default().concat();
        let reads: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        prop_assert_eq!(cut(&reads, 1000).unwrap_or_default().concat(), whole);
    }
}
