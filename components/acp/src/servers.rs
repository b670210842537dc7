//! Declarations of MCP servers, as far as they can be judged without starting one. Their shape is
//! `params.rs`'s; bridging them is the host's, which cannot do it yet, so that a right declaration is refused as well.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};
use transom_guest::{
    json::Reader,
    jsonrpc::{is_space, string},
};

use crate::translate::{Refusal, members, shown};

/// Characters of a tool namespace.
const NAME_CHARS_MAX: usize = 32;

/// Characters of a name that stay in front of its digest.
const STEM_CHARS_MAX: usize = 20;

/// Judges a list of declarations that is right in shape. `Ok`: there are none.
pub(crate) fn check(list: Option<&str>) -> Result<(), Refusal> {
    let mut wrong = None;
    let mut names = Vec::new();
    let mut at = 0_usize;
    Reader::new(list.unwrap_or_default()).array(|reader| {
        let entry = reader.value()?;
        if wrong.is_none() {
            wrong = declaration(at, entry).err();
        }
        names.extend(members(entry, ["name"]).map(|[name]| string(name).unwrap_or_default()));
        at += 1;
        Some(())
    });
    if let Some(wrong) = wrong {
        return Err(Refusal::params(wrong));
    }
    let mut spaces = BTreeSet::new();
    for name in &names {
        let space = namespace(name)
            .ok_or_else(|| Refusal::params("mcpServers contains an invalid server name"))?;
        if spaces.contains(&space) {
            let text = format!("mcpServers contains duplicate normalized name: {space}");
            return Err(Refusal::params(text));
        }
        spaces.insert(space);
    }
    match at {
        0 => Ok(()),
        // Never passed over: a client must not believe that a server is there.
        _ => Err(Refusal::params(
            "mcpServers is not supported: this host bridges no MCP servers into ACP sessions yet",
        )),
    }
}

fn declaration(at: usize, entry: &str) -> Result<(), String> {
    let names = ["type", "url", "headers", "command", "env"];
    let [transport, url, headers, command, environment] = members(entry, names).unwrap_or_default();
    match string(transport).as_deref() {
        None | Some("stdio") => {
            if !string(command).unwrap_or_default().starts_with('/') {
                return Err(format!("mcpServers[{at}].command must be an absolute path"));
            }
            let field = format!("mcpServers[{at}].env");
            pairs(environment, &field, false, |name, value| {
                let fits = !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
                fits.then_some(()).ok_or("an invalid environment entry")
            })
        }
        Some("http") => {
            if !is_http(&string(url).unwrap_or_default()) {
                return Err(format!("mcpServers[{at}].url must be an absolute HTTP(S) URL"));
            }
            let field = format!("mcpServers[{at}].headers");
            pairs(headers, &field, true, |name, value| {
                let fits = !name.is_empty()
                    && name.bytes().all(is_token)
                    && !value.chars().any(|c| c.is_control() && c != '\t');
                fits.then_some(()).ok_or("an invalid header entry")
            })
        }
        Some(other) => {
            let other = shown(other);
            Err(format!("mcpServers[{at}] transport {other} is not supported"))
        }
    }
}

/// Names and values: each by itself, and no name twice.
fn pairs(
    list: Option<&str>,
    field: &str,
    any_case: bool,
    fits: impl Fn(&str, &str) -> Result<(), &'static str>,
) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let mut wrong = None;
    Reader::new(list.unwrap_or_default()).array(|reader| {
        let [name, value] = members(reader.value()?, ["name", "value"]).unwrap_or_default();
        let name = string(name).unwrap_or_default();
        let value = string(value).unwrap_or_default();
        let same = if any_case { name.to_ascii_lowercase() } else { name.to_string() };
        if let Err(why) = fits(&name, &value) {
            wrong.get_or_insert_with(|| format!("{field} contains {why}"));
        } else if seen.contains(&same) {
            let name = shown(&name);
            wrong.get_or_insert_with(|| format!("{field} contains duplicate name: {name}"));
        }
        seen.insert(same);
        Some(())
    });
    wrong.map_or(Ok(()), Err)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_http(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let known = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    known && !host.is_empty() && !url.chars().any(|c| c.is_control() || is_space(c))
}

/// What a server's tools are named by; `None`: the name is none. Characters that are not ASCII are left out whole: the
/// letters that their decompositions hold would only stand in front of the digest, which tells names apart.
fn namespace(name: &str) -> Option<String> {
    let stays = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.chars().all(is_space) || name.chars().any(char::is_control) {
        return None;
    }
    if name.len() <= NAME_CHARS_MAX && name.chars().all(stays) {
        return Some(name.to_owned());
    }
    let mut stem = String::new();
    for character in name.chars() {
        match (stays(character), stem.ends_with('_')) {
            (true, _) => stem.push(character),
            (false, false) => stem.push('_'),
            (false, true) => {}
        }
    }
    let stem: String = stem.trim_matches('_').chars().take(STEM_CHARS_MAX).collect();
    let stem = if stem.is_empty() { "server" } else { &stem };
    let digest = Sha256::digest(name.as_bytes());
    let digest: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{stem}_{digest}").chars().take(NAME_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::namespace;

    #[test]
    fn a_server_is_named_so_that_its_tools_can_be() {
        //
        let long = "a".repeat(33);
        let cases = [
            ("fs", Some("fs")),
            ("a-b_C9", Some("a-b_C9")),
            ("My Echo", Some("My_Echo_2fed3c25")),
            ("a b", Some("a_b_c8687a08")),
            ("..", Some("server_5ec1f7e7")),
            (" ", None),
            ("", None),
            ("a\nb", None),
        ];
        for (name, expected) in cases {
            assert_eq!(namespace(name).as_deref(), expected, "{name:?}");
        }
        let short = namespace(&long).expect("a name");
        assert_eq!(short.split_at(20).0, "a".repeat(20));
        assert_eq!(short.len(), 29);
    }
}
