//! Takes memory without end on `grow`; on `grow 8` it takes eight mebibytes and keeps them, and says so if it gets none.

use std::hint::black_box;

use transom_guest::{Fault, Outputs};
use transom_programs::{Crime, Program, amount};

transom_guest::export!(Program<Grows>);

struct Grows;

impl Crime for Grows {
    fn unit(out: &mut Outputs, text: &str) -> Option<Result<(), Fault>> {
        if text == "grow" {
            loop {
                // Looked at, or the compiler sees that nobody needs it and takes nothing.
                black_box(vec![1u8; 1 << 20].leak());
            }
        }
        let mut taken = Vec::<u8>::new();
        match taken.try_reserve_exact(amount(text, "grow")? << 20) {
            Ok(()) => out.unit("taken"),
            Err(_) => out.unit("refused"),
        }
        black_box(taken.leak());
        Some(Ok(()))
    }
}
