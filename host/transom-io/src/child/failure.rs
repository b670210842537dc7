//! Why a run failed, as its caller is told: a sentence, a stage, a category, and how the process ended. Nothing of
//! it is the agent's own.

use transom_process::{Exit, SpawnError};

/// Characters of a sentence, and of a codec's words for stage and category.
const SENTENCE_CHARS_MAX: usize = 2_000;
const WORD_CHARS_MAX: usize = 32;

/// The category that a lost wire becomes once it is known that the process is gone.
const TRANSPORT: &str = "transport";
const PROCESS_EXIT: &str = "process-exit";

/// A start that nobody wants any more.
pub(super) const ABORTED: &str = "subagent request was aborted before the ACP child started";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    sentence: String,
    stage: String,
    category: String,
}

impl Failure {
    /// In words that a codec gives; what is no sentence or no word is made one.
    pub(super) fn new(sentence: &str, stage: &str, category: &str) -> Failure {
        let plain = |character: char| if character.is_control() { ' ' } else { character };
        Failure {
            sentence: sentence.chars().map(plain).take(SENTENCE_CHARS_MAX).collect(),
            stage: word(stage),
            category: word(category),
        }
    }

    /// The process did not come to be.
    pub(super) fn spawn(program: &str, error: &SpawnError) -> Failure {
        let sentence = match error {
            SpawnError::NotFound(_) => format!("spawn {program} ENOENT"),
            SpawnError::NoProgram
            | SpawnError::RelativeProgram(_)
            | SpawnError::NoDirectory(_)
            | SpawnError::Refused { .. }
            | SpawnError::Overloaded(_)
            | SpawnError::Closed => format!("spawn {program}: {error}"),
        };
        Failure::new(&sentence, "process", "process-start")
    }

    /// The connection is over, and nothing was answered: its codec failed, or was cut off.
    pub(super) fn lost(stage: &str, reason: &str) -> Failure {
        Failure::new(&format!("the connection to the agent is lost: {reason}"), stage, TRANSPORT)
    }

    /// What a codec should have told long ago.
    pub(super) fn late(stage: &str) -> Failure {
        Failure::new("the agent was not started in time", stage, TRANSPORT)
    }

    /// Whether the end of the process would explain it.
    pub(super) fn is_of_the_wire(&self) -> bool {
        self.category == TRANSPORT
    }

    /// For the caller and the log. `exit`: the process had ended by itself.
    pub(super) fn told(&self, exit: Option<Exit>) -> String {
        let Failure { sentence, stage, category } = self;
        match exit.filter(|_| self.is_of_the_wire()) {
            Some(exit) => {
                let how = match exit {
                    Exit::Code(code) => format!("exit code {code}"),
                    Exit::Signal(_) => {
                        format!("ended by {}", exit.signal_name().unwrap_or_default())
                    }
                };
                format!("{sentence} (stage: {stage}, category: {PROCESS_EXIT}, {how})")
            }
            None => format!("{sentence} (stage: {stage}, category: {category})"),
        }
    }
}

/// The same, and that its processes could not be ended.
pub(super) fn with_teardown(told: &str) -> String {
    let teardown = "its processes could not all be ended (stage: teardown, category: unknown)";
    match told {
        "" => teardown.to_owned(),
        told => format!("{told}; {teardown}"),
    }
}

fn word(text: &str) -> String {
    let fits = |character: &char| character.is_ascii_lowercase() || *character == '-';
    let word: String = text.chars().take_while(fits).take(WORD_CHARS_MAX).collect();
    if word.is_empty() { "unknown".to_owned() } else { word }
}
