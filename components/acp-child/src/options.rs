//! What the operator fixes for a connection before it begins: how long an agent may take to be ready.
//! Options are no part of the packed state: a changed one counts from the next connection on (decision 53).

use transom_guest::{Fault, FaultKind, Framing, Millis, Setup, json::Reader, jsonrpc::trim};

/// How long an agent may take from its start until it has a session, where nothing else is said.
const START_MS: Millis = 60_000;

/// Timers of runtimes end here.
const START_MS_MAX: Millis = 2_147_483_647;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// From the opening of the connection until the agent has a session.
    pub(crate) start_ms: Millis,
}

impl Options {
    /// Reads options strictly: what a user could believe was accepted is accepted or refused by name.
    pub(crate) fn read(setup: &Setup) -> Result<Options, Fault> {
        if setup.framing != Framing::Lines {
            let detail = format!("acp-child speaks over lines, not over {:?}", setup.framing);
            return Err(refused(detail));
        }
        let mut options = Options { start_ms: START_MS };
        let text = trim(&setup.options);
        if text.is_empty() || text == "null" {
            return Ok(options);
        }
        let mut wrong = None;
        let mut reader = Reader::new(text);
        let read = reader.object(|reader, name| {
            let name = name.decode();
            let value = reader.value()?;
            if let Err(complaint) = options.take(&name, value) {
                wrong.get_or_insert(complaint);
            }
            Some(())
        });
        if read.is_none() || !reader.at_end() {
            return Err(refused(format!("options are no JSON object: {text}")));
        }
        match wrong {
            Some(wrong) => Err(refused(wrong)),
            None => Ok(options),
        }
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "startMs" => {
                let number = value.parse().ok().filter(|ms| (1..=START_MS_MAX).contains(ms));
                self.start_ms = number.ok_or_else(|| {
                    format!("option startMs is {value}; it must be a whole number from 1 to {START_MS_MAX}")
                })?;
                Ok(())
            }
            unknown => Err(format!("option {unknown} is unknown; known is startMs")),
        }
    }
}

fn refused(detail: String) -> Fault {
    Fault::new(FaultKind::Unsupported, detail)
}
