//! Work that one session hands to another of this host (L-66 to L-70): the child is made, given its
//! task, waited for, and disposed; its parent's call learns of each.

use std::sync::Arc;

use serde_json::json;
use transom_frame::{Frame, SessionId};
use transom_harness::{
    agent::{Agent, Delivery, Descriptor, InboxFate, Status},
    block::Block,
    chance::Chance,
    event::{Cause, TurnEnd},
    header::{Header, Origin},
    message::Source,
    ports::{Delegation, DelegationEvent, StoreError},
};

use crate::{
    Claimed, Effect, Question, RunId, answers::Pending, request::Topic, router::Router,
    sessions::Session,
};

/// The name under which this host's own sessions take work (`spawn` in the recordings).
const PROVIDER: &str = "spawn";

/// A delegation under way.
#[derive(Debug)]
pub(crate) struct Run {
    delegation: Delegation,
    child: SessionId,
    /// The child is published; before that there is nothing to stop.
    live: bool,
    /// Nobody wants it any more.
    stopped: bool,
}

impl Router {
    /// Starts a run, or says why it cannot be (L-67).
    pub(crate) fn delegate(&mut self, out: &mut Vec<Effect>, run: RunId, delegation: Delegation) {
        match self.may_delegate(&delegation) {
            Err(text) => {
                out.push(Effect::Delegated { run, event: DelegationEvent::Refused(text) });
            }
            Ok(()) => {
                let child: SessionId = self.chance.uuid().into();
                let begun = Run { delegation, child: child.clone(), live: false, stopped: false };
                self.runs.insert(run, begun);
                self.ask(out, Question::Claim(child), Pending::Delegate(run));
            }
        }
    }

    fn may_delegate(&self, delegation: &Delegation) -> Result<(), String> {
        let Some(parent) = self.sessions.get(&delegation.parent) else {
            return Err(format!("session \"{}\" is not live", delegation.parent));
        };
        let depth = parent.agent.header().delegation_depth + 1;
        let most = self.config.subagent_depth_max;
        if depth > most {
            return Err(format!("subagent depth {depth} exceeds maxDepth {most}"));
        }
        if parent.ended || self.ending.is_some() {
            return Err("the session is going away".to_owned());
        }
        if self.sessions.len() >= self.host.sessions_max {
            let most = self.host.sessions_max;
            return Err(format!("the host has {most} sessions, the most it may have"));
        }
        Ok(())
    }

    /// The child's id is this process's own: it is born, published, and given its task.
    pub(crate) fn delegation_claimed(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        run: RunId,
        claimed: Result<Claimed, StoreError>,
    ) {
        let Some(begun) = self.runs.get(&run) else { return };
        let child = begun.child.clone();
        let refused = match claimed {
            Err(error) => Some(error.to_string()),
            Ok(Claimed::Here(None)) if begun.stopped => {
                let event = DelegationEvent::Ended {
                    stop_reason: "aborted".to_owned(),
                    output: Vec::new(),
                };
                self.runs.remove(&run);
                out.push(Effect::Release { session: child });
                return out.push(Effect::Delegated { run, event });
            }
            Ok(Claimed::Here(None)) => self.may_delegate(&begun.delegation).err(),
            Ok(Claimed::Here(Some(_)) | Claimed::Elsewhere) => {
                Some(format!("session \"{child}\" already exists"))
            }
        };
        if let Some(text) = refused {
            self.runs.remove(&run);
            out.push(Effect::Release { session: child });
            return out.push(Effect::Delegated { run, event: DelegationEvent::Refused(text) });
        }
        self.bear(out, now, run);
    }

    fn bear(&mut self, out: &mut Vec<Effect>, now: u64, run: RunId) {
        let Some(begun) = self.runs.get_mut(&run) else { return };
        begun.live = true;
        let (child, delegation) = (begun.child.clone(), begun.delegation.clone());
        let chance = Chance::new(self.chance.split());
        let Some(parent) = self.sessions.get(&delegation.parent) else { return };
        let header = Header {
            id: child.clone(),
            created_at: now,
            cwd: parent.agent.cwd().map(str::to_owned),
            parent_session: Some(delegation.parent.clone()),
            seed_length: None,
            origin: Some(Origin::Subagent),
            delegation_depth: parent.agent.header().delegation_depth + 1,
            agent_preset: None,
        };
        let route = parent.agent.route().clone();
        let (owner, root, door) = (parent.owner, parent.root.clone(), Arc::clone(&parent.door));
        let mut agent = Agent::new(header, route, Arc::clone(&self.config), chance);
        let label = Some(delegation.description).filter(|label| !label.is_empty());
        let descriptor = Descriptor { provider: PROVIDER.to_owned(), label };
        let mut born = agent.delegated(now, descriptor, delegation.access.logged_mode);
        born.extend(agent.pin(now));
        self.lives += 1;
        let session = Session::new(agent, owner, root, self.lives, door, Some(run));
        self.publish(out, session, born);
        out.push(Effect::Delegated {
            run,
            event: DelegationEvent::Started { child: child.clone() },
        });
        let content = vec![Block::text(delegation.prompt)];
        let sent = self.with_agent(out, now, &child, |agent, effects| {
            agent.prompt(effects, now, content, Source::user(), Delivery::Followup)
        });
        if !matches!(sent, Some(Ok(_))) {
            self.run_rests(out, now, &child);
        }
    }

    /// Nobody wants a run any more (L-70).
    pub(crate) fn stop_delegation(&mut self, out: &mut Vec<Effect>, now: u64, run: RunId) {
        let Some(begun) = self.runs.get_mut(&run) else { return };
        begun.stopped = true;
        if begun.live {
            let child = begun.child.clone();
            self.with_agent(out, now, &child, |agent, effects| {
                agent.cancel(effects, now, Cause::Parent, InboxFate::Clear);
            });
        }
    }

    /// A session has come to rest: if it worked for another, its run is over.
    pub(crate) fn run_rests(&mut self, out: &mut Vec<Effect>, now: u64, child: &SessionId) {
        let Some(session) = self.sessions.get_mut(child) else { return };
        if session.agent.status() != Status::Idle {
            return;
        }
        let Some(run) = session.run.take() else { return };
        let Some(Run { delegation, .. }) = self.runs.remove(&run) else { return };
        let Some(session) = self.sessions.get(child) else { return };
        let stop_reason = stop_reason(session.agent.last_end());
        let output = session.agent.output();
        let mut body = json!({
            "runId": self.chance.uuid(),
            "provider": PROVIDER,
            "agentId": child.as_str(),
            "childSessionId": child.as_str(),
            "local": true,
            "stopReason": stop_reason,
        });
        if !output.is_empty() {
            body["lastAssistantMessage"] = json!(output);
        }
        let parent = delegation.parent;
        let frame = Frame::notice("subagent/finished", Some(parent.clone()), body.to_string());
        // In the tree's own order: behind the child's idle, before the result of its parent's call (L-68).
        self.notice(out, &parent, Topic::Subagents, frame);
        let event = DelegationEvent::Ended { stop_reason: stop_reason.to_owned(), output };
        out.push(Effect::Delegated { run, event });
        self.dispose(out, now, std::slice::from_ref(child));
    }
}

/// How a run ended, from its last turn (L-66).
fn stop_reason(end: Option<&TurnEnd>) -> &'static str {
    match end {
        Some(TurnEnd::Completed) => "completed",
        Some(TurnEnd::MaxTokens) => "max-tokens",
        Some(TurnEnd::Aborted { .. }) => "aborted",
        Some(TurnEnd::Blocked) => "refusal",
        Some(TurnEnd::Error { .. } | TurnEnd::Interrupted) | None => "error",
    }
}
