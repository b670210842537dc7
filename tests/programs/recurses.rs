//! Calls itself without end, with and without data on the stack that lies in its memory.

use std::hint::black_box;

use transom_guest::{Fault, Outputs};
use transom_programs::{Crime, Program};

transom_guest::export!(Program<Recurses>);

struct Recurses;

impl Crime for Recurses {
    fn unit(out: &mut Outputs, text: &str) -> Option<Result<(), Fault>> {
        let depth = text.len() as u64 | 1;
        match text {
            "recurse" => out.unit(bare(depth).to_string()),
            "recurse in memory" => out.unit(with_data(depth).to_string()),
            _ => return None,
        }
        Some(Ok(()))
    }
}

/// An odd number plus an even one is never zero, so this ends only with the stack.
#[inline(never)]
fn bare(depth: u64) -> u64 {
    if depth == 0 { 1 } else { bare(depth.wrapping_add(2)).rotate_left(7) ^ depth }
}

#[inline(never)]
fn with_data(depth: u64) -> u64 {
    let data = black_box([depth; 64]);
    if depth == 0 {
        1
    } else {
        with_data(depth.wrapping_add(2)).rotate_left(7) ^ data.iter().sum::<u64>()
    }
}
