//! Members of `params`, checked against the protocol's schema, and what is wrong with them as a tree (A-24).
//! What is right in shape and refused all the same is left to `conversation.rs`.

use std::borrow::Cow;

use transom_guest::{
    json::{Reader, push_text},
    jsonrpc::{RequestId, is_number, is_string, string},
};

use crate::{content::Block, translate::members};

/// Complaints that are listed. One line can hold a million wrong members, and nobody reads so many.
const ISSUES_MAX: usize = 64;

/// The largest protocol version there can be (A-27).
const VERSION_MAX: f64 = 65_535.0;

/// What is wrong with `params`: a tree whose levels have `_errors`, and their members by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Issues {
    level: Level,
    count: usize,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Level {
    errors: Vec<String>,
    below: Vec<(String, Level)>,
}

impl Issues {
    fn add(&mut self, path: &[&str], error: String) {
        self.count += 1;
        if self.count > ISSUES_MAX {
            return;
        }
        let mut level = &mut self.level;
        for step in path {
            let at = match level.below.iter().position(|(name, _)| name == step) {
                Some(at) => at,
                None => {
                    level.below.push(((*step).to_owned(), Level::default()));
                    level.below.len() - 1
                }
            };
            let Some((_, next)) = level.below.get_mut(at) else { return };
            level = next;
        }
        level.errors.push(error);
    }

    /// Whether no more are listed. What comes behind is not looked at either: to complain takes much longer than to read.
    fn is_full(&self) -> bool {
        self.count >= ISSUES_MAX
    }

    fn root(error: String) -> Issues {
        let mut issues = Issues::default();
        issues.add(&[], error);
        issues
    }

    fn checked<T>(self, value: T) -> Result<T, Issues> {
        if self.count == 0 { Ok(value) } else { Err(self) }
    }

    /// The `data` of the error.
    pub(crate) fn to_json(&self) -> String {
        let mut out = String::new();
        self.level.push(&mut out);
        out
    }
}

impl Level {
    // As deep as the schema, so on the stack.
    fn push(&self, out: &mut String) {
        out.push_str("{\"_errors\":[");
        for (at, error) in self.errors.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            push_text(out, error);
        }
        out.push(']');
        for (name, level) in &self.below {
            out.push(',');
            push_text(out, name);
            out.push(':');
            level.push(out);
        }
        out.push('}');
    }
}

/// What a raw value is called.
fn kind(value: Option<&str>) -> &'static str {
    match value.and_then(|value| value.as_bytes().first()) {
        None => "undefined",
        Some(b'"') => "string",
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        Some(_) => "number",
    }
}

fn expected(what: &str, found: Option<&str>) -> String {
    format!("Invalid input: expected {what}, received {}", kind(found))
}

/// Some members of `params`, which must be an object.
fn object<'a, const N: usize>(
    params: Option<&'a str>,
    names: [&str; N],
) -> Result<[Option<&'a str>; N], Issues> {
    match params.and_then(|params| members(params, names)) {
        Some(found) => Ok(found),
        None => Err(Issues::root(expected("object", params))),
    }
}

/// An optional member that is `null` is absent (A-26).
fn given(value: Option<&str>) -> Option<&str> {
    value.filter(|value| *value != "null")
}

fn text<'a>(issues: &mut Issues, path: &[&str], value: Option<&'a str>) -> Cow<'a, str> {
    string(value).unwrap_or_else(|| {
        issues.add(path, expected("string", value));
        Cow::Borrowed("")
    })
}

/// `initialize`: the version, and that capabilities are an object. Neither has an effect (A-27, A-30).
pub(crate) fn initialize(params: Option<&str>) -> Result<(), Issues> {
    let [version, capabilities] = object(params, ["protocolVersion", "clientCapabilities"])?;
    let mut issues = Issues::default();
    let number = version.filter(|raw| is_number(raw)).and_then(|raw| raw.parse::<f64>().ok());
    let wrong = match number {
        None => Some(expected("number", version)),
        Some(number) if number.fract() != 0.0 => Some(expected("int", version)),
        Some(number) if number > VERSION_MAX => {
            Some(format!("Too big: expected number to be <={VERSION_MAX}"))
        }
        Some(number) if number < 0.0 => Some("Too small: expected number to be >=0".to_owned()),
        Some(_) => None,
    };
    if let Some(wrong) = wrong {
        issues.add(&["protocolVersion"], wrong);
    }
    let capabilities = given(capabilities);
    if capabilities.is_some() && kind(capabilities) != "object" {
        issues.add(&["clientCapabilities"], expected("object", capabilities));
    }
    issues.checked(())
}

/// `authenticate`: any method will do (A-32).
pub(crate) fn authenticate(params: Option<&str>) -> Result<(), Issues> {
    let [method] = object(params, ["methodId"])?;
    let mut issues = Issues::default();
    text(&mut issues, &["methodId"], method);
    issues.checked(())
}

/// `session/new`, right in shape.
#[derive(Debug)]
pub(crate) struct NewSession<'a> {
    pub(crate) cwd: Cow<'a, str>,
    /// Directories besides are wanted.
    pub(crate) directories: bool,
    /// Servers are wanted.
    pub(crate) servers: bool,
}

pub(crate) fn new_session(params: Option<&str>) -> Result<NewSession<'_>, Issues> {
    let [cwd, servers, directories] =
        object(params, ["cwd", "mcpServers", "additionalDirectories"])?;
    let mut issues = Issues::default();
    let cwd = text(&mut issues, &["cwd"], cwd);
    let servers = list(&mut issues, "mcpServers", servers, server);
    let directories = given(directories).is_some_and(|directories| {
        let name = "additionalDirectories";
        list(&mut issues, name, Some(directories), |issues, path, entry| {
            text(issues, path, Some(entry));
        })
    });
    issues.checked(NewSession { cwd, directories, servers })
}

/// Checks each entry of a list; whether there are any.
fn list(
    issues: &mut Issues,
    name: &str,
    value: Option<&str>,
    mut entry: impl FnMut(&mut Issues, &[&str], &str),
) -> bool {
    let mut at = 0_usize;
    let read = value.and_then(|value| {
        Reader::new(value).array(|reader| {
            let value = reader.value()?;
            if !issues.is_full() {
                entry(issues, &[name, &at.to_string()], value);
            }
            at += 1;
            Some(())
        })
    });
    if read.is_none() {
        issues.add(&[name], expected("array", value));
    }
    at > 0
}

/// A server in one of the three shapes of A-175. Malformed ones are refused, never dropped (A-35).
fn server(issues: &mut Issues, path: &[&str], entry: &str) {
    let names = ["type", "name", "url", "headers", "command", "args", "env"];
    let Some([transport, name, url, headers, command, arguments, environment]) =
        members(entry, names)
    else {
        return issues.add(path, expected("object", Some(entry)));
    };
    let [list, index] = [path.first(), path.get(1)].map(|step| step.copied().unwrap_or_default());
    let below = |name| [list, index, name];
    text(issues, &below("name"), name);
    let array = |issues: &mut Issues, name, value: Option<&str>| {
        if kind(value) != "array" {
            issues.add(&below(name), expected("array", value));
        }
    };
    match string(transport).as_deref() {
        Some("http" | "sse") => {
            text(issues, &below("url"), url);
            array(issues, "headers", headers);
        }
        _ => {
            text(issues, &below("command"), command);
            array(issues, "args", arguments);
            array(issues, "env", environment);
        }
    }
}

/// `session/prompt`, right in shape.
#[derive(Debug)]
pub(crate) struct Prompt<'a> {
    pub(crate) session: Cow<'a, str>,
    pub(crate) blocks: Vec<Block<'a>>,
}

pub(crate) fn prompt(params: Option<&str>) -> Result<Prompt<'_>, Issues> {
    let [session, prompt] = object(params, ["sessionId", "prompt"])?;
    let mut issues = Issues::default();
    let session = text(&mut issues, &["sessionId"], session);
    let mut blocks = Vec::new();
    let mut at = 0_usize;
    let read = prompt.and_then(|prompt| {
        Reader::new(prompt).array(|reader| {
            let value = reader.value()?;
            if !issues.is_full() {
                blocks.extend(block(&mut issues, &at.to_string(), value));
            }
            at += 1;
            Some(())
        })
    });
    if read.is_none() {
        issues.add(&["prompt"], expected("array", prompt));
    }
    issues.checked(Prompt { session, blocks })
}

/// A content block of A-174. Members may come in any order; optional ones are not looked at (A-26).
fn block<'a>(issues: &mut Issues, index: &str, value: &'a str) -> Option<Block<'a>> {
    let names = ["type", "text", "data", "mimeType", "name", "uri", "resource"];
    let Some([kind, words, data, mime, name, uri, resource]) = members(value, names) else {
        issues.add(&["prompt", index], expected("object", Some(value)));
        return None;
    };
    let below = |name| ["prompt", index, name];
    Some(match string(kind).as_deref() {
        Some("text") => Block::Text(text(issues, &below("text"), words)),
        Some("resource_link") => {
            let name = text(issues, &below("name"), name);
            Block::Link { name, uri: text(issues, &below("uri"), uri) }
        }
        Some(media @ ("image" | "audio")) => {
            let data = text(issues, &below("data"), data);
            let media_type = text(issues, &below("mimeType"), mime);
            if media == "image" { Block::Image { data, media_type } } else { Block::Audio }
        }
        Some("resource") => {
            let inner = resource.and_then(|inner| members(inner, ["uri", "text", "blob"]));
            match inner {
                Some([uri, words, blob]) => {
                    text(issues, &["prompt", index, "resource", "uri"], uri);
                    if !words.is_some_and(is_string) && !blob.is_some_and(is_string) {
                        issues
                            .add(&["prompt", index, "resource", "text"], expected("string", words));
                    }
                }
                None => issues.add(&below("resource"), expected("object", resource)),
            }
            Block::Resource
        }
        Some(_) | None => {
            let known = r#"expected one of "text", "image", "audio", "resource_link", "resource""#;
            issues.add(&below("type"), format!("Invalid input: {known}"));
            return None;
        }
    })
}

/// Whom `session/cancel` is about. Malformed members are nobody (A-78).
pub(crate) fn cancel(params: Option<&str>) -> Option<Cow<'_, str>> {
    let [session] = members(params?, ["sessionId"])?;
    string(session)
}

/// Which request `$/cancel_request` is about (A-85).
pub(crate) fn cancel_request(params: Option<&str>) -> Option<RequestId> {
    let [request] = members(params?, ["requestId"])?;
    request.map(RequestId::of)
}
