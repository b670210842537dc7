//! No crime, but a measure: gives every input back as the output that looks most like it, and counts. What arrives
//! changed was changed on the way.

use transom_guest::{
    Closing, Ending, Excess, Farewell, Fault, FaultKind, Framing, Input, Machine, Manifest, Millis,
    Output, Outputs, Setup, Skipped,
};

transom_guest::export!(Mirrors);

/// How many inputs there were.
struct Mirrors(u64);

impl Machine for Mirrors {
    fn describe() -> Manifest {
        Manifest {
            protocol: "mirrors".to_owned(),
            revisions: vec!["1".to_owned(), "2024-11-05".to_owned()],
            framings: vec![
                Framing::Lines,
                Framing::Messages,
                Framing::Exchange,
                Framing::Outbound,
                Framing::Chunks,
            ],
            sends: vec!["session/*".to_owned(), "ask/answer".to_owned()],
            headers: vec!["accept".to_owned()],
            state_format: 3,
            resumes: vec![2, 3],
        }
    }

    fn open(out: &mut Outputs, setup: Setup) -> Result<Mirrors, Fault> {
        let Setup { framing, seed, options, facts } = setup;
        let facts: Vec<String> =
            facts.iter().map(|(name, value)| format!("{name}={value}")).collect();
        out.note("setup", format!("{framing:?} {seed:?} {options} {}", facts.join(" ")));
        Ok(Mirrors(0))
    }

    fn handle(&mut self, out: &mut Outputs, now: Millis, input: Input) -> Result<(), Fault> {
        self.0 += 1;
        let output = match input {
            Input::Head(head) => Output::Head(head),
            Input::Unit(unit) => Output::Unit(unit),
            Input::Skipped(Skipped { lane, why, bytes }) => {
                let why = match why {
                    Excess::TooLong => "too-long",
                    Excess::TooDeep => "too-deep",
                };
                Output::Note(why.to_owned(), format!("[{lane},{bytes}]"))
            }
            Input::End(Ending { lane, broken: None }) => Output::End(lane),
            Input::End(Ending { lane, broken: Some(why) }) => {
                out.push(Output::Abort(lane));
                Output::Close(Closing { code: Some(1011), reason: why })
            }
            Input::Frame(frame) => Output::Frame(frame),
            Input::Deadline => {
                out.deadline(None);
                Output::Deadline(Some(now + self.0))
            }
            Input::Drain(farewell) => {
                let reason = match farewell {
                    Farewell::Shutdown => "shutdown",
                    Farewell::Replaced => "replaced",
                };
                Output::Close(Closing { code: None, reason: reason.to_owned() })
            }
            Input::Other(name, json) => Output::Other(name, json),
        };
        out.push(output);
        Ok(())
    }

    fn suspend(&self) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }

    fn resume(_setup: Setup, format: u32, state: &[u8]) -> Result<Mirrors, Fault> {
        match state.try_into() {
            Ok(bytes) if format == 2 || format == 3 => Ok(Mirrors(u64::from_le_bytes(bytes))),
            _ => Err(Fault::new(FaultKind::Unsupported, format!("no state of format {format}"))),
        }
    }
}
