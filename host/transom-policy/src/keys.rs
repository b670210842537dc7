//! Which keys a configuration file has, as data: what checks a file, what describes it to editors and what is told of it
//! read the same tables. The tables stand with those who read the files; values are read there too.

/// A table of a file, or a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// What it is for.
    pub doc: &'static str,
    /// In the order in which people are told of them.
    pub keys: &'static [Key],
}

/// One key of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What its value may be.
    pub kind: Kind,
    /// What it means.
    pub doc: &'static str,
    /// What holds without it, where that is a value.
    pub default: Option<Literal>,
    /// Whether a table without it is refused.
    pub required: bool,
}

/// What a value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text that is not empty.
    Text,
    /// Text that follows a pattern, which is a regular expression for editors; whoever reads it says more.
    Shaped(&'static str),
    /// A path, taken literally.
    Path,
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Number {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// One of some words.
    Word(&'static [&'static str]),
    /// A list of values, each once; the key names one of them in complaints.
    List(&'static Key),
    /// A program with its arguments: a list of texts, which may be the same.
    Command,
    /// A table with keys of its own.
    Table(&'static Table),
    /// Any names, each with such a table.
    Named(&'static Table),
    /// A list of such tables.
    Tables(&'static Table),
    /// Any names, each with such a value; the key names it in complaints.
    Entries(&'static Key),
    /// A table with any content.
    Any,
}

/// A value, for defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Literal {
    /// `true` or `false`.
    Boolean(bool),
    /// A number.
    Number(u64),
    /// A text.
    Text(&'static str),
    /// A list of texts.
    Texts(&'static [&'static str]),
}

impl Table {
    /// The names of its keys.
    pub fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|key| key.name).collect()
    }

    /// The key of a name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Every key below this table that holds a value, with the keys that lead to it: `door.*.listen`, where `*` stands for
    /// any name. A list of tables is one value.
    pub fn leaves(&self) -> Vec<(String, &'static Key)> {
        let mut leaves = Vec::new();
        for key in self.keys {
            let below = match key.kind {
                Kind::Table(table) => Some((key.name.to_owned(), table)),
                Kind::Named(table) => Some((format!("{}.*", key.name), table)),
                Kind::Text
                | Kind::Shaped(_)
                | Kind::Path
                | Kind::Boolean
                | Kind::Number { .. }
                | Kind::Word(_)
                | Kind::List(_)
                | Kind::Command
                | Kind::Tables(_)
                | Kind::Entries(_)
                | Kind::Any => None,
            };
            match below {
                Some((path, table)) => leaves.extend(
                    table.leaves().into_iter().map(|(leaf, key)| (format!("{path}.{leaf}"), key)),
                ),
                None => leaves.push((key.name.to_owned(), key)),
            }
        }
        leaves
    }
}

impl Key {
    /// A key that may be left out.
    pub const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Key {
        Key { name, kind, doc, default: None, required: false }
    }

    /// The same key, where a table without it is refused.
    pub const fn required(self) -> Key {
        Key { required: true, ..self }
    }

    /// The same key, with what holds without it.
    pub const fn or(self, default: Literal) -> Key {
        Key { default: Some(default), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Kind, Literal, Table};

    const INNER: Table =
        Table { doc: "", keys: &[Key::new("a", Kind::Any, ""), Key::new("b", Kind::Text, "")] };
    const OUTER: Table = Table {
        doc: "",
        keys: &[
            Key::new("plain", Kind::Boolean, "").or(Literal::Boolean(true)),
            Key::new("one", Kind::Table(&INNER), ""),
            Key::new("many", Kind::Named(&INNER), ""),
            Key::new("list", Kind::Tables(&INNER), "").required(),
        ],
    };

    #[test]
    fn leaves_are_the_keys_that_hold_values() {
        let leaves: Vec<_> = OUTER.leaves().into_iter().map(|(path, _)| path).collect();
        assert_eq!(leaves, ["plain", "one.a", "one.b", "many.*.a", "many.*.b", "list"]);
        assert_eq!(OUTER.names(), ["plain", "one", "many", "list"]);
        assert_eq!(OUTER.key("list").map(|key| key.required), Some(true));
        assert_eq!(OUTER.key("lists"), None);
    }
}
