//! What is fixed about a session when it begins (L-4).

use serde::{Deserialize, Serialize};
use transom_frame::SessionId;

/// The first record of a session's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Names the session in every store and frame.
    pub id: SessionId,
    /// Epoch milliseconds.
    pub created_at: u64,
    /// Absolute.
    pub cwd: Option<String>,
    /// The session that this one was forked from or works for.
    pub parent_session: Option<SessionId>,
    /// How many events of the parent stand at the front of this log.
    pub seed_length: Option<u64>,
    /// Absent where no session delegated to this one.
    pub origin: Option<Origin>,
    /// 0 at top level.
    pub delegation_depth: u64,
    /// Name of the preset that the agent was made from.
    pub agent_preset: Option<String>,
}

#[cfg(test)]
impl Header {
    /// Of a session at top level, for tests.
    pub(crate) fn main() -> Header {
        Header {
            id: "main".into(),
            created_at: 1,
            cwd: Some("/w".to_owned()),
            parent_session: None,
            seed_length: None,
            origin: None,
            delegation_depth: 0,
            agent_preset: None,
        }
    }
}

/// Why a session has a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// `subagent`: the parent delegated work to it.
    Subagent,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    version: u32,
    id: &'a str,
    created_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    delegation_depth: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_preset: Option<&'a str>,
}

/// The log format that this version writes and reads.
pub const LOG_VERSION: u32 = 0;

/// The members of a stored header line.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    version: u32,
    id: String,
    created_at: u64,
    cwd: Option<String>,
    parent_session: Option<String>,
    seed_length: Option<u64>,
    origin: Option<Origin>,
    #[serde(default)]
    delegation_depth: u64,
    agent_preset: Option<String>,
}

impl Header {
    /// Reads the first line of a canonical log. The text of an error is that of L-78.
    pub fn parse(line: &str) -> Result<Header, String> {
        let stored: Stored = serde_json::from_str(line).map_err(|error| {
            format!("corrupt session log: first line is not a session header: {error}")
        })?;
        if stored.version != LOG_VERSION {
            return Err(format!(
                "session \"{}\" uses log format v{}, but this harness reads only v{LOG_VERSION}: it was written by \
                 another version",
                stored.id, stored.version
            ));
        }
        Ok(Header {
            id: stored.id.into(),
            created_at: stored.created_at,
            cwd: stored.cwd,
            parent_session: stored.parent_session.map(Into::into),
            seed_length: stored.seed_length,
            origin: stored.origin,
            delegation_depth: stored.delegation_depth,
            agent_preset: stored.agent_preset,
        })
    }

    /// The first line of the canonical log (L-76).
    pub fn to_json(&self) -> String {
        let line = Line {
            kind: "session",
            version: LOG_VERSION,
            id: self.id.as_str(),
            created_at: self.created_at,
            cwd: self.cwd.as_deref(),
            parent_session: self.parent_session.as_ref().map(SessionId::as_str),
            seed_length: self.seed_length,
            origin: self.origin,
            delegation_depth: self.delegation_depth,
            agent_preset: self.agent_preset.as_deref(),
        };
        crate::json(&line)
    }
}
