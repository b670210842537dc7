//! Scripts, read and checked: everything `docs/scripted-model.md` promises to accept, and nothing
//! else. Playing them is the provider's.

use std::{str::FromStr, time::Duration};

use serde_json::Value;
use transom_harness::{
    chunk::{Finish, LlmFailure, TokenUsage},
    ports::{NormalRetry, RetryPolicy},
};

use crate::scripted::{
    reader::{Node, ScriptError, unknown},
    scene::Scene,
    template::{NAMES, Template},
};

/// Longest delay of one action: beyond an hour it is more likely a slip than a wish.
const DELAY_MS_MAX: u64 = 3_600_000;

/// A checked script.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    pub(super) model: String,
    pub(super) images: bool,
    pub(super) context_window: Option<u64>,
    pub(super) retry: RetryPolicy,
    pub(super) rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rule {
    when: When,
    /// How often it may be taken in one session.
    pub(super) times: Option<u64>,
    pub(super) answer: Vec<Action>,
}

/// What must hold for a rule to fit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct When {
    prompt: Prompt,
    step: Option<u64>,
    /// Any of these; in lower case.
    notice: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Prompt {
    Any,
    Exact(String),
    /// In lower case.
    Contains(Vec<String>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Text(Vec<Template>),
    Reasoning(Vec<Template>),
    Tool { id: Option<String>, name: String, arguments: Arguments },
    Delay(Duration),
    Usage(TokenUsage),
    Finish(Finish),
    Error(LlmFailure),
    Cut,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Arguments {
    /// Verbatim, valid JSON or not.
    Raw(Vec<String>),
    /// An object whose strings are templates.
    Object(Value),
}

impl Script {
    /// The script of a host that was given none.
    pub fn builtin() -> Script {
        #[expect(clippy::expect_used, reason = "the test `the_built_in_script_is_valid` reads it")]
        Script::from_str(include_str!("builtin.json")).expect("the built-in script is valid")
    }

    /// The same script with another policy for failed attempts.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Script {
        self.retry = retry;
        self
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Script, ScriptError> {
        let known = ["model", "images", "context_window", "retry", "rules"];
        let fields = Node::root(text)?.object("a script", &known)?;
        Ok(Script {
            model: match fields.find("model") {
                Some(node) => filled(node, "\"model\"")?,
                None => "scripted".to_owned(),
            },
            images: fields
                .find("images")
                .map(|node| node.flag("\"images\""))
                .transpose()?
                .unwrap_or(false),
            context_window: positive(fields.find("context_window"), "\"context_window\"")?,
            retry: fields.find("retry").map(retry).transpose()?.unwrap_or_default(),
            rules: fields
                .need("rules")?
                .list("\"rules\"")?
                .into_iter()
                .map(rule)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl Rule {
    pub(super) fn fits(&self, scene: &Scene) -> bool {
        let When { prompt, step, notice } = &self.when;
        let prompt = match prompt {
            Prompt::Any => true,
            Prompt::Exact(text) => *text == scene.prompt,
            Prompt::Contains(texts) => contains(&scene.prompt, texts),
        };
        prompt
            && step.is_none_or(|step| step == scene.step)
            && notice.as_ref().is_none_or(|texts| contains(&scene.notice, texts))
    }
}

fn contains(text: &str, parts: &[String]) -> bool {
    let text = text.to_lowercase();
    parts.iter().any(|part| text.contains(part))
}

impl Arguments {
    pub(super) fn fragments(&self, scene: &Scene) -> Result<Vec<String>, String> {
        match self {
            Arguments::Raw(fragments) => Ok(fragments.clone()),
            Arguments::Object(object) => Ok(vec![fill(object, scene)?.to_string()]),
        }
    }
}

fn fill(value: &Value, scene: &Scene) -> Result<Value, String> {
    Ok(match value {
        // Templates were checked when the script was read; one that fails stands for itself.
        Value::String(text) => match Template::read(text) {
            Ok(template) => template.fill(scene)?.into(),
            Err(_) => value.clone(),
        },
        Value::Array(items) => {
            items.iter().map(|item| fill(item, scene)).collect::<Result<_, _>>()?
        }
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| Ok((name.clone(), fill(value, scene)?)))
            .collect::<Result<_, String>>()?,
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

fn rule(node: Node) -> Result<Rule, ScriptError> {
    let fields = node.object("a rule", &["when", "times", "answer"])?;
    let always = When { prompt: Prompt::Any, step: None, notice: None };
    let when = fields.find("when").map(when).transpose()?.unwrap_or(always);
    let mut answer = Vec::new();
    for node in fields.need("answer")?.list("\"answer\"")? {
        let ended = answer
            .last()
            .is_some_and(|last| matches!(last, Action::Finish(_) | Action::Error(_) | Action::Cut));
        if ended {
            return Err(node
                .fail("nothing may follow \"finish\", \"error\" or \"cut\": the answer is over"));
        }
        answer.push(action(node)?);
    }
    Ok(Rule { when, times: positive(fields.find("times"), "\"times\"")?, answer })
}

fn when(node: Node) -> Result<When, ScriptError> {
    let fields = node.object("\"when\"", &["contains", "exact", "any", "step", "notice"])?;
    let mut prompts = Vec::new();
    if let Some(node) = fields.find("contains") {
        prompts.push((node, Prompt::Contains(parts(node, "\"contains\"", "prompt")?)));
    }
    if let Some(node) = fields.find("exact") {
        prompts.push((node, Prompt::Exact(node.string("\"exact\"")?)));
    }
    if let Some(node) = fields.find("any") {
        if !node.flag("\"any\"")? {
            return Err(
                node.fail("\"any\" can only be true: a rule that fits no prompt is never used")
            );
        }
        prompts.push((node, Prompt::Any));
    }
    if let Some((node, _)) = prompts.get(1) {
        return Err(node.fail("\"when\" takes one of \"contains\", \"exact\" and \"any\""));
    }
    let prompt = prompts.pop().map_or(Prompt::Any, |(_, prompt)| prompt);
    Ok(When {
        prompt,
        step: positive(fields.find("step"), "\"step\"")?,
        notice: fields
            .find("notice")
            .map(|node| parts(node, "\"notice\"", "notice"))
            .transpose()?,
    })
}

/// Texts of which one must be contained, in lower case.
fn parts(node: Node, what: &str, whole: &str) -> Result<Vec<String>, ScriptError> {
    let texts = strings(node, what)?;
    if texts.iter().any(String::is_empty) || texts.is_empty() {
        return Err(
            node.fail(format!("{what} must not be empty: to fit every {whole} leave it out"))
        );
    }
    Ok(texts.iter().map(|text| text.to_lowercase()).collect())
}

fn action(node: Node) -> Result<Action, ScriptError> {
    let known = ["text", "reasoning", "tool", "delay_ms", "usage", "finish", "error", "cut"];
    let fields = node.object("an action", &known)?;
    let (name, value) = fields.only()?;
    Ok(match name {
        "text" => Action::Text(templates(value, "\"text\"")?),
        "reasoning" => Action::Reasoning(templates(value, "\"reasoning\"")?),
        "tool" => tool(value)?,
        "delay_ms" => {
            let ms = value.count("\"delay_ms\"")?;
            if ms > DELAY_MS_MAX {
                return Err(
                    value.fail(format!("\"delay_ms\" must be at most {DELAY_MS_MAX}, found {ms}"))
                );
            }
            Action::Delay(Duration::from_millis(ms))
        }
        "usage" => Action::Usage(usage(value)?),
        "finish" => Action::Finish(finish(value)?),
        "error" => Action::Error(error(value)?),
        _ => {
            if !value.flag("\"cut\"")? {
                return Err(value.fail("\"cut\" can only be true: leave it out for a whole answer"));
            }
            Action::Cut
        }
    })
}

fn tool(node: Node) -> Result<Action, ScriptError> {
    let fields = node.object("\"tool\"", &["name", "id", "arguments"])?;
    let arguments = match fields.find("arguments") {
        None => Arguments::Raw(vec!["{}".to_owned()]),
        Some(node) if node.kind() == "an object" => {
            let object: Value = node.read("\"arguments\"", "an object")?;
            check(node, &object)?;
            Arguments::Object(object)
        }
        Some(node) => {
            let right = "\"arguments\" must be an object, a string or a list of strings";
            let fragments = strings(node, "\"arguments\"").map_err(|error| match node.kind() {
                "a string" | "a list" => error,
                kind => node.fail(format!("{right}, found {kind}")),
            })?;
            // A call without a single fragment would not be told to anybody.
            Arguments::Raw(if fragments.is_empty() { vec![String::new()] } else { fragments })
        }
    };
    Ok(Action::Tool {
        id: fields.find("id").map(|node| filled(node, "\"id\"")).transpose()?,
        name: fields.need("name")?.string("\"name\"")?,
        arguments,
    })
}

fn check(node: Node, value: &Value) -> Result<(), ScriptError> {
    match value {
        Value::String(text) => template(node, text).map(drop),
        Value::Array(items) => items.iter().try_for_each(|item| check(node, item)),
        Value::Object(members) => members.values().try_for_each(|value| check(node, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn usage(node: Node) -> Result<TokenUsage, ScriptError> {
    let known = [
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
    ];
    let fields = node.object("\"usage\"", &known)?;
    let maybe =
        |name: &str| fields.find(name).map(|node| node.count(&format!("\"{name}\""))).transpose();
    Ok(TokenUsage {
        input_tokens: fields.need("input_tokens")?.count("\"input_tokens\"")?,
        output_tokens: fields.need("output_tokens")?.count("\"output_tokens\"")?,
        cache_read_tokens: maybe("cache_read_tokens")?,
        cache_write_tokens: maybe("cache_write_tokens")?,
        reasoning_tokens: maybe("reasoning_tokens")?,
    })
}

fn finish(node: Node) -> Result<Finish, ScriptError> {
    match node.string("\"finish\"")?.as_str() {
        "stop" => Ok(Finish::Stop),
        "tool-calls" => Ok(Finish::ToolCalls),
        "max-tokens" => Ok(Finish::MaxTokens),
        other => {
            Err(node.fail(unknown("\"finish\"", other, &["stop", "tool-calls", "max-tokens"])))
        }
    }
}

fn error(node: Node) -> Result<LlmFailure, ScriptError> {
    let known = ["code", "message", "status", "retry_after_ms", "request_id"];
    let fields = node.object("\"error\"", &known)?;
    let status = match fields.find("status") {
        Some(node) => match node.count("\"status\"")? {
            status @ 100..=599 => u16::try_from(status).ok(),
            other => {
                return Err(node.fail(format!("\"status\" must be an HTTP status, found {other}")));
            }
        },
        None => None,
    };
    Ok(LlmFailure {
        code: filled(fields.need("code")?, "\"code\"")?,
        message: fields.need("message")?.string("\"message\"")?,
        status,
        provider_retry_after_ms: positive(fields.find("retry_after_ms"), "\"retry_after_ms\"")?,
        request_id: fields
            .find("request_id")
            .map(|node| node.string("\"request_id\""))
            .transpose()?,
    })
}

fn retry(node: Node) -> Result<RetryPolicy, ScriptError> {
    let known = ["max_retries", "codes", "initial_delay_ms", "max_delay_ms", "jitter_ratio"];
    let fields = node.object("\"retry\"", &known)?;
    let mut policy = RetryPolicy::default();
    let mut normal =
        policy.normal.take().unwrap_or(NormalRetry { max_retries: 0, codes: Vec::new() });
    if let Some(node) = fields.find("max_retries") {
        normal.max_retries = node.read("\"max_retries\"", "a whole number from 0")?;
    }
    if let Some(node) = fields.find("codes") {
        normal.codes = strings(node, "\"codes\"")?;
        normal.codes.sort();
    }
    policy.normal = Some(normal);
    if let Some(node) = fields.find("initial_delay_ms") {
        policy.initial_delay_ms = node.count("\"initial_delay_ms\"")?;
    }
    if let Some(node) = fields.find("max_delay_ms") {
        policy.max_delay_ms = node.count("\"max_delay_ms\"")?;
    }
    if let Some(node) = fields.find("jitter_ratio") {
        policy.jitter_ratio = node.read("\"jitter_ratio\"", "a number from 0 to 1")?;
        if !(0.0..=1.0).contains(&policy.jitter_ratio) {
            let found = policy.jitter_ratio;
            return Err(
                node.fail(format!("\"jitter_ratio\" must be a number from 0 to 1, found {found}"))
            );
        }
    }
    Ok(policy)
}

fn templates(node: Node, what: &str) -> Result<Vec<Template>, ScriptError> {
    strings(node, what)?.iter().map(|text| template(node, text)).collect()
}

fn template(node: Node, text: &str) -> Result<Template, ScriptError> {
    Template::read(text).map_err(|name| node.fail(unknown("a template", &name, NAMES)))
}

/// A string, or a list of strings.
fn strings(node: Node, what: &str) -> Result<Vec<String>, ScriptError> {
    if node.kind() == "a list" {
        return node
            .list(what)?
            .into_iter()
            .map(|item| item.string(&format!("each item of {what}")))
            .collect();
    }
    node.read(what, "a string or a list of strings").map(|text| vec![text])
}

fn filled(node: Node, what: &str) -> Result<String, ScriptError> {
    let text = node.string(what)?;
    if text.is_empty() { Err(node.fail(format!("{what} must not be empty"))) } else { Ok(text) }
}

fn positive(node: Option<Node>, what: &str) -> Result<Option<u64>, ScriptError> {
    let Some(node) = node else { return Ok(None) };
    match node.count(what)? {
        0 => Err(node.fail(format!("{what} must be at least 1, found 0"))),
        count => Ok(Some(count)),
    }
}

#[cfg(test)]
mod tests;
