//! The environment of a launch: what the process inherited, and below it the file `.env` (S-142).

use std::{collections::BTreeMap, io};

use super::Surroundings;

/// The environment with the variables of `.env` in the process directory, and what could not be read of
/// it. Inherited variables win; a missing file is none.
pub(super) fn with_file(surroundings: Surroundings<'_>) -> (BTreeMap<String, String>, Vec<String>) {
    let path = surroundings.directory.join(".env");
    let mut environment = BTreeMap::new();
    let mut notices = Vec::new();
    match (surroundings.read)(&path) {
        Ok(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) => environment = variables(text),
            Err(_) => notices.push(format!("{} is ignored: it is not UTF-8", path.display())),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            notices.push(format!("{} is ignored: it cannot be read: {error}", path.display()))
        }
    }
    environment.extend(surroundings.environment.clone());
    (environment, notices)
}

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
