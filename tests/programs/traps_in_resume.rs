//! A version that takes up the state of `counts` and fails at it.

use transom_guest::{Fault, Input, Machine, Manifest, Millis, Outputs, Setup, Unit};
use transom_programs::manifest;

transom_guest::export!(TrapsInResume);

struct TrapsInResume;

impl Machine for TrapsInResume {
    fn describe() -> Manifest {
        manifest(1, &[1])
    }

    fn open(_out: &mut Outputs, _setup: Setup) -> Result<TrapsInResume, Fault> {
        Ok(TrapsInResume)
    }

    fn handle(&mut self, out: &mut Outputs, _now: Millis, input: Input) -> Result<(), Fault> {
        if let Input::Unit(Unit { bytes, .. }) = input {
            out.unit(bytes);
        }
        Ok(())
    }

    fn suspend(&self) -> Vec<u8> {
        Vec::new()
    }

    #[expect(clippy::panic, reason = "the crime")]
    fn resume(_setup: Setup, _format: u32, _state: &[u8]) -> Result<TrapsInResume, Fault> {
        panic!("what is this")
    }
}
