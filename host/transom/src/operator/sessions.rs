//! What the operator asks live sessions, and tells them: frames at the loop, as any peer of the host sends them.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use transom_frame::{Frame, FrameKind, SessionId};
use transom_router::{Answers, Facts, Reach};

use super::HostOperator;

/// How long the loop may take to answer. It waits for nothing but its store.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Live sessions as they are now.
pub(super) struct Live {
    /// Their ids, and where each of them works if it was told.
    pub(super) sessions: Vec<(String, Option<PathBuf>)>,
    /// Those that have background jobs, with these (P-82): `[{sessionId, jobs}]`.
    pub(super) jobs: Value,
}

impl HostOperator {
    /// All live sessions that anybody was told of.
    pub(super) async fn sessions(&self) -> anyhow::Result<Live> {
        let wanted = json!({ "scope": "all", "topics": ["jobs", "sessions"] });
        let mut cut = self.ask("events/subscribe", None, &wanted).await?;
        let text = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
        let rows = cut.get("sessions").and_then(Value::as_array).into_iter().flatten();
        let sessions = rows
            .filter_map(|row| Some((text(row, "sessionId")?, text(row, "cwd").map(PathBuf::from))));
        let sessions = sessions.collect();
        let jobs = cut.get_mut("jobs").map(Value::take).unwrap_or_default();
        Ok(Live { sessions, jobs })
    }

    /// Shows what a session may do, or switches it to another preset.
    pub(super) async fn permissions(
        &self,
        session: &str,
        set: Option<String>,
    ) -> anyhow::Result<Value> {
        let body = match set {
            Some(preset) => json!({ "set": preset }),
            None => json!({}),
        };
        self.ask("session/permissions", Some(SessionId::from(session)), &body).await
    }

    /// Asks as a peer that is gone again with the answer.
    async fn ask(
        &self,
        frame: &str,
        session: Option<SessionId>,
        body: &Value,
    ) -> anyhow::Result<Value> {
        let mut peer = self.host.attach(Facts {
            door: "control".into(),
            reach: Reach::All,
            sees_stored: true,
            answers: Answers::Never,
            live_notices_max: 16,
            sessions_max: 0,
        });
        peer.send(Frame::request(frame, session, "1".into(), body.to_string()));
        let answer = tokio::time::timeout(ANSWER_WAIT, async {
            loop {
                let frame = peer.frames.recv().await?;
                peer.handled(1);
                if matches!(frame.kind, FrameKind::Reply | FrameKind::Failure) {
                    return Some(frame);
                }
            }
        });
        let answer = answer.await.context("the loop does not answer")?;
        peer.leave().await;
        let answer = answer.context("the host is about to end")?;
        let body: Value = serde_json::from_str(&answer.body)?;
        if answer.kind == FrameKind::Failure {
            bail!("{}", body.get("message").and_then(Value::as_str).unwrap_or("it is refused"));
        }
        Ok(body)
    }
}
