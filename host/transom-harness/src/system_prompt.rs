//! The system prompt: named sections in a fixed order, variables filled in strictly (L-95).

use std::fmt::Write as _;

/// One part of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSection {
    /// Names the section in error messages; never sent.
    pub name: String,
    /// Smaller comes first: −100 identity, 0 persona, 100 to 199 guidance on tools.
    pub order: i32,
    /// Dropped if it comes out empty.
    pub text: Text,
}

/// What a section says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// To the letter.
    Verbatim(String),
    /// May hold `{{provider}}`, `{{model}}` and `{{cwd}}`.
    Template(String),
}

/// What variables of a section stand for.
#[derive(Debug, Clone, Copy)]
pub struct Variables<'a> {
    /// Name under which the provider is registered.
    pub provider: &'a str,
    /// The provider's name for it.
    pub model: &'a str,
    /// Absolute; without it, a section that uses it fails.
    pub cwd: Option<&'a str>,
}

/// Sections sorted by order (ties as given), empty ones dropped, joined by a blank line. Fails on a
/// variable that is unknown or has no value.
pub fn assemble(sections: &[PromptSection], variables: Variables<'_>) -> Result<String, String> {
    let mut sorted: Vec<_> = sections.iter().collect();
    sorted.sort_by_key(|section| section.order);
    let mut prompt = String::new();
    for section in sorted {
        let text = fill(section, variables)?;
        if text.is_empty() {
            continue;
        }
        if !prompt.is_empty() {
            prompt.push_str("\n\n");
        }
        prompt.push_str(&text);
    }
    Ok(prompt)
}

fn fill(section: &PromptSection, variables: Variables<'_>) -> Result<String, String> {
    let mut rest = match &section.text {
        Text::Verbatim(text) => return Ok(text.clone()),
        Text::Template(text) => text.as_str(),
    };
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, tail)) = after.split_once("}}") else { break };
        let value = match name.trim() {
            "provider" => Some(variables.provider),
            "model" => Some(variables.model),
            "cwd" => variables.cwd,
            other => {
                return Err(format!(
                    "section \"{}\" of the system prompt names the unknown variable \"{other}\"; known are provider, model, cwd",
                    section.name
                ));
            }
        };
        let Some(value) = value else {
            return Err(format!(
                "section \"{}\" of the system prompt needs \"{}\", which has no value",
                section.name,
                name.trim()
            ));
        };
        let _ = write!(out, "{before}{value}");
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{PromptSection, Text, Variables, assemble};

    fn section(name: &str, order: i32, text: Text) -> PromptSection {
        PromptSection { name: name.to_owned(), order, text }
    }

    fn template(text: &str) -> Text {
        Text::Template(text.to_owned())
    }

    const VARIABLES: Variables<'_> = Variables { provider: "p", model: "m", cwd: None };

    #[test]
    fn sections_stand_in_order_and_empty_ones_do_not() {
        // L-95.
        let sections = [
            section("tools", 100, template("about {{model}} of {{ provider }}")),
            section("nothing", 50, template("")),
            section("persona", 0, Text::Verbatim("be {{kind}}".to_owned())),
        ];
        assert_eq!(assemble(&sections, VARIABLES).unwrap(), "be {{kind}}\n\nabout m of p");
    }

    #[test]
    fn a_variable_without_a_value_fails_the_assembly() {
        let check = |text: &str, expected: &str| {
            assert_eq!(
                assemble(&[section("s", 0, template(text))], VARIABLES).unwrap_err(),
                expected
            );
        };
        check(
            "{{mood}}",
            "section \"s\" of the system prompt names the unknown variable \"mood\"; known are provider, model, cwd",
        );
        check("{{cwd}}", "section \"s\" of the system prompt needs \"cwd\", which has no value");
    }
}
