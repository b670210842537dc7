//! Cutting reads at line ends.

use proptest::prelude::*;

use super::*;

/// The lines that come out of these reads, or `None` if the bound was crossed.
fn cut(reads: &[&[u8]], event_bytes_max: usize) -> Option<Vec<String>> {
    let mut cutter = Cutter::new(event_bytes_max);
    let mut out = Vec::new();
    for read in reads {
        let mut rest = *read;
        while let Some(line) = cutter.next(&mut rest).ok()? {
            out.push(line);
        }
        assert!(rest.is_empty());
    }
    Some(out)
}

#[test]
fn reads_come_out_as_whole_lines() {
    let table: [(&[&[u8]], &[&str]); 10] = [
        (&[b"data\ndata:b"], &["data\n"]),
        (&[b"da", b"ta:", b"\ndata:c\n"], &["data:\n", "data:c\n"]),
        (&[b"data:a\r\ndata:b\rdata:c\n"], &["data:a\n", "data:b\n", "data:c\n"]),
        (&[b"data:a\r", b"\ndata:b\n"], &["data:a\n", "data:b\n"]),
        (&[b"data:a\r", b"\r", b"\n", b"\n"], &["data:a\n", "\n"]),
        (&[b"data:\xe4\xbd", b"\xa0\n"], &["data:你\n"]),
        (&[b"data:\xff\n"], &["data:\u{fffd}\n"]),
        (&[b"\xef", b"\xbb\xbf", b"data:a\n\xef\xbb\xbfdata:b\n"], &["data:a\n"]),
        (&[b"", b"data:a"], &[]),
        // One empty line behind an event; before the first and between, they say nothing.
        (&[b"\n\r\r\ndata:a\n\n\n\n\ndata:b\n\n"], &["data:a\n", "\n", "data:b\n", "\n"]),
    ];
    for (reads, expected) in table {
        assert_eq!(cut(reads, 100).unwrap(), expected, "{reads:?}");
    }
}

/// The parser behind keeps an `id` for good and copies it with every event.
#[test]
fn only_data_comes_through() {
    let text =
        b":c\nid: 1\nevent: x\nretry: 5\ndatum: 1\ndata : 1\n data: 1\nDATA: 1\ndata: 1\n: d\n\n";
    assert_eq!(cut(&[text], 100).unwrap(), ["data: 1\n", "\n"]);
}

#[test]
fn an_event_may_be_as_long_as_the_bound_and_no_longer() {
    let table: [(&[u8], bool); 13] = [
        (b"data:678\n", true),
        (b"data:6789", false),
        (b"data\ndata\n\ndata:678\n\n", true),
        (b"data\ndata:", false),
        (b"data\r\ndata:", false),
        (b"data\r\n\r\ndata:678", true),
        (b":234\n:678\n:234\ndata", true),
        (b":2345678", true),
        (b":23456789", false),
        (b"id:45678\nid:45678\n", true),
        (b"id:456789", false),
        (b"data\n:678", true),
        (b"data\n:6789", false),
    ];
    for (text, fits) in table {
        assert_eq!(cut(&[text], 8).is_some(), fits, "{:?}", String::from_utf8_lossy(text));
    }
}

proptest! {
    /// Where a text is cut into reads makes no difference.
    #[test]
    fn cuts_do_not_matter(
        text in "(data|data:|:|id:|[a:é🦀\u{feff}\r\n]){0,20}",
        size in 1_usize..9,
    ) {
        let whole = cut(&[text.as_bytes()], 1000);
        let reads: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        prop_assert_eq!(cut(&reads, 1000), whole);
    }
}
