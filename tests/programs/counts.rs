//! No crime, but a memory: answers each unit with its number and the unit itself. A number that is missing, or comes twice,
//! was lost or doubled on the way.

use transom_guest::{
    Closing, Fault, FaultKind, Input, Machine, Manifest, Millis, Output, Outputs, Setup, Unit,
};
use transom_programs::manifest;

transom_guest::export!(Counts);

/// How many units there were, and what the options put before each answer.
struct Counts {
    heard: u64,
    prefix: String,
}

fn prefix(setup: &Setup) -> String {
    if setup.options.contains("loud") { "loud ".to_owned() } else { String::new() }
}

impl Machine for Counts {
    fn describe() -> Manifest {
        // The later format begins with what this one holds.
        manifest(1, &[1, 2])
    }

    fn open(_out: &mut Outputs, setup: Setup) -> Result<Counts, Fault> {
        Ok(Counts { heard: 0, prefix: prefix(&setup) })
    }

    fn handle(&mut self, out: &mut Outputs, _now: Millis, input: Input) -> Result<(), Fault> {
        match input {
            Input::Unit(Unit { bytes, .. }) => {
                self.heard += 1;
                let text = String::from_utf8_lossy(&bytes);
                out.unit(format!("{}{} {text}", self.prefix, self.heard).into_bytes());
            }
            Input::Drain(_) => {
                out.push(Output::Close(Closing { code: None, reason: "drained".to_owned() }))
            }
            _ => {}
        }
        Ok(())
    }

    fn suspend(&self) -> Vec<u8> {
        self.heard.to_le_bytes().to_vec()
    }

    fn resume(setup: Setup, format: u32, state: &[u8]) -> Result<Counts, Fault> {
        match state.first_chunk() {
            Some(bytes) if state.len() == if format == 1 { 8 } else { 16 } => {
                Ok(Counts { heard: u64::from_le_bytes(*bytes), prefix: prefix(&setup) })
            }
            _ => Err(Fault::new(FaultKind::Unsupported, format!("no state of format {format}"))),
        }
    }
}
