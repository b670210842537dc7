//! What the operator fixes for a connection before it begins: how long an agent may take to be ready.
//! Options are no part of the packed state: a changed one counts from the next connection on (decision 53).

use transom_guest::{Fault, FaultKind, Framing, Millis, Setup, options};

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
        options::read(&setup.options, |name, value| options.take(name, value))?;
        Ok(options)
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
