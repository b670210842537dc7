//! Policy text: TOML in, a policy or everything that is wrong with it out.

use std::{collections::HashSet, fmt};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    FRAMES, FrameRule, FrameRules, LIMITS, Limits, POLICY, Policy, TRUST, Trust, TrustKey,
    limits::{LIMIT_KEYS, LimitKey, memory_bytes_for, output_bytes_for},
    nearest::nearest,
    places::Places,
};

/// One thing that is wrong with a policy text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The text's name.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// What stands there.
    pub found: String,
    /// What would be right.
    pub right: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Complaint { file, line, column, found, right } = self;
        write!(f, "{file}:{line}:{column}: found {found}; right would be {right}")
    }
}

/// A policy text that cannot be obeyed. One line for each complaint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", complaints.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct PolicyError {
    /// In the order of the text. Never empty.
    pub complaints: Vec<Complaint>,
}

pub(crate) fn parse(file: &str, text: &str) -> Result<Policy, PolicyError> {
    let mut reader = Reader { text, complaints: Vec::new() };
    let policy = reader.policy();
    if reader.complaints.is_empty() {
        return Ok(policy);
    }
    // Tables are read in the order of their keys; people read from the top.
    let mut complaints = reader.complaints;
    complaints.sort_by_key(|(at, ..)| *at);
    let mut places = Places::new(text);
    let complaints = complaints.into_iter().map(|(at, found, right)| {
        let (line, column) = places.of(at);
        Complaint { file: file.to_owned(), line, column, found, right }
    });
    Err(PolicyError { complaints: complaints.collect() })
}

/// The keys of `[limits]` that a policy's text names itself; the others are defaults, or follow from these.
pub fn named_limits(text: &str) -> Vec<String> {
    let (document, _) = DeTable::parse_recoverable(text);
    match document.get_ref().get("limits").map(Spanned::get_ref) {
        Some(DeValue::Table(limits)) => {
            limits.keys().map(|key| key.get_ref().clone().into_owned()).collect()
        }
        _ => Vec::new(),
    }
}

/// Reads on after a complaint, so that all of them come at once.
struct Reader<'t> {
    text: &'t str,
    /// Where, what stands there, and what would be right.
    complaints: Vec<(usize, String, String)>,
}

impl Reader<'_> {
    fn policy(&mut self) -> Policy {
        let (document, errors) = DeTable::parse_recoverable(self.text);
        if !errors.is_empty() {
            for error in errors {
                let at = error.span().map_or(0, |span| span.start);
                self.complain(at, error.message().replace('\n', ", "), "TOML");
            }
            return Policy::default();
        }

        let mut policy = Policy::default();
        for (key, value) in document.get_ref() {
            match key.get_ref().as_ref() {
                "frames" => policy.frames = self.frames(value),
                "limits" => policy.limits = self.limits(value),
                "trust" => policy.trust = self.trust(value),
                _ => self.unknown_key(key, &POLICY.names()),
            }
        }
        policy
    }

    fn frames(&mut self, section: &Spanned<DeValue<'_>>) -> FrameRules {
        let mut rules = FrameRules::default();
        let Some(table) = section.get_ref().as_table() else {
            self.wrong_type(section, "a table with the key \"allow\"");
            return rules;
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "allow" => self.allow(&mut rules, value),
                _ => self.unknown_key(key, &FRAMES.names()),
            }
        }
        rules
    }

    fn allow(&mut self, rules: &mut FrameRules, list: &Spanned<DeValue<'_>>) {
        let Some(entries) = list.get_ref().as_array() else {
            return self.wrong_type(list, "a list of frame names");
        };
        let mut named = HashSet::new();
        for entry in entries.iter() {
            let at = entry.span().start;
            let Some(text) = entry.get_ref().as_str() else {
                self.wrong_type(entry, "a frame name in quotation marks");
                continue;
            };
            match FrameRule::parse(text) {
                Err(wrong) => self.complain(at, quoted(text), wrong.right),
                Ok(_) if !named.insert(text) => {
                    self.complain(at, format!("{} a second time", quoted(text)), "each entry once");
                }
                Ok(rule) => rules.push(rule),
            }
        }
    }

    fn limits(&mut self, section: &Spanned<DeValue<'_>>) -> Limits {
        let mut limits = Limits::default();
        let Some(table) = section.get_ref().as_table() else {
            self.wrong_type(section, "a table of limits");
            return limits;
        };
        for (name, value) in table {
            match LIMIT_KEYS.iter().find(|limit| limit.key.name == name.get_ref()) {
                Some(limit) => {
                    if let Some(number) = self.number(limit, value) {
                        *limit.field(&mut limits) = number;
                    }
                }
                None => self.unknown_key(name, &LIMITS.names()),
            }
        }

        if !table.contains_key("memory-bytes-max") {
            limits.memory_bytes_max = memory_bytes_for(limits.unit_bytes_max);
        }
        if !table.contains_key("output-bytes-per-call-max") {
            limits.output_bytes_per_call_max = output_bytes_for(limits.unit_bytes_max);
        }
        let unit = ("unit-bytes-max", limits.unit_bytes_max);
        self.ordered(table, unit, ("memory-bytes-max", limits.memory_bytes_max));
        let rest = ("unwritten-bytes-rest", limits.unwritten_bytes_rest);
        self.ordered(table, rest, ("unwritten-bytes-stop", limits.unwritten_bytes_stop));
        limits
    }

    fn trust(&mut self, section: &Spanned<DeValue<'_>>) -> Trust {
        let mut trust = Trust::default();
        let Some(table) = section.get_ref().as_table() else {
            self.wrong_type(section, "a table with the keys \"require-signature\" and \"keys\"");
            return trust;
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "require-signature" => match value.get_ref().as_bool() {
                    Some(required) => trust.require_signature = required,
                    None => self.wrong_type(value, "true or false"),
                },
                "keys" => self.trust_keys(&mut trust.keys, value),
                _ => self.unknown_key(key, &TRUST.names()),
            }
        }
        let unnamed = table
            .get("keys")
            .is_none_or(|keys| keys.get_ref().as_array().is_some_and(|list| list.is_empty()));
        if let (true, true, Some(value)) =
            (trust.require_signature, unnamed, table.get("require-signature"))
        {
            self.complain(
                value.span().start,
                "require-signature = true without keys, so that no signature is good".to_owned(),
                "`keys` beside it, with the public key of whoever signs",
            );
        }
        trust
    }

    fn trust_keys(&mut self, keys: &mut Vec<TrustKey>, list: &Spanned<DeValue<'_>>) {
        let Some(entries) = list.get_ref().as_array() else {
            return self.wrong_type(list, "a list of minisign public keys");
        };
        let mut named = HashSet::new();
        for entry in entries.iter() {
            let at = entry.span().start;
            let Some(text) = entry.get_ref().as_str() else {
                self.wrong_type(entry, "a minisign public key in quotation marks");
                continue;
            };
            match TrustKey::parse(text) {
                Err(wrong) => {
                    let found = match wrong.because {
                        Some(because) => format!("{}, which {because}", quoted(text)),
                        None => quoted(text),
                    };
                    self.complain(at, found, wrong.right);
                }
                Ok(key) if !named.insert(key.clone()) => {
                    self.complain(at, format!("{} a second time", quoted(text)), "each key once");
                }
                Ok(key) => keys.push(key),
            }
        }
    }

    /// The number of a key, if it is one that the key may have.
    fn number(&mut self, limit: &LimitKey, value: &Spanned<DeValue<'_>>) -> Option<u64> {
        let right = format!("a whole number from {} to {}", limit.least(), limit.most());
        let Some(integer) = value.get_ref().as_integer() else {
            self.wrong_type(value, &right);
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number.filter(|number| (limit.least()..=limit.most()).contains(number));
        if number.is_none() {
            self.complain(value.span().start, format!("{} = {integer}", limit.key.name), &right);
        }
        number
    }

    /// Complains where the larger of two limits is below the smaller one, at the one that the text names.
    fn ordered(&mut self, table: &DeTable<'_>, smaller: (&str, u64), larger: (&str, u64)) {
        if smaller.1 <= larger.1 {
            return;
        }
        if let Some(value) = table.get(larger.0) {
            let found = format!("{} = {}, below {} = {}", larger.0, larger.1, smaller.0, smaller.1);
            self.complain(value.span().start, found, &format!("at least {}", smaller.1));
        } else if let Some(value) = table.get(smaller.0) {
            let found = format!("{} = {}, above {} = {}", smaller.0, smaller.1, larger.0, larger.1);
            let right = format!("at most {}, or another {} beside it", larger.1, larger.0);
            self.complain(value.span().start, found, &right);
        }
    }

    fn unknown_key(&mut self, key: &Spanned<std::borrow::Cow<'_, str>>, known: &[&str]) {
        let right = match nearest(key.get_ref(), known.iter().copied()) {
            Some(name) => quoted(name),
            None if known.len() == 1 => known.iter().map(|name| quoted(name)).collect(),
            None => format!("one of {}", known.join(", ")),
        };
        self.complain(
            key.span().start,
            format!("the unknown key {}", quoted(key.get_ref())),
            &right,
        );
    }

    fn wrong_type(&mut self, value: &Spanned<DeValue<'_>>, right: &str) {
        self.complain(value.span().start, called(value.get_ref()), right);
    }

    fn complain(&mut self, at: usize, found: String, right: &str) {
        self.complaints.push((at, found, right.to_owned()));
    }
}

/// What a value is called in complaints.
pub fn called(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text {}", quoted(text)),
        DeValue::Integer(integer) => format!("the number {integer}"),
        DeValue::Float(float) => format!("the number {float}"),
        DeValue::Boolean(boolean) => boolean.to_string(),
        DeValue::Datetime(moment) => format!("the date {moment}"),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// In quotation marks, with whatever would break a line escaped.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}

#[cfg(test)]
mod tests;
