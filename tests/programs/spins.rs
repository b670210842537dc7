//! Never comes back from a unit `spin`.

use transom_guest::{Fault, Outputs};
use transom_programs::{Crime, Program};

transom_guest::export!(Program<Spins>);

struct Spins;

impl Crime for Spins {
    fn unit(_out: &mut Outputs, text: &str) -> Option<Result<(), Fault>> {
        // What stands behind the dash makes the unit longer.
        if text == "spin" || text.starts_with("spin-") {
            loop {
                std::hint::spin_loop();
            }
        }
        None
    }
}
