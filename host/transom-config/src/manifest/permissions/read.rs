//! From TOML to the tables `[permissions]`, `[confine]` and `[jobs]`.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::DeTable;

use super::{
    Access, Approvals, Confine, Delivery, Jobs, PERSONAL_SECRETS, PRESETS, PermissionRule,
    Permissions, RuleDecision, Temp, builtin,
};
use crate::{
    error::remedy,
    launch::PermissionMode,
    manifest::{MODES, keys::RULE},
    reader::{Node, Reader},
    shape::tables,
};

/// Arguments that are compared as resolved, absolute paths (P-27).
const PATH_ARGUMENTS: [&str; 3] = ["file_path", "path", "workdir"];

const ALLOWS_BY_PATTERN: &str = "an allow rule cannot recognise shell commands by pattern; use the exact command, or confine instead";

pub(in crate::manifest) fn permissions(
    reader: &mut Reader<'_>,
    node: Option<&Node<'_>>,
) -> Permissions {
    let Some(table) = node.and_then(|node| reader.any_table(node, "permissions")) else {
        return Permissions::default();
    };
    let preset = reader
        .choice(table, "preset", &PRESETS)
        .and_then(|word| mode_of(&word))
        .unwrap_or(PermissionMode::WorkspaceWrite);
    let fallback = Permissions::of(preset);
    let ceiling = mode(reader, table, "ceiling");
    Permissions {
        preset,
        policy: approvals(reader, table, "policy").unwrap_or(fallback.policy),
        ceiling: ceiling.unwrap_or(fallback.ceiling),
        ceiling_named: ceiling.is_some(),
        children: approvals(reader, table, "children").unwrap_or(fallback.children),
        default: decision(reader, table, "default"),
        workspaces: workspaces(reader, table),
        rules: table.get("rule").map(|node| rules(reader, node)).unwrap_or_default(),
    }
}

fn mode(reader: &mut Reader<'_>, table: &DeTable<'_>, key: &str) -> Option<PermissionMode> {
    mode_of(&reader.choice(table, key, &MODES)?)
}

fn mode_of(word: &str) -> Option<PermissionMode> {
    PermissionMode::ALL.into_iter().find(|mode| mode.as_str() == word)
}

fn approvals(reader: &mut Reader<'_>, table: &DeTable<'_>, key: &str) -> Option<Approvals> {
    word(reader, table, key, &[Approvals::Ask, Approvals::Never].map(|a| (a.as_str(), a)))
}

fn decision(reader: &mut Reader<'_>, table: &DeTable<'_>, key: &str) -> Option<RuleDecision> {
    let all = [RuleDecision::Allow, RuleDecision::Ask, RuleDecision::Deny];
    word(reader, table, key, &all.map(|decision| (decision.as_str(), decision)))
}

/// The meaning of one of some words.
fn word<T: Copy>(
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    key: &str,
    words: &[(&str, T)],
) -> Option<T> {
    let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
    let found = reader.choice(table, key, &known)?;
    words.iter().find(|(word, _)| *word == found).map(|(_, meaning)| *meaning)
}

fn workspaces(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Option<Vec<String>> {
    let texts = reader.texts(table, "workspaces")?;
    for (text, at) in &texts {
        if !text.starts_with('/') {
            let message = format!(
                "`workspaces` holds {text:?}, which is not absolute; write the whole path, `*` stands for any part of it"
            );
            reader.complain(*at, message);
        } else {
            resolved_path(reader, *at, "workspaces", text);
        }
    }
    Some(texts.into_iter().map(|(text, _)| text).collect())
}

fn rules(reader: &mut Reader<'_>, node: &Node<'_>) -> Vec<PermissionRule> {
    let mut rules: Vec<(PermissionRule, usize)> = Vec::new();
    // The first of each scope.
    let mut firsts = BTreeMap::new();
    for node in tables(reader, node, "rule", "permissions.rule").unwrap_or_default() {
        let Some(rule) = rule(reader, node) else { continue };
        let at = node.span().start;
        // Rules of a later file come first here. Whoever wrote last is told, whichever that is.
        let first = *firsts.entry(scope(&rule)).or_insert(rules.len());
        if let Some((other, other_at)) = rules.get(first) {
            let (at, other, other_at) =
                if at > *other_at { (at, other, *other_at) } else { (*other_at, &rule, at) };
            let place = match reader.sources.same(at, other_at) {
                true => format!("line {}", other.line),
                false => format!("{}:{}", other.file, other.line),
            };
            let message = format!(
                "the rule is equal to that of {place} up to its decision; leave one of them out"
            );
            reader.complain(at, message);
        }
        rules.push((rule, at));
    }
    rules.into_iter().map(|(rule, _)| rule).collect()
}

fn rule(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<PermissionRule> {
    let at = node.span().start;
    let table = reader.any_table(node, "permissions.rule")?;
    for (key, what) in [
        ("tool", "the name of a tool, or `*` for all of them"),
        ("decision", "`allow`, `ask` or `deny`"),
    ] {
        let message = format!("[[permissions.rule]] has no `{key}`; add {what}");
        reader.require(table, key, &RULE.names(), at, &message);
    }
    let tool = reader.text(table, "tool");
    let decision = decision(reader, table, "decision");
    let when = match table.get("when").and_then(|node| reader.any_table(node, "when")) {
        Some(when) => predicates(reader, when, tool.as_deref(), decision),
        None => Vec::new(),
    };
    let mode = mode(reader, table, "mode");
    let reason = reader.text(table, "reason");
    let (file, line) = reader.sources.place(at);
    Some(PermissionRule { tool: tool?, when, mode, decision: decision?, reason, file, line })
}

fn predicates(
    reader: &mut Reader<'_>,
    when: &DeTable<'_>,
    tool: Option<&str>,
    decision: Option<RuleDecision>,
) -> Vec<(String, String)> {
    let mut entries: Vec<_> = when.iter().collect();
    // The order of the text, which the table has lost.
    entries.sort_by_key(|(key, _)| key.span().start);
    let mut predicates = Vec::new();
    for (key, node) in entries {
        let argument = key.get_ref();
        let at = node.span().start;
        if let Some(tool) = tool {
            known_argument(reader, key.span().start, tool, argument);
        }
        let Some(pattern) = reader.text_of(node, argument) else { continue };
        if PATH_ARGUMENTS.contains(&&**argument) {
            resolved_path(reader, at, argument, &pattern);
        }
        if argument == "command"
            && decision == Some(RuleDecision::Allow)
            && tool.is_some_and(may_be_bash)
            && pattern.contains('*')
        {
            reader.complain(at, ALLOWS_BY_PATTERN.to_owned());
        }
        predicates.push((argument.to_string(), pattern));
    }
    predicates
}

/// A rule about an argument that a tool does not have would never match, and look as if it did.
fn known_argument(reader: &mut Reader<'_>, at: usize, tool: &str, argument: &str) {
    let Some(arguments) = builtin::arguments(tool) else { return };
    if arguments.texts.contains(&argument) {
        return;
    }
    let found = if arguments.others.contains(&argument) {
        format!("the argument `{argument}` of `{tool}` is no text, and `when` compares only texts")
    } else {
        format!("`{tool}` has no argument `{argument}`")
    };
    let remedy = match arguments.texts {
        [] => "leave `when` out, to mean every call of it".to_owned(),
        texts => remedy(argument, texts),
    };
    reader.complain(at, format!("{found}; {remedy}"));
}

/// Complains about a pattern that no resolved path can match.
fn resolved_path(reader: &mut Reader<'_>, at: usize, key: &str, pattern: &str) {
    if pattern.starts_with('~') {
        let message =
            format!("`{key}` is taken literally, but holds {pattern:?}; write the path out");
        reader.complain(at, message);
        return;
    }
    let mut names = pattern.strip_prefix('/').unwrap_or(pattern).split('/');
    if pattern != "/" && names.any(|name| matches!(name, "" | "." | "..")) {
        let message = format!(
            "`{key}` is {pattern:?}, which no path can be: a path is compared where it leads, without `.`, `..`, `//` \
             or a `/` at the end; `*` stands for what is below"
        );
        reader.complain(at, message);
    }
}

/// Whether a pattern matches the name `bash` (P-26).
fn may_be_bash(pattern: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| "bash".strip_prefix(first)) else {
        return false;
    };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// What a rule is about: all of it but what it says. In which order its predicates are written does not count.
fn scope(rule: &PermissionRule) -> (String, Option<PermissionMode>, BTreeSet<(String, String)>) {
    (rule.tool.clone(), rule.mode, rule.when.iter().cloned().collect())
}

pub(in crate::manifest) fn confine(reader: &mut Reader<'_>, node: Option<&Node<'_>>) -> Confine {
    let fallback = Confine::default();
    let Some(table) = node.and_then(|node| reader.any_table(node, "confine")) else {
        return fallback;
    };
    let access = [("deny", Access::Deny), ("allow", Access::Allow)];
    let temp = [("shared", Temp::Shared), ("private", Temp::Private)];
    let hide = reader.literal_paths(table, "hide");
    let show = reader.literal_paths(table, "show");
    for (path, at) in &show {
        let known = path.is_absolute()
            || hide.iter().any(|(hidden, _)| hidden == path)
            || PERSONAL_SECRETS.iter().any(|secret| path.as_os_str() == *secret);
        if !known {
            let path = path.display().to_string();
            let message = format!(
                "`show` holds `{path}`, which is not hidden; {}",
                remedy(&path, &PERSONAL_SECRETS)
            );
            reader.complain(*at, message);
        }
    }
    let plain = |paths: Vec<(_, usize)>| paths.into_iter().map(|(path, _)| path).collect();
    Confine {
        off: reader.boolean(table, "off").unwrap_or(fallback.off),
        required: reader.boolean(table, "required").unwrap_or(fallback.required),
        network: word(reader, table, "network", &access).unwrap_or(fallback.network),
        unix_sockets: word(reader, table, "unix-sockets", &access).unwrap_or(fallback.unix_sockets),
        temp: word(reader, table, "temp", &temp).unwrap_or(fallback.temp),
        write: plain(reader.literal_paths(table, "write")),
        hide: plain(hide),
        show: plain(show),
        guard: plain(reader.literal_paths(table, "guard")),
        guard_git: reader.boolean(table, "guard-git").unwrap_or(fallback.guard_git),
    }
}

pub(in crate::manifest) fn jobs(reader: &mut Reader<'_>, node: Option<&Node<'_>>) -> Jobs {
    let fallback = Jobs::default();
    let Some(table) = node.and_then(|node| reader.any_table(node, "jobs")) else {
        return fallback;
    };
    let delivery = [("notify", Delivery::Notify), ("quiet", Delivery::Quiet)];
    let per_session = reader.count(table, "per-session-max");
    let host = reader.count(table, "host-max");
    if let (Some(per_session), Some(host), Some(node)) =
        (per_session, host, table.get("per-session-max"))
        && per_session > host
    {
        let message = format!(
            "`per-session-max` is {per_session}, above `host-max` at {host}; it must not be"
        );
        reader.complain(node.span().start, message);
    }
    Jobs {
        delivery: word(reader, table, "delivery", &delivery).unwrap_or(fallback.delivery),
        per_session_max: per_session.unwrap_or(fallback.per_session_max),
        host_max: host.unwrap_or(fallback.host_max),
    }
}
