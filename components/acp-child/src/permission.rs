//! The agent asks whether it may do something. Nobody sees such a question: the operator has answered all of them in the
//! manifest (A-161).

use std::borrow::Cow;

use transom_guest::{
    json::{Reader, push_text},
    jsonrpc::string,
};

use crate::message::members;

/// What the operator says to every question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    Reject,
    Allow,
}

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    AllowedOnce,
    AllowedAlways,
    Rejected,
    /// Nothing that was offered says what the operator says, or nobody waits for the prompt any more.
    Cancelled,
}

impl Permission {
    /// The word of `agent/prompt`. What is no such word allows nothing.
    pub(crate) fn parse(word: Option<&str>) -> Permission {
        match word {
            Some("allow") => Permission::Allow,
            Some(_) | None => Permission::Reject,
        }
    }
}

impl Decision {
    /// For the diagnostic line (A-165).
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Decision::AllowedOnce => "allowed once",
            Decision::AllowedAlways => "allowed always",
            Decision::Rejected => "rejected",
            Decision::Cancelled => "cancelled",
        }
    }
}

/// Chooses among the options of a question; a grant for once goes before one that lasts. Gives the decision, and the
/// result that says so.
pub(crate) fn decide(permission: Permission, params: Option<&str>) -> (Decision, String) {
    let wanted = match permission {
        Permission::Allow => {
            [("allow_once", Decision::AllowedOnce), ("allow_always", Decision::AllowedAlways)]
        }
        Permission::Reject => {
            [("reject_once", Decision::Rejected), ("reject_always", Decision::Rejected)]
        }
    };
    for (kind, decision) in wanted {
        if let Some(option) = first(params, kind) {
            let mut result = String::from(r#"{"outcome":{"outcome":"selected","optionId":"#);
            push_text(&mut result, &option);
            result.push_str("}}");
            return (decision, result);
        }
    }
    (Decision::Cancelled, cancelled())
}

/// The result where nothing is chosen.
pub(crate) fn cancelled() -> String {
    r#"{"outcome":{"outcome":"cancelled"}}"#.to_owned()
}

/// The first option of a kind.
fn first<'a>(params: Option<&'a str>, kind: &str) -> Option<Cow<'a, str>> {
    let [options] = members(params?, ["options"])?;
    let mut found = None;
    Reader::new(options?).array(|reader| {
        let option = reader.value()?;
        let [id, offered] = members(option, ["optionId", "kind"]).unwrap_or_default();
        if found.is_none() && string(offered).as_deref() == Some(kind) {
            found = string(id);
        }
        Some(())
    });
    found
}
