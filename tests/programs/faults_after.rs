//! Gives a fault on `fault`, and from then on always; refuses to open where an option says so.

use transom_guest::{Fault, FaultKind, Outputs, Setup};
use transom_programs::{Crime, Program};

transom_guest::export!(Program<FaultsAfter>);

struct FaultsAfter;

impl Crime for FaultsAfter {
    fn open(setup: &Setup) -> Result<(), Fault> {
        match setup.options.contains("refuse") {
            true => Err(Fault::new(FaultKind::Unsupported, "the options say so")),
            false => Ok(()),
        }
    }

    fn unit(_out: &mut Outputs, text: &str) -> Option<Result<(), Fault>> {
        (text == "fault")
            .then(|| Err(Fault::new(FaultKind::Malformed, "this is not a word of ours")))
    }
}
