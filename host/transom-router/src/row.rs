//! Bodies of answers that doors and people read: rows of sessions, routes, baselines (`frames.md`).

use serde::Serialize;
use serde_json::Value;
use transom_harness::{
    header::Origin,
    ports::{Route, Served, StoredSession},
};

use crate::sessions::Session;

/// `origin` of a session that another has delegated (L-67).
const SUBAGENT: &str = "subagent";

/// One session in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) session_id: String,
    pub(crate) created_at: u64,
    pub(crate) updated_at: u64,
    /// Looked up for those rows that are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    live: bool,
    running: bool,
    blank: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

/// One session in the baseline of a subscription: shown items only (decision 1h).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Baseline {
    session_id: String,
    last_seq: i64,
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
}

/// A session that is new to its watchers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Added<'a> {
    pub(crate) last_seq: i64,
    pub(crate) blank: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<Origin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent_preset: Option<&'a str>,
}

/// Answer to `models/check`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Checked {
    route: Route,
    images: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_window: Option<u64>,
}

/// Answer to `session/list`.
#[derive(Debug, Serialize)]
pub(crate) struct Listing {
    pub(crate) items: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<String>,
}

impl Row {
    /// Whether nobody has delegated it; a fork is its own root.
    pub(crate) fn is_root(&self) -> bool {
        self.origin.as_deref() != Some(SUBAGENT)
    }

    pub(crate) fn live(session: &Session) -> Row {
        let header = session.agent.header();
        Row {
            session_id: header.id.to_string(),
            created_at: header.created_at,
            updated_at: session.agent.log().last_time(),
            title: None,
            live: true,
            running: session.running,
            blank: session.agent.log().last_turn() == 0,
            cwd: header.cwd.clone(),
            parent_session_id: header.parent_session.as_ref().map(ToString::to_string),
            origin: header.origin.map(|Origin::Subagent| SUBAGENT.to_owned()),
        }
    }

    pub(crate) fn stored(stored: &StoredSession) -> Row {
        let header: Value = serde_json::from_str(&stored.header).unwrap_or_default();
        let text = |member: &str| header.get(member).and_then(Value::as_str).map(str::to_owned);
        Row {
            session_id: stored.id.to_string(),
            created_at: header.get("createdAt").and_then(Value::as_u64).unwrap_or_default(),
            updated_at: stored.updated_at,
            title: None,
            live: false,
            running: false,
            blank: stored.events == 0,
            cwd: text("cwd"),
            parent_session_id: text("parentSession"),
            origin: text("origin"),
        }
    }
}

impl Baseline {
    pub(crate) fn of(session: &Session) -> Baseline {
        let header = session.agent.header();
        Baseline {
            session_id: header.id.to_string(),
            last_seq: last_seq(session.released),
            running: session.running,
            parent_session_id: header.parent_session.as_ref().map(ToString::to_string),
            origin: header.origin,
            cwd: header.cwd.clone(),
        }
    }
}

impl From<Served> for Checked {
    fn from(served: Served) -> Checked {
        let Served {
            provider, model, max_tokens, reasoning_effort, images, context_window, ..
        } = served;
        Checked {
            route: Route {
                provider: Some(provider),
                model: Some(model),
                max_tokens,
                reasoning_effort,
            },
            images,
            context_window,
        }
    }
}

/// `seq` of the last of `events` events; −1 when there is none.
pub(crate) fn last_seq(events: u64) -> i64 {
    i64::try_from(events).unwrap_or(i64::MAX) - 1
}

/// JSON text of a body of ours; string keys and finite numbers, so it cannot fail.
pub(crate) fn text<T: Serialize>(body: &T) -> String {
    serde_json::to_string(body).unwrap_or_else(|_| "{}".to_owned())
}
