//! Any split of the input gives the same lines.

use proptest::prelude::*;

use super::{Bounds, Cut, EmbeddedLineFeed, Lines, check_line, encode_line};
use crate::Excess;

const SMALL: Bounds = Bounds { unit_bytes_max: 8, nesting_max: 3 };

/// Cuts input that arrives in these pieces, and ends it.
fn cut(bounds: Bounds, pieces: &[&[u8]]) -> Vec<Cut> {
    let mut lines = Lines::new(bounds);
    let mut cuts = Vec::new();
    for piece in pieces {
        lines.push(&mut cuts, piece);
    }
    cuts.extend(lines.finish());
    cuts
}

fn check(pieces: &[&[u8]], expected: &[Cut]) {
    assert_eq!(cut(SMALL, pieces), expected, "{pieces:?}");
}

fn line(text: &str) -> Cut {
    Cut::Line(text.into())
}

fn too_long(bytes: u64) -> Cut {
    Cut::Skipped { why: Excess::TooLong, bytes }
}

#[test]
fn lines_come_out_whatever_the_reads_were() {
    check(&[b"one\ntwo\n"], &[line("one"), line("two")]);
    check(&[b"o", b"n", b"e", b"\n", b"two\n"], &[line("one"), line("two")]);
    check(&[b"one\nt", b"wo\nthr", b"ee\n"], &[line("one"), line("two"), line("three")]);
    check(&[b"", b"\n", b"", b"\n"], &[line(""), line("")]);
    check(&[], &[]);
}

#[test]
fn a_character_over_two_reads_is_whole_in_its_line() {
    // S-3
    check(&[b"\xf0\x9f", b"\xa6", b"\x80\n"], &[line("🦀")]);
}

#[test]
fn only_a_line_feed_ends_a_line() {
    // S-4
    check(&[b"a\rb\r\n"], &[line("a\rb\r")]);
    check(&["a\u{2028}b\n".as_bytes()], &[line("a\u{2028}b")]);
    check(&["a\u{85}\u{c}\u{b}b\n".as_bytes()], &[line("a\u{85}\u{c}\u{b}b")]);
}

#[test]
fn a_last_line_without_line_feed_is_unfinished() {
    // S-7: what becomes of it is the codec's decision.
    check(&[b"one\nrest"], &[line("one"), Cut::Unfinished(b"rest".to_vec())]);
    check(&[b"one\n"], &[line("one")]);
}

#[test]
fn an_over_long_line_is_dropped_once_and_the_next_one_is_read() {
    // S-9
    check(&[b"12345678\n"], &[line("12345678")]);
    check(&[b"123456789\n", b"next\n"], &[too_long(9), line("next")]);
    check(&[b"12345", b"6789", b"abc", b"def\nnext\n"], &[too_long(15), line("next")]);
    check(&[b"123456789", b"abc"], &[too_long(12)]);
}

#[test]
fn a_line_that_nests_too_deep_is_dropped_and_the_next_one_is_read() {
    // Decision 55.
    let too_deep = Cut::Skipped { why: Excess::TooDeep, bytes: 8 };
    check(&[b"[[[]]]\n[[[[", b"]]]]\n[]\n"], &[line("[[[]]]"), too_deep.clone(), line("[]")]);
    check(&[b"[[[[]]]]"], &[too_deep]);
}

#[test]
fn no_more_than_the_bound_is_held_and_nothing_between_lines() {
    let bounds = Bounds { unit_bytes_max: 10_000, nesting_max: 3 };
    let mut lines = Lines::new(bounds);
    let mut cuts = Vec::new();
    assert_eq!(lines.held_bytes(), 0);

    for _ in 0..10_000 {
        lines.push(&mut cuts, b"x");
        assert!(lines.held_bytes() <= 10_000, "{}", lines.held_bytes());
    }
    lines.push(&mut cuts, b"\n");
    assert_eq!(lines.held_bytes(), 0);

    for _ in 0..20_000 {
        lines.push(&mut cuts, b"y");
        assert!(lines.held_bytes() <= 10_000, "{}", lines.held_bytes());
    }
    assert_eq!(lines.held_bytes(), 0, "an over-long line is not held at all");
    lines.push(&mut cuts, b"\nz\n");

    assert_eq!(cuts, [Cut::Line(vec![b'x'; 10_000]), too_long(20_000), line("z")]);
}

#[test]
fn growth_costs_a_constant_number_of_copies_per_byte() {
    // S-9: linear. Counted by how often the memory moved, since a clock would prove nothing.
    let mut lines = Lines::new(Bounds { unit_bytes_max: 1 << 20, nesting_max: 3 });
    let mut cuts = Vec::new();
    let mut moves = 0;
    let mut held = 0;
    for _ in 0..1 << 20 {
        lines.push(&mut cuts, b"x");
        if lines.held_bytes() != held {
            held = lines.held_bytes();
            moves += 1;
        }
    }
    assert!(moves <= 21, "{moves} moves for 2^20 bytes");
}

#[test]
fn a_unit_with_a_line_feed_is_refused_and_nothing_is_written() {
    let mut out = b"before\n".to_vec();
    assert_eq!(encode_line(&mut out, b"{\"a\":\n1}"), Err(EmbeddedLineFeed { at: 5 }));
    assert_eq!(check_line(b"\n"), Err(EmbeddedLineFeed { at: 0 }));
    assert_eq!(out, b"before\n");

    assert_eq!(encode_line(&mut out, b"{}\r"), Ok(()));
    assert_eq!(out, b"before\n{}\r\n");
}

/// Bytes in which everything that matters is frequent.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => Just(b'\n'),
        4 => Just(b'['),
        2 => Just(b']'),
        2 => Just(b'"'),
        1 => Just(b'\\'),
        8 => any::<u8>(),
    ];
    proptest::collection::vec(byte, 0..200)
}

proptest! {
    #[test]
    fn any_split_gives_the_same_units(input in input(), sizes in proptest::collection::vec(0usize..20, 0..60)) {
        let mut pieces = Vec::new();
        let mut rest = input.as_slice();
        for size in sizes {
            let (piece, tail) = rest.split_at(size.min(rest.len()));
            pieces.push(piece);
            rest = tail;
        }
        pieces.push(rest);

        prop_assert_eq!(cut(SMALL, &pieces), cut(SMALL, &[&input]));
    }

    #[test]
    fn every_byte_is_in_one_unit_or_counted_in_one_skip(input in input()) {
        let accounted: u64 = cut(SMALL, &[&input])
            .iter()
            .map(|cut| match cut {
                Cut::Line(line) => line.len() as u64 + 1,
                Cut::Unfinished(rest) => rest.len() as u64,
                Cut::Skipped { bytes, .. } => *bytes + 1,
            })
            .sum();
        // A skipped rest has no line feed either, and is the only one that may miss it.
        let total = input.len() as u64;
        prop_assert!(accounted == total || accounted == total + 1);
        prop_assert!(accounted == total || !input.ends_with(b"\n"));
    }

    #[test]
    fn what_is_encoded_is_cut_again(units in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 0..10)) {
        let bounds = Bounds { unit_bytes_max: 30, nesting_max: 30 };
        let mut wire = Vec::new();
        let mut sent = Vec::new();
        for unit in units {
            if encode_line(&mut wire, &unit).is_ok() {
                sent.push(Cut::Line(unit));
            }
        }
        prop_assert_eq!(cut(bounds, &[&wire]), sent);
    }
}
