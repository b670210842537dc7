//! The next version of `counts`: it also knows how many bytes it has heard, and keeps its state in a format of its own. Each
//! of the two resumes the other's.

use transom_guest::{
    Closing, Fault, FaultKind, Input, Machine, Manifest, Millis, Output, Outputs, Setup, Unit,
};
use transom_programs::manifest;

transom_guest::export!(CountsTwo);

struct CountsTwo {
    heard: u64,
    bytes: u64,
}

impl Machine for CountsTwo {
    fn describe() -> Manifest {
        manifest(2, &[1, 2])
    }

    fn open(_out: &mut Outputs, _setup: Setup) -> Result<CountsTwo, Fault> {
        Ok(CountsTwo { heard: 0, bytes: 0 })
    }

    fn handle(&mut self, out: &mut Outputs, _now: Millis, input: Input) -> Result<(), Fault> {
        match input {
            Input::Unit(Unit { bytes, .. }) => {
                self.heard += 1;
                self.bytes += bytes.len() as u64;
                let text = String::from_utf8_lossy(&bytes);
                out.unit(format!("{} {text} ({})", self.heard, self.bytes).into_bytes());
            }
            Input::Drain(_) => {
                out.push(Output::Close(Closing { code: None, reason: "drained".to_owned() }))
            }
            _ => {}
        }
        Ok(())
    }

    fn suspend(&self) -> Vec<u8> {
        [self.heard.to_le_bytes(), self.bytes.to_le_bytes()].concat()
    }

    fn resume(_setup: Setup, format: u32, state: &[u8]) -> Result<CountsTwo, Fault> {
        let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        match (format, state.first_chunk(), state.last_chunk()) {
            // How many bytes there were is not in it.
            (1, Some(heard), _) => Ok(CountsTwo { heard: number(heard), bytes: 0 }),
            (2, Some(heard), Some(bytes)) => {
                Ok(CountsTwo { heard: number(heard), bytes: number(bytes) })
            }
            _ => Err(Fault::new(FaultKind::Unsupported, format!("no state of format {format}"))),
        }
    }
}
