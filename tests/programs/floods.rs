//! Answers `flood 1000000` with as many outputs.

use transom_guest::{Fault, Output, Outputs};
use transom_programs::{Crime, Program, amount};

transom_guest::export!(Program<Floods>);

struct Floods;

impl Crime for Floods {
    fn unit(out: &mut Outputs, text: &str) -> Option<Result<(), Fault>> {
        let count = amount(text, "flood")?;
        (0..count).for_each(|_| out.push(Output::End(1)));
        Some(Ok(()))
    }
}
