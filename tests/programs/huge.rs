//! Answers `huge 1024` with one unit of as many mebibytes.

use transom_guest::{Fault, Outputs};
use transom_programs::{Crime, Program, amount};

transom_guest::export!(Program<Huge>);

struct Huge;

impl Crime for Huge {
    fn unit(out: &mut Outputs, text: &str) -> Option<Result<(), Fault>> {
        out.unit(vec![b'x'; amount(text, "huge")? << 20]);
        Some(Ok(()))
    }
}
