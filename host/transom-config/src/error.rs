//! What is wrong with a configuration, in the operator's words.
//! Finding it is done in `manifest` and `launch`.

use std::{fmt, io, path::Path};

use transom_policy::Places;

/// One complaint about one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, as it was named by whoever asked for it; or the variable or argument that says something instead.
    pub file: String,
    /// Line and column, in characters, from 1. `None`: the complaint is about the whole file, variable or argument.
    pub position: Option<(usize, usize)>,
    /// What was found, and what would be right.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigError { file, position, message } = self;
        match position {
            Some((line, column)) => write!(f, "{file}:{line}:{column}: {message}"),
            None => write!(f, "{file}: {message}"),
        }
    }
}

/// Everything that is wrong with a configuration, in the order of the text. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl ConfigErrors {
    /// The file could not be read at all.
    pub fn unreadable(file: &Path, error: &io::Error) -> ConfigErrors {
        ConfigErrors::whole(file, format!("cannot be read: {error}"))
    }

    /// A complaint about a whole file.
    pub(crate) fn whole(file: &Path, message: String) -> ConfigErrors {
        ConfigErrors(vec![ConfigError {
            file: file.display().to_string(),
            position: None,
            message,
        }])
    }
}

impl ConfigError {
    /// A complaint about the byte at `at` of a text.
    pub(crate) fn at(
        file: &str,
        places: &mut Places<'_>,
        at: usize,
        message: String,
    ) -> ConfigError {
        ConfigError { file: file.to_owned(), position: Some(places.of(at)), message }
    }
}

/// Reads bytes as text, or says where they stop being UTF-8.
pub(crate) fn utf8<'a>(file: &Path, bytes: &'a [u8]) -> Result<&'a str, ConfigErrors> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or_default());
        let found = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
        let message = format!("the byte {found:#04x} is not UTF-8; save the file as UTF-8");
        ConfigErrors(vec![ConfigError::at(
            &file.display().to_string(),
            &mut Places::new(&valid),
            valid.len(),
            message,
        )])
    })
}

/// `; did you mean …?`, or what there is to choose from.
pub(crate) fn remedy(found: &str, known: &[&str]) -> String {
    match transom_policy::nearest(found, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => match known {
            [] => "nothing is known here".to_owned(),
            [only] => format!("known is `{only}`"),
            _ => {
                let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
                format!("known are {}", known.join(", "))
            }
        },
    }
}
