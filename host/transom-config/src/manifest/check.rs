//! From tables whose keys and types are right to a [`Manifest`]: which keys must be there, and what must hold between them.
//! Keys and types are `shape.rs`, single values `reader.rs`.

use std::{
    collections::BTreeMap,
    path::{self, Path, PathBuf},
};

use toml::{Spanned, de::DeTable};
use transom_doors::{Answers, DoorCodec};
use transom_policy::{DOOR_LIMITS, nearest};

use super::{
    AGENT_COMPONENTS, ANSWERS, BUILT_IN_COMPONENTS, CARRIERS, Carrier, Component, Door, DoorLimits,
    Durability, Manifest, Model, PROVIDERS, SWAPS, StoreSettings, SubagentMode, Swap, TOOLS, Tools,
    agents, hooks,
    keys::{COMPONENT, DOOR, MANIFEST},
    permissions::read,
    subagents::{self, SUBAGENT_MODES},
    upkeep,
};
use crate::{
    error::remedy,
    reader::{Node, Reader},
    shape::words_of,
};

const NO_DOOR: &str = "no door is opened; add a [door.<name>] with `component` and `carrier`";

/// Bytes of a unix socket's path: what the kernel's address holds, less the zero at its end.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The manifest that a document comes to; it is none where the reader complained.
pub(super) fn manifest(reader: &mut Reader<'_>, document: &DeTable<'_>) -> Manifest {
    let components =
        document.get("component").map(|node| components(reader, node)).unwrap_or_default();
    reader.require(document, "door", &MANIFEST.names(), 0, NO_DOOR);
    let doors =
        document.get("door").map(|node| doors(reader, node, &components)).unwrap_or_default();
    let agents = agents::agents(reader, document.get("agent"), &components);
    let kinds = subagents::subagents(reader, document.get("subagents"));
    agents::settle_kinds(reader, &kinds, document.get("subagents"), document.get("agent"));
    let mut tools = tools(reader, document.get("tools"));
    let named = document
        .get("tools")
        .and_then(|node| node.get_ref().as_table()?.get("enabled"))
        .map(|node| node.span().start);
    subagents::settle_tools(reader, &mut tools, &kinds, named);
    let manifest = Manifest {
        components,
        model: document.get("model").and_then(|node| model(reader, node)).unwrap_or_default(),
        store: store(reader, document.get("store")),
        doors,
        tools,
        agents,
        subagents: kinds,
        hooks: hooks::hooks(reader, document.get("hook")),
        permissions: read::permissions(reader, document.get("permissions")),
        confine: read::confine(reader, document.get("confine")),
        jobs: read::jobs(reader, document.get("jobs")),
        control: upkeep::control(reader, document.get("control")),
        metrics: upkeep::metrics(reader, document.get("metrics")),
        probation: upkeep::probation(reader, document.get("probation")),
        recovery: upkeep::recovery(reader, document.get("recovery")),
    };
    places(reader, document, &manifest);
    manifest
}

/// Complains where the store or the control socket is where something else is.
fn places(reader: &mut Reader<'_>, document: &DeTable<'_>, manifest: &Manifest) {
    let Manifest { doors, store, control, .. } = manifest;
    let at = |table: &str, key: &str| {
        Some(document.get(table)?.get_ref().as_table()?.get(key)?.span().start)
    };
    let door_at = |place: &Path| {
        let at_it = |door: &Door| match &door.carrier {
            Carrier::Unix { listen } => same_path(place, listen),
            Carrier::Stdio => false,
        };
        doors.iter().find(|(_, door)| at_it(door)).map(|(name, _)| name)
    };
    if let (Some(path), Some(at)) = (&store.path, at("store", "path"))
        && let Some(name) = door_at(path)
    {
        let message =
            format!("the store is {path:?}, where [door.{name}] listens; give each its own path");
        reader.complain(at, message);
    }
    if let (Some(listen), Some(at)) = (&control.listen, at("control", "listen")) {
        let other = match door_at(listen) {
            Some(name) => Some(format!("[door.{name}] listens")),
            None => {
                let is_store = |path: &PathBuf| same_path(path, listen);
                store.path.as_ref().is_some_and(is_store).then(|| "the store is".to_owned())
            }
        };
        if let Some(other) = other {
            let message =
                format!("the control socket is {listen:?}, where {other}; give each its own path");
            reader.complain(at, message);
        }
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
        let Some(table) = reader.any_table(node, &title) else { continue };
        let at = name.span().start;
        let message = format!("[{title}] has no `source`; add the path of its .wasm file");
        if !is_slip_of_an_override(reader, name, table, "component", "source", tables) {
            reader.require(table, "source", &COMPONENT.names(), at, &message);
        }
        let source = reader.path(table, "source");
        let policy = reader.path(table, "policy");
        let swap = match reader.choice(table, "swap", &SWAPS).as_deref() {
            Some("drain") => Swap::Drain,
            _ => Swap::Migrate,
        };
        let watch = reader.boolean(table, "watch").unwrap_or_default();
        // A component whose source was refused is still one that doors may name.
        components.insert(
            name.get_ref().to_string(),
            Component { source: source.unwrap_or_default(), policy, swap, watch },
        );
    }
    components
}

/// Whether a variable or an argument names a component or a door that no manifest has and does not make one either;
/// says so.
fn is_slip_of_an_override(
    reader: &mut Reader<'_>,
    name: &Spanned<std::borrow::Cow<'_, str>>,
    table: &DeTable<'_>,
    kind: &str,
    required: &str,
    all: &DeTable<'_>,
) -> bool {
    let sources = &reader.sources;
    let in_file = |name: &Spanned<std::borrow::Cow<'_, str>>, table: &DeTable<'_>| {
        sources.is_file(name.span().start)
            || table.iter().any(|(_, node)| sources.is_file(node.span().start))
    };
    if table.contains_key(required) || in_file(name, table) {
        return false;
    }
    let known = all.iter().filter(|(other, node)| {
        node.get_ref().as_table().is_some_and(|table| in_file(other, table))
    });
    let remedy = match nearest(name.get_ref(), known.map(|(other, _)| &**other.get_ref())) {
        Some(other) => format!("did you mean `{other}`?"),
        None => format!("describe it in one, or set its `{required}` too"),
    };
    let message = format!("no manifest has [{kind}.{}]; {remedy}", name.get_ref());
    reader.complain(name.span().start, message);
    true
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
    let tables_of = tables;
    let mut tables: Vec<_> = tables.iter().collect();
    // So that of two doors at one address the later one is complained about.
    tables.sort_by_key(|(name, _)| name.span().start);
    for (name, node) in tables {
        if !reader.is_name(name, "door") {
            continue;
        }
        let Some(door) = door(reader, name, node, components, tables_of) else { continue };
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
    all: &DeTable<'_>,
) -> Option<Door> {
    let title = format!("door.{}", name.get_ref());
    let table = reader.any_table(node, &title)?;
    if is_slip_of_an_override(reader, name, table, "door", "component", all) {
        return None;
    }
    for key in ["component", "carrier"] {
        let message = format!("[{title}] has no `{key}`; add one");
        reader.require(table, key, &DOOR.names(), name.span().start, &message);
    }
    let component = reader.text(table, "component");
    if let (Some(component), Some(node)) = (&component, table.get("component"))
        && !components.contains_key(component)
        && AGENT_COMPONENTS.contains(&component.as_str())
    {
        let message = format!(
            "[{title}] names the component `{component}`, which speaks with agents that this host starts; describe one in \
             [agent.<name>]"
        );
        reader.complain(node.span().start, message);
    } else if let (Some(component), Some(node)) = (&component, table.get("component"))
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
    let word = reader.choice(table, "answers", &ANSWERS)?;
    let answers = match word.as_str() {
        "always" => Answers::Always,
        "owned" => Answers::Owned,
        _ => Answers::Never,
    };
    // An approval asked there would wait for ever.
    if let (Some(name), Some(node)) = (built_in, table.get("answers"))
        && let Some(why) = shows_less(name, answers)
    {
        let message = format!("`answers` is `{word}`, but {why}");
        reader.complain(node.span().start, message);
    }
    Some(answers)
}

/// Why the peers of this built-in door would not see all that they were to be asked. What `frames` shows is for its peers to
/// say.
fn shows_less(name: &str, answers: Answers) -> Option<String> {
    let door = transom_doors::find(name).ok()?;
    let is_component = matches!(door.codec, DoorCodec::Component(_));
    match (door.answers, answers) {
        (Answers::Never, Answers::Owned | Answers::Always) => {
            Some(format!("`{name}` has no way to ask its peers; leave `answers` out"))
        }
        (Answers::Owned, Answers::Always) if is_component => Some(format!(
            "`{name}` asks its peers about their own sessions alone; right would be `owned` or `never`"
        )),
        (
            Answers::Never | Answers::Owned | Answers::Always,
            Answers::Never | Answers::Owned | Answers::Always,
        ) => None,
    }
}

fn carrier(
    reader: &mut Reader<'_>,
    name: &Spanned<std::borrow::Cow<'_, str>>,
    table: &DeTable<'_>,
    title: &str,
) -> Option<Carrier> {
    let listen = reader.path(table, "listen");
    let listen_at = table.get("listen").map(|node| node.span().start);
    match reader.choice(table, "carrier", &CARRIERS)?.as_str() {
        "stdio" => {
            let carrier_at = table.get("carrier").map_or(0, |node| node.span().start);
            // A later file that says `stdio` leaves behind where an earlier one listened.
            if let Some(at) = listen_at.filter(|at| !reader.sources.is_above(carrier_at, *at)) {
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
            socket_path(reader, at, &listen);
            Some(Carrier::Unix { listen })
        }
    }
}

/// Complains about a path that no socket can have.
pub(super) fn socket_path(reader: &mut Reader<'_>, at: usize, path: &Path) {
    let bytes = path.as_os_str().len();
    if bytes > SOCKET_PATH_BYTES_MAX {
        let message = format!(
            "the socket's path has {bytes} bytes, {SOCKET_PATH_BYTES_MAX} or fewer are possible; choose a shorter directory"
        );
        reader.complain(at, message);
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
    let Some(table) = reader.any_table(node, &format!("{title}.limits")) else {
        return DoorLimits::default();
    };
    let mut limits = BTreeMap::new();
    for name in DOOR_LIMITS.names() {
        if let Some(number) = reader.count(table, name) {
            limits.insert(name, number);
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
    let table = reader.any_table(node, "model")?;
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
        context_window: reader.count(table, "context-window"),
        script: reader.path(table, "script"),
        base_url,
    })
}

fn store(reader: &mut Reader<'_>, node: Option<&Node<'_>>) -> StoreSettings {
    let Some(table) = node.and_then(|node| reader.any_table(node, "store")) else {
        return StoreSettings { path: None, durability: Durability::default() };
    };
    let durability = match reader.choice(table, "durability", &["process", "power"]).as_deref() {
        Some("power") => Durability::Power,
        _ => Durability::Process,
    };
    StoreSettings { path: reader.path(table, "path"), durability }
}

fn tools(reader: &mut Reader<'_>, node: Option<&Node<'_>>) -> Tools {
    let mut tools = Tools::default();
    let Some(table) = node.and_then(|node| reader.any_table(node, "tools")) else { return tools };
    let enabled = table.get("enabled");
    if let Some(names) = enabled.and_then(|node| words_of(reader, node, "tool", "enabled", TOOLS)) {
        tools.enabled = names;
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
    if let Some(ms) = reader.count(table, "shell-timeout-ms") {
        tools.shell_timeout_ms = ms;
    }
    if let Some(depth) = reader.count(table, "subagent-depth-max") {
        tools.subagent_depth_max = depth;
    }
    if reader.choice(table, "subagent-mode", &SUBAGENT_MODES).as_deref() == Some("continuable") {
        tools.subagent_mode = SubagentMode::Continuable;
    }
    if let Some(most) = reader.count(table, "subagents-live-max") {
        tools.subagents_live_max = most;
    }
    tools
}
