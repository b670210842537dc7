//! Command lines of published clients (S-203 to S-205). Subcommands have been looked at before.

use crate::error::remedy;

use super::profiles::PROFILES;

/// A command line, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// Form A: no argument, or the path of a configuration.
    Configuration {
        /// The path, as it was given.
        argument: Option<String>,
    },
    /// Form B.
    Profile {
        /// A name that is known.
        name: &'static str,
        /// Paths of patches, in order.
        patches: Vec<String>,
    },
    /// `--version`: print it on stdout, exit 0.
    Version,
    /// `--help`: print it on stdout, exit 0.
    Help,
}

/// A command line that cannot be obeyed, in one line for stderr.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

const FORMS: &str =
    "<configuration.yml> (or DSH_CORDIS_CONFIG), or --profile <name> [--patch <path>]…";

impl UsageError {
    /// S-203: the line begins with `usage:`.
    pub(super) fn nothing_named() -> UsageError {
        UsageError(format!("usage: transom {FORMS}"))
    }

    pub(super) fn missing(named: &str) -> UsageError {
        UsageError(format!("usage: transom {FORMS}; the configuration {named:?} does not exist"))
    }

    pub(super) fn new(message: String) -> UsageError {
        UsageError(message)
    }
}

/// Understands the arguments behind the program's name.
///
/// A known profile's name as the first word means the same as `--profile` (S-204); any other word is the
/// path of a configuration (S-205).
pub fn invocation(arguments: &[String]) -> Result<Invocation, UsageError> {
    let mut profile: Option<&str> = None;
    let mut patches = Vec::new();
    let mut words: Vec<&str> = Vec::new();

    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        let (option, mut attached) = match argument.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value)),
            _ => (argument, None),
        };
        let mut value = |what: &str| {
            let value = attached.take().or_else(|| rest.next()).filter(|value| !value.is_empty());
            value.ok_or_else(|| UsageError::new(format!("{option} needs {what}")))
        };
        match option {
            "--version" | "-V" => return Ok(Invocation::Version),
            "--help" | "-h" => return Ok(Invocation::Help),
            "--profile" => {
                let name = value("the name of a profile")?;
                if profile.replace(name).is_some_and(|earlier| earlier != name) {
                    return Err(UsageError::new(
                        "--profile is given twice; one profile is run".to_owned(),
                    ));
                }
            }
            "--patch" => patches.push(value("the path of a patch")?.to_owned()),
            _ if argument.starts_with('-') && argument.len() > 1 => {
                let known = ["--profile", "--patch", "--version", "--help"];
                return Err(UsageError::new(format!(
                    "unknown option {option:?}; {}",
                    remedy(option, &known)
                )));
            }
            _ => words.push(argument),
        }
        if let Some(value) = attached {
            return Err(UsageError::new(format!("{option} takes no value, but has {value:?}")));
        }
    }

    let mut words = words.into_iter();
    if profile.is_none()
        && let Some(first) = words.as_slice().first()
        && PROFILES.contains(first)
    {
        profile = words.next();
    }
    match profile {
        Some(name) => {
            if let Some(word) = words.next() {
                return Err(UsageError::new(format!(
                    "the argument {word:?} is one too many beside a profile"
                )));
            }
            match PROFILES.iter().find(|known| **known == name) {
                Some(name) => Ok(Invocation::Profile { name, patches }),
                None => Err(UsageError::new(format!(
                    "unknown profile {name:?}; {}",
                    remedy(name, PROFILES)
                ))),
            }
        }
        None => {
            if !patches.is_empty() {
                return Err(UsageError::new("--patch needs a --profile to change".to_owned()));
            }
            let argument = words.next().map(str::to_owned);
            match words.next() {
                Some(word) => Err(UsageError::new(format!(
                    "the argument {word:?} is one too many; one configuration is run"
                ))),
                None => Ok(Invocation::Configuration { argument }),
            }
        }
    }
}
