//! Plays a conversation against a machine and writes down what was said, for tests that read as stories.
//! The notation stands in `notation.rs`; nothing here knows a protocol.
//!
//! An input is one line: the time, a word, and what belongs to it.
//!
//! | Line | Input |
//! |---|---|
//! | `5 unit {"hello":1}` | a text unit on lane 0 |
//! | `5 unit lane=3 {"hello":1}` | the same on lane 3 |
//! | `5 binary 00ff`, `5 unfinished {"hel` | a binary message (in hex), the rest of a wire that ended |
//! | `5 head lane=1 :status=200 content-type=text/plain` | a head; a value with blanks is put in quotes |
//! | `5 skipped too-long 70000` | a unit that crossed a bound |
//! | `9 end`, `9 end lane=2`, `9 end broken exit 3` | the other side is done; or the wire broke |
//! | `9 frame reply session/prompt session=main id=2 {}` | a frame: kind, name, then what it has of session, id, body |
//! | `30000 deadline` | the deadline has come |
//! | `9 drain shutdown`, `9 drain replaced` | the connection shall end |
//! | `9 other name {}` | growth within the track |
//!
//! The transcript repeats each input behind `> `, gives outputs in the same words behind `< ` and a fault behind `! `.
//! Outputs of `open` stand before the first input.

mod notation;

use crate::types::*;

/// A plain setup: lines, a fixed seed, no options, no facts.
pub fn setup() -> Setup {
    Setup { framing: Framing::Lines, seed: (1, 2), options: "{}".to_owned(), facts: Vec::new() }
}

/// Plays these inputs against a new machine with a plain [`setup`].
pub fn play<M: Machine>(inputs: &[&str]) -> String {
    play_with::<M>(setup(), inputs)
}

/// Plays these inputs against a new machine.
pub fn play_with<M: Machine>(setup: Setup, inputs: &[&str]) -> String {
    let mut player = Player::<M>::open(setup);
    for line in inputs {
        player.line(line);
    }
    player.transcript
}

/// Plays these inputs against a machine that is suspended and resumed between every two of them. The transcript
/// must equal that of [`play_with`].
///
/// # Panics
///
/// When a state is refused, when `suspend` changes it, or when a resumed machine suspends to other bytes.
pub fn play_with_swaps<M: Machine>(setup: Setup, inputs: &[&str]) -> String {
    let mut player = Player::<M>::open(setup);
    for line in inputs {
        player.swap();
        player.line(line);
    }
    player.swap();
    player.transcript
}

/// A machine and what was said to it and by it.
pub struct Player<M> {
    setup: Setup,
    machine: State<M>,
    transcript: String,
}

/// What became of the machine.
enum State<M> {
    Running(M),
    /// It gave a fault; it stays, because it must repeat it.
    Faulted(M),
    /// `open` refused, so there is none.
    Refused,
}

impl<M: Machine> Player<M> {
    /// Opens a connection; its first outputs begin the transcript.
    pub fn open(setup: Setup) -> Player<M> {
        let mut out = Outputs::default();
        let mut transcript = String::new();
        let machine = match M::open(&mut out, setup.clone()) {
            Ok(machine) => {
                notation::outputs(&mut transcript, out.into_vec());
                State::Running(machine)
            }
            Err(fault) => {
                notation::fault(&mut transcript, &fault);
                State::Refused
            }
        };
        Player { setup, machine, transcript }
    }

    /// Hands over one input in the notation of this module.
    ///
    /// # Panics
    ///
    /// When the line cannot be read, or when `open` had refused.
    pub fn line(&mut self, line: &str) {
        let (now, input) = notation::input(line);
        self.transcript.push_str(&format!("> {line}\n"));
        self.handle(now, input);
    }

    /// Hands over one input that is not written down.
    ///
    /// # Panics
    ///
    /// When `open` had refused.
    #[expect(clippy::panic, reason = "part of a test")]
    pub fn handle(&mut self, now: Millis, input: Input) {
        let (mut machine, faulted) = match std::mem::replace(&mut self.machine, State::Refused) {
            State::Running(machine) => (machine, false),
            State::Faulted(machine) => (machine, true),
            State::Refused => panic!("open refused, so nothing can be played: {}", self.transcript),
        };
        let mut out = Outputs::default();
        self.machine = match machine.handle(&mut out, now, input) {
            Ok(()) if faulted => {
                panic!("a fault must be repeated by every later call:\n{}", self.transcript)
            }
            Ok(()) => {
                notation::outputs(&mut self.transcript, out.into_vec());
                State::Running(machine)
            }
            Err(fault) => {
                notation::fault(&mut self.transcript, &fault);
                State::Faulted(machine)
            }
        };
    }

    /// Puts a new machine in the place of the old, from its state. A host never moves a connection that faulted.
    ///
    /// # Panics
    ///
    /// When the state is refused or does not survive.
    #[expect(clippy::panic, reason = "part of a test")]
    pub fn swap(&mut self) {
        let State::Running(machine) = &self.machine else { return };
        let state = machine.suspend();
        assert_eq!(state, machine.suspend(), "suspend only reads, so twice gives the same");

        let format = M::describe().state_format;
        let resumed = match M::resume(self.setup.clone(), format, &state) {
            Ok(resumed) => resumed,
            Err(fault) => {
                panic!("its own state was refused: {}:\n{}", fault.detail, self.transcript)
            }
        };
        assert_eq!(
            state,
            resumed.suspend(),
            "a resumed machine holds the same state:\n{}",
            self.transcript
        );
        self.machine = State::Running(resumed);
    }

    /// What was said so far.
    pub fn transcript(&self) -> &str {
        &self.transcript
    }
}

#[cfg(test)]
mod tests;
