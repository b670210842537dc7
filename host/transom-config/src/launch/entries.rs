//! Compositions as they are written: a YAML list of entries, and patches on it.
//! What the entries mean is `compose.rs`.

use std::{path::Path, rc::Rc};

use super::{
    packages::{self, Package},
    yaml::{self, Member, Node, Position, Yaml},
};
use crate::error::{ConfigError, ConfigErrors, remedy};

const ENTRY_KEYS: &[&str] = &["id", "name", "config", "disabled", "inject", "group"];
const PATCH_KEYS: &[&str] = &["id", "name", "insert", "config", "disabled", "inject"];

/// One row of a composition. A patch may give it parts of another file.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) place: Place,
    pub(super) id: String,
    /// Name of the package.
    pub(super) name: String,
    /// Unevaluated, with the file it is from.
    pub(super) disabled: (Rc<str>, Node),
    pub(super) body: Body,
}

#[derive(Debug, Clone)]
pub(super) enum Body {
    /// Unevaluated, with the file it is from.
    Config(Rc<str>, Node),
    Group(Vec<Entry>),
}

/// Where something stands.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) file: Rc<str>,
    pub(super) at: Position,
}

/// Reads a composition.
pub(super) fn entries(path: &Path, text: &str) -> Result<Vec<Entry>, ConfigErrors> {
    let mut reader = Reader::new(path);
    let entries = match reader.parse(text) {
        Some(Node { value: Yaml::List(list), .. }) => reader.entries(list),
        Some(node) => {
            reader.refuse(node.at, "a list of entries `- id: …` is expected here".to_owned())
        }
        None if reader.errors.is_empty() => reader.refuse(
            (1, 1),
            "the file is empty; a list of entries `- id: …` is expected".to_owned(),
        ),
        None => None,
    };
    reader.finish(entries.unwrap_or_default())
}

/// Applies the patches of a file, in order: rows to `insert`, and members that replace those of the row
/// with that `id`.
pub(super) fn patch(entries: &mut Vec<Entry>, path: &Path, text: &str) -> Result<(), ConfigErrors> {
    let mut reader = Reader::new(path);
    let patches = match reader.parse(text) {
        None | Some(Node { value: Yaml::Null, .. }) => Vec::new(),
        Some(Node { value: Yaml::List(list), .. }) => list,
        Some(single) => vec![single],
    };
    for patch in patches {
        reader.apply(entries, patch);
    }
    reader.finish(())
}

struct Reader {
    file: Rc<str>,
    errors: Vec<ConfigError>,
}

impl Reader {
    fn new(path: &Path) -> Reader {
        Reader { file: path.display().to_string().into(), errors: Vec::new() }
    }

    fn finish<T>(self, value: T) -> Result<T, ConfigErrors> {
        if self.errors.is_empty() { Ok(value) } else { Err(ConfigErrors(self.errors)) }
    }

    /// `None`: nothing is there, or a complaint was made.
    fn parse(&mut self, text: &str) -> Option<Node> {
        yaml::parse(text).unwrap_or_else(|(at, message)| self.refuse(at, message))
    }

    /// Always `None`: what was refused has no value.
    fn refuse<T>(&mut self, at: Position, message: String) -> Option<T> {
        self.errors.push(ConfigError { file: self.file.to_string(), position: Some(at), message });
        None
    }

    /// All entries that are in order.
    fn entries(&mut self, list: Vec<Node>) -> Option<Vec<Entry>> {
        Some(list.into_iter().filter_map(|node| self.entry(node)).collect())
    }

    fn entry(&mut self, node: Node) -> Option<Entry> {
        let at = node.at;
        let mut members = self.members(node, "an entry", "`id` and `name`", ENTRY_KEYS)?;
        let id = self.text(&mut members, "id")?;
        let Some(name) = self.text(&mut members, "name")? else {
            let what = id.map_or("the entry".to_owned(), |id| format!("entry `{id}`"));
            return self.refuse(at, format!("{what} has no `name`; add the name of its package"));
        };
        let id = id.unwrap_or_else(|| name.clone());

        let config = take(&mut members, "config").unwrap_or(Node::null(at));
        let is_group = packages::find(&name) == Some(Package::Group)
            || take(&mut members, "group")
                .is_some_and(|group| matches!(group.value, Yaml::Bool(true)));
        let body = if is_group {
            self.group(&id, config)?
        } else {
            Body::Config(Rc::clone(&self.file), config)
        };
        let disabled = take(&mut members, "disabled").unwrap_or(Node::null(at));
        Some(Entry {
            place: Place { file: Rc::clone(&self.file), at },
            id,
            name,
            disabled: (Rc::clone(&self.file), disabled),
            body,
        })
    }

    fn group(&mut self, id: &str, config: Node) -> Option<Body> {
        match config.value {
            Yaml::Null => Some(Body::Group(Vec::new())),
            Yaml::List(list) => self.entries(list).map(Body::Group),
            _ => self.refuse(
                config.at,
                format!("entry `{id}` is a group; its `config` must be a list of entries"),
            ),
        }
    }

    fn apply(&mut self, entries: &mut Vec<Entry>, patch: Node) -> Option<()> {
        let at = patch.at;
        let mut members = self.members(patch, "a patch", "`id`, or `insert`", PATCH_KEYS)?;
        let id = self.text(&mut members, "id")?;
        let name = self.text(&mut members, "name")?;
        let insert = take(&mut members, "insert");

        let Some(id) = id else {
            return match insert {
                Some(insert) => {
                    entries.extend(self.inserted(insert)?);
                    Some(())
                }
                None => self.refuse(
                    at,
                    "the patch has neither `id` nor `insert`; say which row it changes".to_owned(),
                ),
            };
        };
        let Some(row) = find(entries, &id) else {
            let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
            let remedy = match transom_policy::nearest(&id, ids) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "add it with `insert`".to_owned(),
            };
            return self.refuse(at, format!("the patch is for the unknown row `{id}`; {remedy}"));
        };
        if let Some(insert) = insert {
            let Body::Group(children) = &mut row.body else {
                return self.refuse(
                    insert.at,
                    format!("the patch inserts into `{id}`, which is no group"),
                );
            };
            children.extend(self.inserted(insert)?);
            return Some(());
        }
        if let Some(name) = name
            && name != row.name
        {
            let message = format!(
                "the patch is for `{id}` with the name {name}, but there it has {}",
                row.name
            );
            return self.refuse(at, message);
        }
        if let Some(disabled) = take(&mut members, "disabled") {
            row.disabled = (Rc::clone(&self.file), disabled);
        }
        if let Some(config) = take(&mut members, "config") {
            row.body = match row.body {
                Body::Config(..) => Body::Config(Rc::clone(&self.file), config),
                Body::Group(_) => self.group(&id, config)?,
            };
        }
        Some(())
    }

    fn inserted(&mut self, insert: Node) -> Option<Vec<Entry>> {
        match insert.value {
            Yaml::List(list) => self.entries(list),
            _ => self.refuse(insert.at, "`insert` must be a list of entries".to_owned()),
        }
    }

    /// The members of a mapping whose keys are all known.
    fn members(
        &mut self,
        node: Node,
        what: &str,
        must_have: &str,
        known: &[&str],
    ) -> Option<Vec<Member>> {
        let Yaml::Map(members) = node.value else {
            return self.refuse(node.at, format!("{what} must be a mapping with {must_have}"));
        };
        for Member { key, at, .. } in &members {
            if !known.contains(&key.as_str()) {
                return self
                    .refuse(*at, format!("unknown key `{key}` of {what}; {}", remedy(key, known)));
            }
        }
        Some(members)
    }

    /// The outer `None`: a complaint was made.
    fn text(&mut self, members: &mut Vec<Member>, key: &str) -> Option<Option<String>> {
        match take(members, key) {
            None => Some(None),
            Some(Node { value: Yaml::Text(text), .. }) if !text.is_empty() => Some(Some(text)),
            Some(node) => self.refuse(node.at, format!("`{key}` must be a text")),
        }
    }
}

fn take(members: &mut Vec<Member>, key: &str) -> Option<Node> {
    let index = members.iter().position(|member| member.key == key)?;
    Some(members.swap_remove(index).value)
}

fn find<'a>(entries: &'a mut [Entry], id: &str) -> Option<&'a mut Entry> {
    for entry in entries {
        if entry.id == id {
            return Some(entry);
        }
        if let Body::Group(children) = &mut entry.body
            && let Some(found) = find(children, id)
        {
            return Some(found);
        }
    }
    None
}
