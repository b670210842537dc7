//! The smallest codec: each text unit comes back as a unit. A tutorial for authors and a smoke test for hosts;
//! it says nothing to the host but what concerns its own connection.

use transom_guest::{
    Excess, Fault, FaultKind, Form, Framing, Input, Machine, Manifest, Millis, Output, Outputs,
    Setup, Skipped, Unit,
};

transom_guest::export!(Echo);

/// The format of the state that [`Echo::suspend`] writes: eight bytes, the counter, little end first.
const STATE_FORMAT: u32 = 1;

/// One conversation: how many units came back so far.
pub struct Echo {
    echoed: u64,
}

impl Machine for Echo {
    fn describe() -> Manifest {
        Manifest {
            protocol: "echo".to_owned(),
            revisions: vec!["1".to_owned()],
            framings: vec![Framing::Lines, Framing::Messages],
            sends: vec![],
            headers: vec![],
            state_format: STATE_FORMAT,
            resumes: vec![STATE_FORMAT],
        }
    }

    fn open(_out: &mut Outputs, _setup: Setup) -> Result<Echo, Fault> {
        Ok(Echo { echoed: 0 })
    }

    fn handle(&mut self, out: &mut Outputs, _now: Millis, input: Input) -> Result<(), Fault> {
        match input {
            Input::Unit(Unit { form: Form::Unfinished, .. }) => {}
            Input::Unit(unit) => {
                self.echoed += 1;
                out.push(Output::Unit(unit));
            }
            Input::Skipped(Skipped { why, bytes, .. }) => {
                let why = match why {
                    Excess::TooLong => "too-long",
                    Excess::TooDeep => "too-deep",
                };
                out.note("skipped", format!(r#"{{"why":"{why}","bytes":{bytes}}}"#));
            }
            Input::End(_) | Input::Drain(_) => {
                out.note("echoed", format!(r#"{{"units":{}}}"#, self.echoed));
                out.close("");
            }
            Input::Head(_) | Input::Frame(_) | Input::Deadline | Input::Other(_, _) => {}
        }
        Ok(())
    }

    fn suspend(&self) -> Vec<u8> {
        self.echoed.to_le_bytes().to_vec()
    }

    fn resume(_setup: Setup, format: u32, state: &[u8]) -> Result<Echo, Fault> {
        let bytes = (format == STATE_FORMAT).then(|| state.try_into().ok()).flatten();
        let Some(bytes) = bytes else {
            return Err(Fault::new(
                FaultKind::Unsupported,
                "this state was written by another kind of echo",
            ));
        };
        Ok(Echo { echoed: u64::from_le_bytes(bytes) })
    }
}

#[cfg(test)]
mod tests;
