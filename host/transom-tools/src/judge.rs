//! Whether a call may begin, and what has to be asked first: the order of P-30, the texts of P-19, P-31 and P-60.
//! Asking is the loop's; what a granted call may then touch is the confiner's and the fence's.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use tracing::{debug, debug_span};
use transom_harness::{
    permissions::{
        Access, ApprovalPolicy, Mode, Outcome,
        rules::{Decision, Facts, Rule, Rules, ToolKind, refusal},
    },
    ports::{Judgement, ToolOutcome, Wanted},
};

use crate::{shell::unavailable, tool::ToolError};

/// What the operator allows, and what is confined here. Read at each call (P-32).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    /// The rules with their default.
    pub rules: Rules,
    /// There is an approval service: asks are possible at all (P-6).
    pub approvals: bool,
    /// `bash` is confined by the mode (P-18).
    pub confines_shell: bool,
    /// `write` and `edit` are.
    pub confines_files: bool,
}

/// What would become of a call, and why (P-33).
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// What the rules say.
    pub decision: Decision,
    /// The rule that says it; `None`: the default.
    pub rule: Option<Rule>,
    /// What comes of it, together with everything else that is looked at before a call begins.
    pub judgement: Judgement,
}

/// A call with valid arguments that has not begun.
pub(crate) struct Candidate<'a> {
    pub(crate) tool: &'a str,
    pub(crate) kind: ToolKind,
    /// What the tool is to the mode, if it is anything.
    pub(crate) subject: Option<Subject>,
    pub(crate) arguments: &'a Map<String, Value>,
    pub(crate) access: Access,
    /// The session's directory.
    pub(crate) directory: &'a Path,
    /// Where that stood when the session was given it (P-5).
    pub(crate) root: Option<&'a Path>,
    /// The tool's own check of arguments.
    pub(crate) check: &'a dyn Fn() -> Result<(), ToolError>,
    /// Where a path leads; `None` where that cannot be known.
    pub(crate) resolve: &'a dyn Fn(&str) -> Option<PathBuf>,
    /// Why a shell cannot be confined under this mode, if it cannot.
    pub(crate) lack: &'a dyn Fn(Mode) -> Option<String>,
    /// `confine.required` (P-60).
    pub(crate) required: bool,
}

/// What a mode confines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A shell command.
    Command,
    /// A change made by a file tool.
    Operation,
    /// The same by a tool whose schema has no way to ask for a wider mode (P-18).
    FixedOperation,
}

/// Arguments by which a call asks for more than its session may do (P-18).
struct Escalation<'a> {
    mode: Mode,
    justification: &'a str,
}

/// Why somebody has to be asked, in the order of P-30.
enum Reason<'a> {
    Escalation(Escalation<'a>),
    MissingConfiner { mode: Mode, why: String },
    Rule { reason: &'a str, unsupported: String },
}

impl Subject {
    /// Of a built-in tool.
    pub(crate) fn of(tool: &str) -> Option<Subject> {
        match tool {
            "bash" => Some(Subject::Command),
            "edit" | "write" => Some(Subject::Operation),
            "str_replace_editor" => Some(Subject::FixedOperation),
            _ => None,
        }
    }

    /// Whether a call can ask for a wider mode.
    pub(crate) fn can_ask_for_more(self) -> bool {
        match self {
            Subject::Command | Subject::Operation => true,
            Subject::FixedOperation => false,
        }
    }

    /// The word for it in model texts.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Subject::Command => "command",
            Subject::Operation | Subject::FixedOperation => "operation",
        }
    }

    fn executor(self) -> &'static str {
        match self {
            Subject::Command => "executor",
            Subject::Operation | Subject::FixedOperation => "filesystem",
        }
    }
}

impl Permissions {
    /// Whether the mode confines it here.
    pub(crate) fn confines(&self, subject: Subject) -> bool {
        match subject {
            Subject::Command => self.confines_shell,
            Subject::Operation | Subject::FixedOperation => self.confines_files,
        }
    }

    /// May read the file system.
    pub(crate) fn judge(&self, call: &Candidate<'_>) -> Explanation {
        let real = match call.root {
            Some(root) => Some(root.to_owned()),
            None if self.rules.needs_paths(call.tool) => fs::canonicalize(call.directory).ok(),
            None => None,
        };
        let root = real.as_deref().unwrap_or(call.directory).to_string_lossy();
        let verdict = self.rules.decide(&Facts {
            tool: call.tool,
            mode: call.access.mode,
            arguments: call.arguments,
            resolved: &|argument| {
                let text = call.arguments.get(argument)?.as_str()?;
                (call.resolve)(text)?.to_str().map(str::to_owned)
            },
            root: &root,
            kind: call.kind,
        });
        let place = verdict.rule.map(|rule| rule.place.to_string());
        let place = place.as_deref().unwrap_or("default");
        let decision = verdict.decision.as_str();
        debug_span!("transom.policy.decide", tool = call.tool, decision, place)
            .in_scope(|| debug!("a tool call was judged"));

        let judgement = match verdict.decision {
            Decision::Deny => refuse(ToolError::new(verdict.denial(call.tool))),
            Decision::Allow => self.weigh(call, None),
            Decision::Ask => {
                let unsupported = verdict.unsupported(call.tool);
                self.weigh(call, Some(Reason::Rule { reason: verdict.ask_reason(), unsupported }))
            }
        };
        Explanation { decision: verdict.decision, rule: verdict.rule.cloned(), judgement }
    }

    /// Everything after the rules.
    fn weigh(&self, call: &Candidate<'_>, rule: Option<Reason<'_>>) -> Judgement {
        if let Err(error) = (call.check)() {
            return refuse(error);
        }
        let escalation = match self.escalation(call) {
            Ok(escalation) => escalation,
            Err(message) => return refuse(ToolError::new(message)),
        };
        let mode = escalation.as_ref().map_or(call.access.mode, |escalation| escalation.mode);
        let confined = call.subject.is_some_and(|subject| {
            subject == Subject::Command && self.confines_shell && mode != Mode::DangerFullAccess
        });
        let missing = if confined { (call.lack)(mode) } else { None };
        let unconfined = missing.is_some();
        if let Some(why) = missing.as_ref().filter(|_| call.required) {
            return refuse(unavailable(mode, why));
        }

        let missing = missing.map(|why| Reason::MissingConfiner { mode, why });
        let reasons: Vec<_> =
            escalation.map(Reason::Escalation).into_iter().chain(missing).chain(rule).collect();
        let Some(first) = reasons.first() else { return Judgement::Run };
        if let Some(error) = self.hopeless(call.access.policy, first) {
            return refuse(error);
        }
        let texts = reasons.iter().map(Reason::text);
        Judgement::Ask(Box::new(Wanted {
            reason: Some(texts.collect::<Vec<_>>().join("; ")),
            granted: Access { mode, unconfined, ..call.access },
            rejected: first.refusal(call, Outcome::Rejected).into(),
            cancelled: first.refusal(call, Outcome::Cancelled).into(),
            unavailable: first.refusal(call, Outcome::Unavailable).into(),
            begun: matches!(first, Reason::Escalation(_)),
        }))
    }

    /// Why an ask would lead nowhere, so that none is made.
    fn hopeless(&self, policy: ApprovalPolicy, first: &Reason<'_>) -> Option<ToolError> {
        match first {
            // Row 6 of P-19 has been looked at.
            Reason::Escalation(_) => None,
            Reason::MissingConfiner { mode, why } => {
                let nobody = !self.approvals || policy == ApprovalPolicy::Never;
                nobody.then(|| unavailable(*mode, why))
            }
            Reason::Rule { unsupported, .. } => {
                (!self.approvals).then(|| ToolError::new(unsupported))
            }
        }
    }

    /// Rows 1 to 6 of P-19; row 7 cannot be, every call has an agent.
    fn escalation<'a>(&self, call: &Candidate<'a>) -> Result<Option<Escalation<'a>>, String> {
        let subject = call.subject.filter(|subject| subject.can_ask_for_more());
        let Some(subject) = subject else { return Ok(None) };
        let target = call.arguments.get("sandbox_permissions");
        let justification = call.arguments.get("justification");
        let (target, justification) = match (target, justification) {
            (None, None) => return Ok(None),
            (Some(_), None) => {
                return Err(
                    "invalid escalation: sandbox_permissions requires a justification".to_owned()
                );
            }
            (None, Some(_)) => {
                return Err("invalid escalation: justification is only valid together with \
                            sandbox_permissions"
                    .to_owned());
            }
            (Some(target), Some(justification)) => {
                (target, justification.as_str().unwrap_or_default())
            }
        };
        if justification.trim().is_empty() {
            return Err("invalid justification: expected a non-empty sentence".to_owned());
        }
        if !self.confines(subject) {
            return Err(format!(
                "sandbox_permissions is not available in this composition (no sandboxing {} to escalate)",
                subject.executor()
            ));
        }
        // The schema of what is confined allows no other words.
        let current = call.access.mode;
        let mode = target.as_str().and_then(Mode::parse).unwrap_or(current);
        if mode <= current {
            return Err(format!(
                "sandbox escalation to \"{}\" is not strictly wider than this call's current \"{}\" mode",
                mode.as_str(),
                current.as_str()
            ));
        }
        if !self.approvals {
            return Err(format!(
                "sandbox escalation to \"{}\" requires approval, but no approval service is composed",
                mode.as_str()
            ));
        }
        Ok(Some(Escalation { mode, justification }))
    }
}

impl Reason<'_> {
    /// What the person is told (P-20, P-60, P-31).
    fn text(&self) -> String {
        match self {
            Reason::Escalation(Escalation { mode, justification }) => {
                format!("escalate sandbox to {}: {justification}", mode.as_str())
            }
            Reason::MissingConfiner { mode, .. } => format!(
                "no confiner on this host: run this command without confinement under {}",
                mode.as_str()
            ),
            Reason::Rule { reason, .. } => (*reason).to_owned(),
        }
    }

    /// What the model is told if it is not granted (rows 8 to 10 of P-19, P-60, L-62).
    fn refusal(&self, call: &Candidate<'_>, outcome: Outcome) -> ToolError {
        match self {
            Reason::Escalation(Escalation { mode, .. }) => {
                let mode = mode.as_str();
                let subject = call.subject.map_or("operation", Subject::as_str);
                ToolError::new(match outcome {
                    Outcome::AllowedOnce | Outcome::Rejected => {
                        format!("the user rejected escalating this {subject} to \"{mode}\"")
                    }
                    Outcome::Cancelled => {
                        format!("approval for escalating to \"{mode}\" was cancelled")
                    }
                    Outcome::Unavailable => format!(
                        "sandbox escalation to \"{mode}\" requires approval, but no approval channel is available"
                    ),
                })
            }
            Reason::MissingConfiner { mode, why } => match outcome {
                Outcome::AllowedOnce | Outcome::Rejected => {
                    ToolError::new("the user rejected running this command without confinement")
                }
                Outcome::Cancelled => ToolError::new(
                    "approval for running this command without confinement was cancelled",
                ),
                Outcome::Unavailable => unavailable(*mode, why),
            },
            Reason::Rule { .. } => ToolError::new(refusal(call.tool, outcome).unwrap_or_default()),
        }
    }
}

fn refuse(error: ToolError) -> Judgement {
    Judgement::Refuse(ToolOutcome::from(error))
}

/// Adds the two arguments of P-18 to a schema.
pub(crate) fn escalatable(parameters: &mut Value, subject: Subject) {
    let Some(properties) = parameters.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    let subject = subject.as_str();
    let modes = [Mode::WorkspaceWrite.as_str(), Mode::DangerFullAccess.as_str()];
    let target = json!({
        "type": "string",
        "enum": modes,
        "description": format!(
            "Only after a sandbox denial of the same {subject}: the narrowest wider mode that suffices. A person is \
             asked."
        )
    });
    let justification = json!({
        "type": "string",
        "description": "With sandbox_permissions: one sentence for the person who is asked."
    });
    properties.insert("sandbox_permissions".to_owned(), target);
    properties.insert("justification".to_owned(), justification);
}

/// What the description of `bash` adds where it is confined (P-18).
pub(crate) const ESCALATION_GUIDE: &str = " Commands are confined: just run what is needed, and see whether it is \
    denied. After a denial, repeat the very same command once, in the same turn, with sandbox_permissions set to the \
    narrowest mode that suffices and with one sentence as justification; the user is asked by that, so do not ask in \
    the conversation first. Where approvals are never given, do not try. A rejection is final for that command.";
