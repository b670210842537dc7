//! YAML with positions and with the tag `!!js`: what compositions and patches are written in.
//! Values are those of JSON; what stands in them is `entries.rs`.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::Number;

/// Lists and mappings within each other.
const DEPTH_MAX: usize = 64;

/// Values of a document, each use of an anchor counted: an alias of an alias must not fill the memory.
const NODES_MAX: usize = 100_000;

/// Line and column, from 1.
pub(super) type Position = (usize, usize);

/// A value and its place.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) value: Yaml,
}

#[derive(Debug, Clone)]
pub(super) enum Yaml {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    /// `!!js`, unevaluated.
    Expression(String),
    List(Vec<Node>),
    /// In the order of the text; no key twice.
    Map(Vec<Member>),
}

#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) at: Position,
    pub(super) value: Node,
}

impl Node {
    pub(super) fn null(at: Position) -> Node {
        Node { at, value: Yaml::Null }
    }
}

/// What is wrong, and where.
pub(super) type Complaint = (Position, String);

/// Reads a text of one document. `None`: there is nothing in it.
pub(super) fn parse(text: &str) -> Result<Option<Node>, Complaint> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error: ScanError| {
            (position(error.marker()), format!("not YAML: {}", error.info()))
        })?;
        builder.event(event, span)?;
    }
    Ok(builder.document)
}

fn position(marker: &Marker) -> Position {
    // The parser counts columns from 0.
    (marker.line(), marker.col() + 1)
}

#[derive(Default)]
struct Builder {
    document: Option<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

/// A list or mapping that has begun.
struct Open {
    at: Position,
    anchor: usize,
    kind: Kind,
}

enum Kind {
    List(Vec<Node>),
    /// With the key that waits for its value.
    Map(Vec<Member>, Option<(String, Position)>),
}

impl Builder {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Complaint> {
        let at = position(&span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value =
                    scalar(&text, style, tag.as_deref()).map_err(|message| (at, message))?;
                self.place(Node { at, value }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(at, anchor, tag.as_deref(), Kind::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.open(at, anchor, tag.as_deref(), Kind::Map(Vec::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Open { at, anchor, kind }) = self.open.pop() else { return Ok(()) };
                let value = match kind {
                    Kind::List(list) => Yaml::List(list),
                    Kind::Map(members, _) => Yaml::Map(members),
                };
                self.place(Node { at, value }, anchor)
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(node) => {
                    self.nodes += count(&node);
                    self.place(Node { at, ..node }, 0)
                }
                None => Err((at, "the alias stands inside what it repeats".to_owned())),
            },
            Event::DocumentStart(_) if self.document.is_some() => {
                Err((at, "a second document begins; one is read".to_owned()))
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn open(
        &mut self,
        at: Position,
        anchor: usize,
        tag: Option<&Tag>,
        kind: Kind,
    ) -> Result<(), Complaint> {
        if let Some(tag) = tag
            && !(tag.is_yaml_core_schema() && matches!(tag.suffix.as_str(), "seq" | "map"))
        {
            return Err((at, unknown_tag(tag)));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err((at, format!("values are nested more than {DEPTH_MAX} deep")));
        }
        self.open.push(Open { at, anchor, kind });
        Ok(())
    }

    /// Puts a complete value where it belongs.
    fn place(&mut self, node: Node, anchor: usize) -> Result<(), Complaint> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err((node.at, format!("the text holds more than {NODES_MAX} values")));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.kind) {
            None => self.document = Some(node),
            Some(Kind::List(list)) => list.push(node),
            Some(Kind::Map(members, waiting)) => match waiting.take() {
                Some((key, at)) => members.push(Member { key, at, value: node }),
                None => {
                    let Yaml::Text(key) = node.value else {
                        return Err((node.at, "every key must be a text".to_owned()));
                    };
                    if members.iter().any(|member| member.key == key) {
                        return Err((
                            node.at,
                            format!("`{key}` stands here a second time; say it once"),
                        ));
                    }
                    *waiting = Some((key, node.at));
                }
            },
        }
        Ok(())
    }
}

fn count(node: &Node) -> usize {
    match &node.value {
        Yaml::List(list) => list.iter().map(count).sum::<usize>() + 1,
        Yaml::Map(members) => members.iter().map(|member| count(&member.value)).sum::<usize>() + 1,
        Yaml::Null | Yaml::Bool(_) | Yaml::Number(_) | Yaml::Text(_) | Yaml::Expression(_) => 1,
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Yaml, String> {
    if let Some(tag) = tag {
        return match tag.suffix.as_str() {
            "js" if tag.is_yaml_core_schema() => Ok(Yaml::Expression(text.to_owned())),
            "str" if tag.is_yaml_core_schema() => Ok(Yaml::Text(text.to_owned())),
            "null" | "bool" | "int" | "float" if tag.is_yaml_core_schema() => plain(text),
            _ => Err(unknown_tag(tag)),
        };
    }
    match style {
        ScalarStyle::Plain => plain(text),
        ScalarStyle::SingleQuoted
        | ScalarStyle::DoubleQuoted
        | ScalarStyle::Literal
        | ScalarStyle::Folded => Ok(Yaml::Text(text.to_owned())),
    }
}

/// What a text without quotation marks stands for.
fn plain(text: &str) -> Result<Yaml, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Yaml::Null),
        "true" | "True" | "TRUE" => return Ok(Yaml::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Yaml::Bool(false)),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return Ok(Yaml::Text(text.to_owned()));
    }
    let whole = match unsigned.get(..2) {
        Some("0x") => i64::from_str_radix(unsigned.get(2..).unwrap_or_default(), 16).ok(),
        Some("0o") => i64::from_str_radix(unsigned.get(2..).unwrap_or_default(), 8).ok(),
        _ => unsigned.parse().ok(),
    };
    if let Some(whole) = whole {
        return Ok(Yaml::Number(Number::from(if text.starts_with('-') { -whole } else { whole })));
    }
    match text.parse::<f64>() {
        Ok(number) => match Number::from_f64(number) {
            Some(number) => Ok(Yaml::Number(number)),
            None => Err(format!("{text} is not a number that a setting can have")),
        },
        Err(_) if matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") => {
            Err(format!("{text} is not a number that a setting can have"))
        }
        Err(_) => Ok(Yaml::Text(text.to_owned())),
    }
}

fn unknown_tag(tag: &Tag) -> String {
    let handle = if tag.is_yaml_core_schema() { "!!" } else { &tag.handle };
    format!(
        "the tag {handle}{} is unknown here; `!!js` before an expression is the only one",
        tag.suffix
    )
}

#[cfg(test)]
mod tests {
    use super::{Node, Yaml, parse};

    /// As JSON, with expressions in angle brackets.
    fn show(node: &Node) -> String {
        match &node.value {
            Yaml::Null => "null".to_owned(),
            Yaml::Bool(value) => value.to_string(),
            Yaml::Number(number) => number.to_string(),
            Yaml::Text(text) => format!("{text:?}"),
            Yaml::Expression(text) => format!("<{text}>"),
            Yaml::List(list) => {
                format!("[{}]", list.iter().map(show).collect::<Vec<_>>().join(","))
            }
            Yaml::Map(members) => {
                let members: Vec<_> = members
                    .iter()
                    .map(|member| format!("{}:{}", member.key, show(&member.value)))
                    .collect();
                format!("{{{}}}", members.join(","))
            }
        }
    }

    #[test]
    fn values_are_those_of_json() {
        let check = |text: &str, expected: &str| {
            let found = parse(text).unwrap_or_else(|complaint| panic!("{text}: {complaint:?}"));
            assert_eq!(found.as_ref().map_or("nothing".to_owned(), show), expected, "{text}");
        };
        check("", "nothing");
        check("# only a comment\n", "nothing");
        check("---\n...\n", "null");
        check("[1, -2, +3, 0x10, 0o17, 1.5, 1e3]", "[1,-2,3,16,15,1.5,1000.0]");
        check(
            "[true, False, ~, null, '', 'true', \"1\", 1.2.3, yes, 12px, -a]",
            "[true,false,null,null,\"\",\"true\",\"1\",\"1.2.3\",\"yes\",\"12px\",\"-a\"]",
        );
        check(
            "a:\n- b: |\n    c\n    d\n  e: >-\n    f\n    g\n",
            "{a:[{b:\"c\\nd\\n\",e:\"f g\"}]}",
        );
        check("a: !!js process.env.X ?? 'y'", "{a:<process.env.X ?? 'y'>}");
        check("a: !!js \"x ? 'y' : \\\"z\\\"\"", "{a:<x ? 'y' : \"z\">}");
        check("a: !!str 5\nb: !!int 5", "{a:\"5\",b:5}");
        check("a: &x {b: 1}\nc: *x", "{a:{b:1},c:{b:1}}");
        check("9223372036854775808", "9.223372036854776e+18");
    }

    #[test]
    fn what_is_no_such_value_is_refused_with_its_place() {
        let check = |text: &str, expected: &str| {
            let ((line, column), message) = parse(text).expect_err(text);
            assert_eq!(format!("{line}:{column}: {message}"), expected, "{text}");
        };
        check("a: 1\n\u{e9}: 2\na: 3", "3:1: `a` stands here a second time; say it once");
        check("a:\n  - 1: 2", "2:5: every key must be a text");
        check(
            "a: !own b",
            "1:4: the tag !own is unknown here; `!!js` before an expression is the only one",
        );
        check(
            "a: !!set {}",
            "1:4: the tag !!set is unknown here; `!!js` before an expression is the only one",
        );
        check("a: .inf", "1:4: .inf is not a number that a setting can have");
        check("a: &x [*x]", "1:8: the alias stands inside what it repeats");
        check("a: 1\n---\nb: 2", "2:1: a second document begins; one is read");
        check(&"[".repeat(65), "1:65: values are nested more than 64 deep");
        let mut laughs = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
        for (old, new) in ('a'..).zip('b'..='g') {
            laughs += &format!("{new}: &{new} [{}]\n", vec![format!("*{old}"); 10].join(", "));
        }
        let (_, message) = parse(&laughs).unwrap_err();
        assert_eq!(message, "the text holds more than 100000 values");
    }
}
