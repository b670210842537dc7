//! A name that a child and all its descendants carry in their environment. Sessions, groups and parents can be left
//! behind; this only by who takes care to. Whose names there are is decided elsewhere.

use std::{
    fs,
    hash::{BuildHasher, Hasher, RandomState},
    process, thread,
};

use crate::leftover;

/// The variable it stands in, alone and as it begins an entry of an environment.
const NAME: &str = "TRANSOM_SESSION";
const VARIABLE: &[u8] = b"TRANSOM_SESSION=";

/// Whether a variable of this name is the host's own to set: by what it holds it finds what it has started.
pub fn is_mark(name: &str) -> bool {
    [leftover::MARK, NAME].contains(&name)
}

/// Such a name. It can have parts, which whoever looks for the whole finds too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mark(String);

impl Mark {
    /// One that nothing else on this machine carries.
    pub fn unique() -> Mark {
        // Where the system has none to give, its random keys and the number of this process do.
        let given =
            fs::read_to_string("/proc/sys/kernel/random/uuid").map(|id| id.trim().to_owned());
        Mark(given.unwrap_or_else(|_| {
            let number = || {
                let mut hasher = RandomState::new().build_hasher();
                hasher.write(format!("{:?}", thread::current().id()).as_bytes());
                hasher.finish()
            };
            format!("{}-{:016x}{:016x}", process::id(), number(), number())
        }))
    }

    /// A part of it. Its name must not hold a slash.
    pub fn part(&self, name: &str) -> Mark {
        Mark(format!("{}/{name}", self.0))
    }

    /// The variable and its value.
    pub(crate) fn variable(&self) -> (&'static str, &str) {
        (NAME, &self.0)
    }

    /// Whether an environment, as the system shows it, carries this mark or a part of it.
    pub(crate) fn is_in(&self, environment: &[u8]) -> bool {
        environment.split(|byte| *byte == 0).any(|entry| {
            let rest = entry
                .strip_prefix(VARIABLE)
                .and_then(|value| value.strip_prefix(self.0.as_bytes()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        })
    }
}
