//! Members of `params`, checked against the protocol's schema, and what is wrong with them as a tree (A-24).
//! What is right in shape and refused all the same is left to `conversation.rs`.

use std::borrow::Cow;

use transom_guest::{
    json::{Reader, push_text},
    jsonrpc::{RequestId, is_number, is_string, string},
};

use crate::{content::Block, options::Surface, translate::members};

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

/// `initialize`: the version, and on the automation surface that capabilities are an object. Neither has an effect (A-27,
/// A-30).
pub(crate) fn initialize(params: Option<&str>, surface: Surface) -> Result<(), Issues> {
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
    let capabilities = given(capabilities).filter(|_| surface == Surface::Automation);
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

/// Where a session is to work and with what: `session/new` and `session/resume`, right in shape.
#[derive(Debug)]
pub(crate) struct Workspace<'a> {
    /// The session that is to be gone on with; empty for a fresh one.
    pub(crate) session: Cow<'a, str>,
    pub(crate) cwd: Cow<'a, str>,
    /// Directories besides are wanted.
    pub(crate) directories: bool,
    /// The declarations of servers, if there are any.
    pub(crate) servers: Option<&'a str>,
}

/// `session/new`. A list of servers is required; on the standard surface it may be `null` (A-35).
pub(crate) fn new_session(params: Option<&str>, surface: Surface) -> Result<Workspace<'_>, Issues> {
    workspace(params, surface, false)
}

/// `session/resume`: without a list of servers there are none.
pub(crate) fn resume(params: Option<&str>) -> Result<Workspace<'_>, Issues> {
    workspace(params, Surface::Standard, true)
}

fn workspace(
    params: Option<&str>,
    surface: Surface,
    resumes: bool,
) -> Result<Workspace<'_>, Issues> {
    let [session, cwd, servers, directories] =
        object(params, ["sessionId", "cwd", "mcpServers", "additionalDirectories"])?;
    let mut issues = Issues::default();
    let session = match resumes {
        true => text(&mut issues, &["sessionId"], session),
        false => Cow::Borrowed(""),
    };
    let cwd = text(&mut issues, &["cwd"], cwd);
    let check = match surface {
        Surface::Automation => server,
        Surface::Standard => any_server,
    };
    let absent = match servers {
        None => resumes,
        Some(servers) => servers == "null" && surface == Surface::Standard,
    };
    let wanted = !absent && list(&mut issues, "mcpServers", servers, check);
    let servers = servers.filter(|_| wanted);
    let directories = given(directories).is_some_and(|directories| {
        let name = "additionalDirectories";
        list(&mut issues, name, Some(directories), |issues, path, entry| {
            text(issues, path, Some(entry));
        })
    });
    issues.checked(Workspace { session, cwd, directories, servers })
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

/// A server as the standard surface takes it: also one whose transport is of no known kind, which is refused in words of
/// its own (A-115), and with its pairs looked into.
fn any_server(issues: &mut Issues, path: &[&str], entry: &str) {
    let names = ["type", "name", "headers", "args", "env"];
    let [transport, name, headers, arguments, environment] =
        members(entry, names).unwrap_or_default();
    let [list, index] = [path.first(), path.get(1)].map(|step| step.copied().unwrap_or_default());
    if let Some(transport) = given(transport) {
        text(issues, &[list, index, "type"], Some(transport));
    }
    let mut entries = |field, value: Option<&str>, wanted: &[&str]| {
        let mut at = 0_usize;
        Reader::new(value.unwrap_or_default()).array(|reader| {
            let value = reader.value()?;
            let at_text = at.to_string();
            match wanted {
                [] => _ = text(issues, &[list, index, field, &at_text], Some(value)),
                wanted => {
                    for member in wanted {
                        let found = members(value, [member]).and_then(|[found]| found);
                        text(issues, &[list, index, field, &at_text, member], found);
                    }
                }
            }
            at += 1;
            Some(())
        });
    };
    match string(transport).as_deref() {
        None | Some("stdio") => {
            entries("args", arguments, &[]);
            entries("env", environment, &["name", "value"]);
            server(issues, path, entry);
        }
        Some("http" | "sse") => {
            entries("headers", headers, &["name", "value"]);
            server(issues, path, entry);
        }
        Some(_) => _ = text(issues, &[list, index, "name"], name),
    }
}

/// `session/list`: the directory, and the cursor.
pub(crate) type Wished<'a> = (Option<Cow<'a, str>>, Option<Cow<'a, str>>);

/// Without params everything is wanted.
pub(crate) fn list_sessions(params: Option<&str>) -> Result<Wished<'_>, Issues> {
    let [cwd, cursor] = object(given(params).or(Some("{}")), ["cwd", "cursor"])?;
    let mut issues = Issues::default();
    let cwd = given(cwd).map(|cwd| text(&mut issues, &["cwd"], Some(cwd)));
    let cursor = given(cursor).map(|cursor| text(&mut issues, &["cursor"], Some(cursor)));
    issues.checked((cwd, cursor))
}

/// `session/close`: which session.
pub(crate) fn close(params: Option<&str>) -> Result<Cow<'_, str>, Issues> {
    let [session] = object(params, ["sessionId"])?;
    let mut issues = Issues::default();
    let session = text(&mut issues, &["sessionId"], session);
    issues.checked(session)
}

/// `session/set_config_option`, right in shape.
#[derive(Debug)]
pub(crate) struct Choice<'a> {
    pub(crate) session: Cow<'a, str>,
    pub(crate) option: Cow<'a, str>,
    /// `None`: a truth, which no option takes.
    pub(crate) value: Option<Cow<'a, str>>,
}

pub(crate) fn choice(params: Option<&str>) -> Result<Choice<'_>, Issues> {
    let [session, option, value, of] = object(params, ["sessionId", "configId", "value", "type"])?;
    let mut issues = Issues::default();
    let session = text(&mut issues, &["sessionId"], session);
    let option = text(&mut issues, &["configId"], option);
    let is_truth = kind(value) == "boolean" && string(of).as_deref() == Some("boolean");
    let value = (!is_truth).then(|| text(&mut issues, &["value"], value));
    issues.checked(Choice { session, option, value })
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
