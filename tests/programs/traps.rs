//! Fails on `trap`, three calls deep.

use transom_guest::{Fault, Outputs};
use transom_programs::{Crime, Program};

transom_guest::export!(Program<Traps>);

struct Traps;

impl Crime for Traps {
    fn unit(_out: &mut Outputs, text: &str) -> Option<Result<(), Fault>> {
        (text == "trap").then(|| look_up(text.len()))
    }
}

#[inline(never)]
fn look_up(index: usize) -> Result<(), Fault> {
    fail_to_find(index)
}

#[inline(never)]
#[expect(clippy::panic, reason = "the crime")]
fn fail_to_find(index: usize) -> ! {
    panic!("there is no entry {index}")
}
