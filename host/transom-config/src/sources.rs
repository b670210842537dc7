//! Where values come from: files one above the other, variables and arguments. Their texts stand one behind the other on
//! one scale of places, so that a value keeps its place when tables of several files become one.
//! What the tables say is read by `reader.rs`.

use std::path::Path;

use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};
use transom_policy::Places;

use crate::{error::ConfigError, reader::Node};

#[derive(Default)]
pub(crate) struct Sources<'t>(Vec<Source<'t>>);

struct Source<'t> {
    name: String,
    text: &'t str,
    begin: usize,
    directory: &'t Path,
    kind: SourceKind,
    /// Where its lines end.
    ends: Vec<usize>,
}

/// Whether a source has lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// A file: its complaints name line and column.
    File,
    /// A variable or an argument, which is one value.
    Value,
}

impl<'t> Sources<'t> {
    /// Adds a source. Gives the place of its first byte.
    pub(crate) fn add(
        &mut self,
        name: String,
        text: &'t str,
        directory: &'t Path,
        kind: SourceKind,
    ) -> usize {
        // One more than the text has, for complaints about its end.
        let begin = self.0.last().map_or(0, |last| last.begin + last.text.len() + 1);
        let ends = text.match_indices('\n').map(|(at, _)| at).collect();
        self.0.push(Source { name, text, begin, directory, kind, ends });
        begin
    }

    /// The source of a place.
    fn of(&self, at: usize) -> Option<&Source<'t>> {
        self.0.iter().rfind(|source| source.begin <= at)
    }

    /// Whether a place is in a file.
    pub(crate) fn is_file(&self, at: usize) -> bool {
        self.of(at).is_none_or(|source| source.kind == SourceKind::File)
    }

    /// Whether two places are in one source.
    pub(crate) fn same(&self, one: usize, other: usize) -> bool {
        let begin = |at| self.of(at).map(|source| source.begin);
        begin(one) == begin(other)
    }

    /// Whether a place is in a source above that of another, so that it was said knowing the other.
    pub(crate) fn is_above(&self, one: usize, other: usize) -> bool {
        one > other && !self.same(one, other)
    }

    /// What relative paths at a place are below.
    pub(crate) fn directory(&self, at: usize) -> &Path {
        self.of(at).map_or(Path::new(""), |source| source.directory)
    }

    /// Source and line of a place, for those who tell of it later.
    pub(crate) fn place(&self, at: usize) -> (String, usize) {
        match self.of(at) {
            Some(source) => (source.name.clone(), source.line(at)),
            None => (String::new(), 1),
        }
    }

    /// Complaints about places, which are in order.
    pub(crate) fn errors(&self, complaints: Vec<(usize, String)>) -> Vec<ConfigError> {
        // Of the source that the one before was about, with its first place.
        let mut earlier: Option<(usize, Places<'_>)> = None;
        let error = |(at, message): (usize, String)| match self.of(at) {
            Some(source) if source.kind == SourceKind::File => {
                let same = earlier.take().filter(|(begin, _)| *begin == source.begin);
                let new = || (source.begin, Places::new(source.text));
                let (_, places) = earlier.insert(same.unwrap_or_else(new));
                ConfigError::at(&source.name, places, at - source.begin, message)
            }
            Some(source) => ConfigError { file: source.name.clone(), position: None, message },
            None => ConfigError { file: "manifest".to_owned(), position: None, message },
        };
        complaints.into_iter().map(error).collect()
    }
}

impl Source<'_> {
    fn line(&self, at: usize) -> usize {
        self.ends.partition_point(|end| *end < at - self.begin) + 1
    }
}

/// A table of one text, moved to where that text stands among all of them.
pub(crate) fn moved(table: DeTable<'_>, by: usize) -> DeTable<'_> {
    table
        .into_iter()
        .map(|(key, node)| {
            let span = key.span();
            (Spanned::new(span.start + by..span.end + by, key.into_inner()), moved_node(node, by))
        })
        .collect()
}

/// The same for one value.
pub(crate) fn moved_node(node: Node<'_>, by: usize) -> Node<'_> {
    let span = node.span();
    let value = match node.into_inner() {
        DeValue::Table(table) => DeValue::Table(moved(table, by)),
        DeValue::Array(list) => {
            let mut moved = DeArray::new();
            for entry in list {
                moved.push(moved_node(entry, by));
            }
            DeValue::Array(moved)
        }
        plain => plain,
    };
    Spanned::new(span.start + by..span.end + by, value)
}

/// Lays one table over another: the upper one wins key by key, tables become one, and a list replaces a list, except
/// that the one at the path `joined` goes on with what it would have replaced.
pub(crate) fn merge<'t>(lower: &mut DeTable<'t>, upper: DeTable<'t>, joined: &[&[&str]]) {
    for (key, node) in upper {
        let name = key.get_ref().to_string();
        let below = joined.iter().filter_map(|path| match path {
            [first, rest @ ..] if *first == name => Some(rest),
            _ => None,
        });
        let below: Vec<&[&str]> = below.collect();
        let earlier = lower.remove(name.as_str());
        // The place of both key and value is where they were written last.
        let span = node.span();
        let value = match (earlier.map(Spanned::into_inner), node.into_inner()) {
            (Some(DeValue::Table(mut lower)), DeValue::Table(upper)) => {
                merge(&mut lower, upper, &below);
                DeValue::Table(lower)
            }
            (Some(DeValue::Array(lower)), DeValue::Array(mut upper))
                if below.iter().any(|path| path.is_empty()) =>
            {
                for entry in lower {
                    upper.push(entry);
                }
                DeValue::Array(upper)
            }
            (_, value) => value,
        };
        lower.insert(key, Spanned::new(span, value));
    }
}
