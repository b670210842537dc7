//! From TOML to a [`Manifest`]: every key, and what must hold between them.
//! How single values are read is `reader.rs`.

use std::{
    collections::BTreeMap,
    path::{self, Path},
};

use toml::{Spanned, de::DeTable};
use transom_doors::Answers;
use transom_policy::Limits;

use super::{
    BUILT_IN_COMPONENTS, Carrier, Component, Door, DoorLimits, Durability, Manifest, Model,
    PROVIDERS, SHELL_TIMEOUT_MS_MAX, SUBAGENT_DEPTH_MOST, StoreSettings, TOOLS, Tools,
    permissions::read,
    reader::{Node, Reader},
};
use crate::error::{ConfigErrors, remedy};

const SECTIONS: &[&str] =
    &["component", "confine", "door", "jobs", "model", "permissions", "store", "tools"];
const COMPONENT_KEYS: &[&str] = &["source", "policy"];
const DOOR_KEYS: &[&str] =
    &["component", "carrier", "listen", "options", "route-map", "answers", "policy", "limits"];
const TOOLS_KEYS: &[&str] =
    &["enabled", "keep-environment", "shell-timeout-ms", "subagent-depth-max"];
const ANSWERS: [(&str, Answers); 3] =
    [("never", Answers::Never), ("owned", Answers::Owned), ("always", Answers::Always)];
const CARRIERS: &[&str] = &["stdio", "unix"];

const NO_DOOR: &str = "no door is opened; add a [door.<name>] with `component` and `carrier`";

/// Bytes of a unix socket's path: what the kernel's address holds, less the zero at its end.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A limit that a door may set.
pub(super) struct Limit {
    pub(super) name: &'static str,
    pub(super) field: fn(&mut Limits) -> &mut u64,
    least: u64,
    most: u64,
}

/// Those of a policy's limits that belong to the door rather than to the component. The ceilings are the
/// policy's own.
pub(super) const LIMITS: &[Limit] = &[
    Limit { name: "unit-bytes-max", field: |l| &mut l.unit_bytes_max, least: 1, most: 1 << 32 },
    Limit { name: "nesting-max", field: |l| &mut l.nesting_max, least: 1, most: 65_536 },
    Limit {
        name: "pending-requests-max",
        field: |l| &mut l.pending_requests_max,
        least: 1,
        most: 1 << 32,
    },
    Limit {
        name: "unwritten-bytes-rest",
        field: |l| &mut l.unwritten_bytes_rest,
        least: 1,
        most: 1 << 50,
    },
    Limit {
        name: "unwritten-bytes-stop",
        field: |l| &mut l.unwritten_bytes_stop,
        least: 1,
        most: 1 << 50,
    },
    Limit { name: "live-notices-max", field: |l| &mut l.live_notices_max, least: 1, most: 1 << 32 },
    Limit { name: "connections-max", field: |l| &mut l.connections_max, least: 1, most: 1 << 32 },
    Limit { name: "sessions-max", field: |l| &mut l.sessions_max, least: 0, most: 1 << 32 },
];

pub(super) fn manifest(file: &str, directory: &Path, text: &str) -> Result<Manifest, ConfigErrors> {
    let mut reader = Reader { file, text, directory, errors: Vec::new() };
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        reader.complain(at, format!("not TOML: {}", error.message().replace('\n', ", ")));
    }
    if reader.errors.is_empty() {
        let manifest = sections(&mut reader, &document);
        if reader.errors.is_empty() {
            return Ok(manifest);
        }
    }
    // Tables are read key by key; people read from the top.
    reader.errors.sort_by_key(|error| error.position);
    Err(ConfigErrors(reader.errors))
}

fn sections(reader: &mut Reader<'_>, document: &Spanned<DeTable<'_>>) -> Manifest {
    let document = document.get_ref();
    reader.known_keys(document, "at the top", SECTIONS);
    let components =
        document.get("component").map(|node| components(reader, node)).unwrap_or_default();
    reader.require(document, "door", SECTIONS, 0, NO_DOOR);
    let doors =
        document.get("door").map(|node| doors(reader, node, &components)).unwrap_or_default();
    Manifest {
        components,
        model: document.get("model").and_then(|node| model(reader, node)).unwrap_or_default(),
        store: store(reader, document.get("store"), &doors),
        doors,
        tools: tools(reader, document.get("tools")),
        permissions: read::permissions(reader, document.get("permissions")),
        confine: read::confine(reader, document.get("confine")),
        jobs: read::jobs(reader, document.get("jobs")),
    }
}

fn components(reader: &mut Reader<'_>, node: &Node<'_>) -> BTreeMap<String, Component> {
    let mut components = BTreeMap::new();
    let Some(tables) = reader.any_table(node, "component") else { return components };
    for (name, node) in tables {
        let title = format!("component.{}", name.get_ref());
        if !reader.is_name(name, "component") {
            continue;
        }
        if name.get_ref() == "frames" {
            let message =
                "`frames` is the host's own language and has no component; choose another name";
            reader.complain(name.span().start, message.to_owned());
            continue;
        }
        let Some(table) = reader.table(node, &title, COMPONENT_KEYS) else { continue };
        let message = format!("[{title}] has no `source`; add the path of its .wasm file");
        reader.require(table, "source", COMPONENT_KEYS, name.span().start, &message);
        let source = reader.path(table, "source");
        let policy = reader.path(table, "policy");
        // A component whose source was refused is still one that doors may name.
        components.insert(
            name.get_ref().to_string(),
            Component { source: source.unwrap_or_default(), policy },
        );
    }
    components
}

fn doors(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    components: &BTreeMap<String, Component>,
) -> BTreeMap<String, Door> {
    let mut doors: BTreeMap<String, Door> = BTreeMap::new();
    let Some(tables) = reader.any_table(node, "door") else { return doors };
    if tables.is_empty() {
        reader.complain(node.span().start, NO_DOOR.to_owned());
    }
    let mut tables: Vec<_> = tables.iter().collect();
    // So that of two doors at one address the later one is complained about.
    tables.sort_by_key(|(name, _)| name.span().start);
    for (name, node) in tables {
        if !reader.is_name(name, "door") {
            continue;
        }
        let Some(door) = door(reader, name, node, components) else { continue };
        let same = |earlier: &Carrier| match (earlier, &door.carrier) {
            (Carrier::Stdio, Carrier::Stdio) => true,
            (Carrier::Unix { listen: earlier }, Carrier::Unix { listen }) => {
                same_path(earlier, listen)
            }
            _ => false,
        };
        if let Some((other, _)) = doors.iter().find(|(_, earlier)| same(&earlier.carrier)) {
            let message = match &door.carrier {
                Carrier::Stdio => format!(
                    "[door.{}] uses `stdio`, as [door.{other}] does; one process has one stdin, use `unix`",
                    name.get_ref()
                ),
                Carrier::Unix { listen } => format!(
                    "[door.{}] listens at {listen:?}, as [door.{other}] does; give each its own path",
                    name.get_ref()
                ),
            };
            reader.complain(name.span().start, message);
        }
        doors.insert(name.get_ref().to_string(), door);
    }
    doors
}

fn door(
    reader: &mut Reader<'_>,
    name: &Spanned<std::borrow::Cow<'_, str>>,
    node: &Node<'_>,
    components: &BTreeMap<String, Component>,
) -> Option<Door> {
    let title = format!("door.{}", name.get_ref());
    let table = reader.table(node, &title, DOOR_KEYS)?;
    for key in ["component", "carrier"] {
        let message = format!("[{title}] has no `{key}`; add one");
        reader.require(table, key, DOOR_KEYS, name.span().start, &message);
    }
    let component = reader.text(table, "component");
    if let (Some(component), Some(node)) = (&component, table.get("component"))
        && !components.contains_key(component)
        && !BUILT_IN_COMPONENTS.contains(&component.as_str())
    {
        let known: Vec<&str> = components
            .keys()
            .map(String::as_str)
            .chain(BUILT_IN_COMPONENTS.iter().copied())
            .collect();
        let message = format!(
            "[{title}] names the component `{component}`, for which there is no [component.{component}]; {}",
            remedy(component, &known)
        );
        reader.complain(node.span().start, message);
    }
    let carrier = carrier(reader, name, table, &title);
    let options = match table.get("options").and_then(|node| reader.any_table(node, "options")) {
        Some(options) => reader.json(options, "options"),
        None => serde_json::Map::new(),
    };
    let route_map = table.get("route-map").map(|node| route_map(reader, node)).unwrap_or_default();
    let replaced = component.as_ref().is_some_and(|name| components.contains_key(name));
    let built_in = component.as_deref().filter(|_| !replaced);
    let answers = answers(reader, table, built_in);
    let policy = reader.path(table, "policy");
    let limits = table.get("limits").map(|node| limits(reader, node, &title)).unwrap_or_default();
    Some(Door {
        component: component?,
        carrier: carrier?,
        options,
        route_map,
        answers,
        policy,
        limits,
    })
}

/// Whether two paths name one place, as far as can be told without looking: links and `..` are not followed.
fn same_path(one: &Path, other: &Path) -> bool {
    let is_named = |part: &path::Component<'_>| *part != path::Component::CurDir;
    one.components().filter(is_named).eq(other.components().filter(is_named))
}

/// Which approvals a door answers. `built_in` is the door's component, if that is the one of this program.
fn answers(
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    built_in: Option<&str>,
) -> Option<Answers> {
    let word = reader.choice(table, "answers", &ANSWERS.map(|(word, _)| word))?;
    let (_, answers) = ANSWERS.into_iter().find(|(known, _)| *known == word)?;
    // An approval asked there would wait for ever.
    if let (Some(name), Some(node)) = (built_in, table.get("answers"))
        && answers != Answers::Never
        && transom_doors::find(name).is_ok_and(|door| door.answers == Answers::Never)
    {
        let message = format!(
            "`answers` is `{word}`, but `{name}` has no way to ask its peers; leave `answers` out"
        );
        reader.complain(node.span().start, message);
    }
    Some(answers)
}

fn carrier(
    reader: &mut Reader<'_>,
    name: &Spanned<std::borrow::Cow<'_, str>>,
    table: &DeTable<'_>,
    title: &str,
) -> Option<Carrier> {
    let listen = reader.path(table, "listen");
    let listen_at = table.get("listen").map(|node| node.span().start);
    match reader.choice(table, "carrier", CARRIERS)?.as_str() {
        "stdio" => {
            if let Some(at) = listen_at {
                let message = format!(
                    "[{title}] is on `stdio` and cannot listen; leave `listen` out, or use `unix`"
                );
                reader.complain(at, message);
            }
            Some(Carrier::Stdio)
        }
        _ => {
            let Some(at) = listen_at else {
                let message = format!(
                    "[{title}] is on `unix` and has no `listen`; add the path of its socket"
                );
                reader.complain(name.span().start, message);
                return None;
            };
            let listen = listen?;
            let bytes = listen.as_os_str().len();
            if bytes > SOCKET_PATH_BYTES_MAX {
                let message = format!(
                    "the socket's path has {bytes} bytes, {} or fewer are possible; choose a shorter directory",
                    SOCKET_PATH_BYTES_MAX
                );
                reader.complain(at, message);
            }
            Some(Carrier::Unix { listen })
        }
    }
}

fn route_map(reader: &mut Reader<'_>, node: &Node<'_>) -> BTreeMap<String, String> {
    let mut map = BTreeMap::new();
    let Some(table) = reader.any_table(node, "route-map") else { return map };
    for (requested, node) in table {
        let Some(provider) = reader.text_of(node, requested.get_ref()) else { continue };
        if reader.is_choice(node, "provider", &provider, PROVIDERS) {
            map.insert(requested.get_ref().to_string(), provider);
        }
    }
    map
}

fn limits(reader: &mut Reader<'_>, node: &Node<'_>, title: &str) -> DoorLimits {
    let known: Vec<_> = LIMITS.iter().map(|limit| limit.name).collect();
    let Some(table) = reader.table(node, &format!("{title}.limits"), &known) else {
        return DoorLimits::default();
    };
    let mut limits = BTreeMap::new();
    for limit in LIMITS {
        if let Some(number) = reader.number(table, limit.name, limit.least, limit.most) {
            limits.insert(limit.name, number);
        }
    }
    if let (Some(rest), Some(stop), Some(node)) = (
        limits.get("unwritten-bytes-rest"),
        limits.get("unwritten-bytes-stop"),
        table.get("unwritten-bytes-stop"),
    ) && stop < rest
    {
        let message = format!(
            "`unwritten-bytes-stop` is {stop}, below `unwritten-bytes-rest` at {rest}; it must not be"
        );
        reader.complain(node.span().start, message);
    }
    DoorLimits(limits)
}

fn model(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Model> {
    let table = reader.table(
        node,
        "model",
        &["provider", "model", "context-window", "script", "base-url"],
    )?;
    let base_url = reader.text(table, "base-url");
    if let (Some(url), Some(node)) = (&base_url, table.get("base-url"))
        && !["http://", "https://"]
            .iter()
            .any(|scheme| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()))
    {
        let message = format!(
            "`base-url` is {url:?}; it must begin with `http://` or `https://` and name a host"
        );
        reader.complain(node.span().start, message);
    }
    Some(Model {
        provider: reader.choice(table, "provider", PROVIDERS),
        model: reader.text(table, "model"),
        context_window: reader.number(table, "context-window", 1, u64::from(u32::MAX)),
        script: reader.path(table, "script"),
        base_url,
    })
}

fn store(
    reader: &mut Reader<'_>,
    node: Option<&Node<'_>>,
    doors: &BTreeMap<String, Door>,
) -> StoreSettings {
    let Some(table) = node.and_then(|node| reader.table(node, "store", &["path", "durability"]))
    else {
        return StoreSettings { path: None, durability: Durability::default() };
    };
    let durability = match reader.choice(table, "durability", &["process", "power"]).as_deref() {
        Some("power") => Durability::Power,
        _ => Durability::Process,
    };
    let path = reader.path(table, "path");
    let at_socket = |door: &Door| match (&path, &door.carrier) {
        (Some(path), Carrier::Unix { listen }) => same_path(path, listen),
        _ => false,
    };
    if let (Some((name, _)), Some(path), Some(node)) =
        (doors.iter().find(|(_, door)| at_socket(door)), &path, table.get("path"))
    {
        let message =
            format!("the store is {path:?}, where [door.{name}] listens; give each its own path");
        reader.complain(node.span().start, message);
    }
    StoreSettings { path, durability }
}

fn tools(reader: &mut Reader<'_>, node: Option<&Node<'_>>) -> Tools {
    let mut tools = Tools::default();
    let Some(table) = node.and_then(|node| reader.table(node, "tools", TOOLS_KEYS)) else {
        return tools;
    };
    if let Some(texts) = reader.texts(table, "enabled") {
        for (text, at) in &texts {
            if !TOOLS.contains(&text.as_str()) {
                reader.complain(*at, format!("unknown tool `{text}`; {}", remedy(text, TOOLS)));
            }
        }
        tools.enabled = texts.into_iter().map(|(text, _)| text).collect();
        tools.enabled.sort();
    }
    for (name, at) in reader.texts(table, "keep-environment").unwrap_or_default() {
        if name.contains(['=', '\0', '*']) || name.contains(char::is_whitespace) {
            let message =
                format!("{name:?} is no variable's name; write it as it stands in the environment");
            reader.complain(at, message);
        }
        tools.keep_environment.push(name);
    }
    if let Some(ms) = reader.number(table, "shell-timeout-ms", 1, SHELL_TIMEOUT_MS_MAX) {
        tools.shell_timeout_ms = ms;
    }
    if let Some(depth) = reader.number(table, "subagent-depth-max", 0, SUBAGENT_DEPTH_MOST) {
        tools.subagent_depth_max = depth;
    }
    tools
}
