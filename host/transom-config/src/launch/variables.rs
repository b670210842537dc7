//! The environment of a launch: what the process inherited, and below it the file `.env` (S-142).

use std::{collections::BTreeMap, io};

use super::{PermissionMode, Surroundings, arguments::UsageError};

/// What a `.env` comes to.
pub(super) struct Variables {
    /// What expressions of a configuration see.
    pub(super) configuration: BTreeMap<String, String>,
    /// What the host itself obeys and its children inherit.
    pub(super) process: BTreeMap<String, String>,
    pub(super) notices: Vec<String>,
}

/// The variable that names the permission mode of a launch.
const MODE: &str = "DSH_PERMISSION_MODE";

/// What `DSH_PERMISSION_MODE` says (P-6). `None`: it is not set.
///
/// Any other value than a mode stops the start, the empty one included, whatever the composition: whoever sets it
/// believes in a bound.
pub fn permission_mode(
    environment: &BTreeMap<String, String>,
) -> Result<Option<PermissionMode>, UsageError> {
    let Some(value) = environment.get(MODE) else { return Ok(None) };
    match PermissionMode::ALL.into_iter().find(|mode| mode.as_str() == value) {
        Some(mode) => Ok(Some(mode)),
        None => Err(UsageError::new(format!(
            "{MODE} is {value:?}; it must be read-only, workspace-write or danger-full-access"
        ))),
    }
}

/// The environment with the variables of `.env` in the process directory. Inherited variables win; a missing file
/// is none.
///
/// The directory is often a checkout of somebody else's, so its file is not the operator's word: beyond expressions
/// of the operator's own configuration it may only set the launch's own variables, it may not choose that
/// configuration, it may not choose where an inherited key is sent, and it may not choose what tools may do: a
/// confined shell could otherwise write itself a wider mode for the next start (P-34).
pub(super) fn with_file(surroundings: Surroundings<'_>) -> Variables {
    let inherited = surroundings.environment;
    let path = surroundings.directory.join(".env");
    let mut notices = Vec::new();
    let mut found = match (surroundings.read)(&path) {
        Ok(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) => variables(text),
            Err(_) => {
                notices.push(format!("{} is ignored: it is not UTF-8", path.display()));
                BTreeMap::new()
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => {
            notices.push(format!("{} is ignored: it cannot be read: {error}", path.display()));
            BTreeMap::new()
        }
    };
    found.retain(|name, _| !inherited.contains_key(name));
    let mut refuse = |name: &str, why: &str| {
        if found.remove(name).is_some() {
            notices.push(format!("{name} in {} is ignored: {why}", path.display()));
        }
    };
    refuse("DSH_CORDIS_CONFIG", "the configuration is named by whoever starts this program");
    refuse(MODE, "what tools may do is said by whoever starts this program");
    if inherited.contains_key(KEY) {
        refuse(
            "DEEPSEEK_BASE_URL",
            "the key was inherited, and this file may not choose where it is sent",
        );
    }
    if !found.is_empty() {
        let names: Vec<_> = found.keys().map(String::as_str).collect();
        notices.push(format!("{} sets {}", path.display(), names.join(", ")));
    }

    let ours = |name: &String| name.starts_with("DSH_") || name.starts_with("DEEPSEEK_");
    let mut process = inherited.clone();
    process.extend(
        found
            .iter()
            .filter(|(name, _)| ours(name))
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    let mut configuration = found;
    configuration.extend(process.clone());
    Variables { configuration, process, notices }
}

/// The variable that holds the key of the model provider.
const KEY: &str = "DEEPSEEK_API_KEY";

/// Lines `NAME=value`, with `export` in front, quotation marks around the value or a comment behind it.
fn variables(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| {
            let line = line.trim();
            let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
            let name = name.trim();
            let good = !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
            (good && !name.starts_with(|c: char| c.is_ascii_digit()))
                .then(|| (name.to_owned(), value_of(value.trim())))
        })
        .collect()
}

fn value_of(text: &str) -> String {
    for quote in ['"', '\'', '`'] {
        if let Some((inside, _)) = text.strip_prefix(quote).and_then(|rest| rest.split_once(quote))
        {
            // Only double quotation marks know escapes, and only this one.
            return if quote == '"' { inside.replace("\\n", "\n") } else { inside.to_owned() };
        }
    }
    text.split_once('#').map_or(text, |(before, _)| before).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::variables;

    #[test]
    fn a_file_of_variables_is_read_line_by_line() {
        let check = |line: &str, expected: Option<(&str, &str)>| {
            let found = variables(line).into_iter().next();
            let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(found, expected, "{line}");
        };
        check("A=b", Some(("A", "b")));
        check("  export A = b c  # why", Some(("A", "b c")));
        check(r#"A="b # c\nd" # why"#, Some(("A", "b # c\nd")));
        check(r"A='b\n$C'", Some(("A", r"b\n$C")));
        check("A=", Some(("A", "")));
        check("A=\"b", Some(("A", "\"b")));
        check("# A=b", None);
        check("A", None);
        check("=b", None);
        check("1A=b", None);
    }
}
