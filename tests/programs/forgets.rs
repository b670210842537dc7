//! A version that takes over nobody: it writes a state of its own and reads no other.

use transom_guest::{Fault, FaultKind, Input, Machine, Manifest, Millis, Outputs, Setup, Unit};
use transom_programs::manifest;

transom_guest::export!(Forgets);

struct Forgets;

impl Machine for Forgets {
    fn describe() -> Manifest {
        manifest(2, &[2])
    }

    fn open(_out: &mut Outputs, _setup: Setup) -> Result<Forgets, Fault> {
        Ok(Forgets)
    }

    fn handle(&mut self, out: &mut Outputs, _now: Millis, input: Input) -> Result<(), Fault> {
        if let Input::Unit(Unit { bytes, .. }) = input {
            out.unit([b"new ".as_slice(), &bytes].concat());
        }
        Ok(())
    }

    fn suspend(&self) -> Vec<u8> {
        Vec::new()
    }

    fn resume(_setup: Setup, format: u32, _state: &[u8]) -> Result<Forgets, Fault> {
        match format {
            2 => Ok(Forgets),
            _ => Err(Fault::new(FaultKind::Unsupported, "not a state of this program")),
        }
    }
}
