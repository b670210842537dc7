//! Never comes back from `open`.

use transom_guest::{Fault, Outputs, Setup};
use transom_programs::{Crime, Program};

transom_guest::export!(Program<SpinsInOpen>);

struct SpinsInOpen;

impl Crime for SpinsInOpen {
    fn open(_setup: &Setup) -> Result<(), Fault> {
        loop {
            std::hint::spin_loop();
        }
    }

    fn unit(_out: &mut Outputs, _text: &str) -> Option<Result<(), Fault>> {
        None
    }
}
