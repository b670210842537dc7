//! Work that one session hands to another of this host (L-66 to L-70): the child is made, given its
//! task, waited for, and disposed; its parent's call learns of each.

use std::sync::Arc;

use serde::Serialize;
use transom_frame::{Frame, SessionId};
use transom_harness::{
    agent::{Agent, Cap, Delivery, InboxFate, Status},
    block::Block,
    chance::Chance,
    event::{Cause, Event, SubagentMode, TurnEnd},
    header::{Header, Origin},
    message::Source,
    ports::{Delegation, DelegationEvent, Route, StoreError},
    subagents::{Descriptor, Nature, ToolFilter},
};

use crate::{
    Claimed, Effect, Question, RunId,
    answers::Pending,
    request::Topic,
    router::Router,
    row,
    sessions::{Session, Stage, Work},
};

/// The name under which this host's own sessions take work (`spawn` in the recordings).
const PROVIDER: &str = "spawn";

/// A delegation whose child has not come to rest yet.
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
    pub(crate) fn delegate(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        run: RunId,
        delegation: Delegation,
    ) {
        let may = self.may_delegate(&delegation).map(|_| ());
        match may.and_then(|()| self.make_room(out, now, &delegation.parent)) {
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

    /// How many children of a session are not published yet.
    pub(crate) fn unborn_of(&self, parent: &SessionId) -> usize {
        let unborn = |run: &&Run| !run.live && run.delegation.parent == *parent;
        self.runs.values().filter(unborn).count()
    }

    /// The session that delegates, if it may.
    fn may_delegate(&self, delegation: &Delegation) -> Result<&Session, String> {
        let Some(parent) = self.sessions.get(&delegation.parent) else {
            return Err(format!("session \"{}\" is not live", delegation.parent));
        };
        let depth = parent.agent.header().delegation_depth + 1;
        let most = self.config.subagent_depth_max;
        let most = delegation.nature.depth_max.unwrap_or(most).min(most);
        if depth > most {
            return Err(format!("subagent depth {depth} exceeds maxDepth {most}"));
        }
        if let Some(why) = parent.agent.broken() {
            return Err(why.to_owned());
        }
        if parent.stage != Stage::Live || self.ending.is_some() {
            return Err("the session is going away".to_owned());
        }
        match self.host_is_full() {
            Some(full) => Err(full.message),
            None => Ok(parent),
        }
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
        let born = match claimed {
            Err(error) => Err(DelegationEvent::Refused(error.to_string())),
            Ok(Claimed::Here(None)) if begun.stopped => Err(DelegationEvent::Ended {
                stop_reason: "aborted".to_owned(),
                output: Vec::new(),
                diagnostic: None,
            }),
            Ok(Claimed::Here(None)) => {
                let delegation = begun.delegation.clone();
                self.bear(now, run, &child, &delegation).map_err(DelegationEvent::Refused)
            }
            Ok(Claimed::Here(Some(_)) | Claimed::Elsewhere) => {
                Err(DelegationEvent::Refused(format!("session \"{child}\" already exists")))
            }
        };
        let (session, stored) = match born {
            Ok(born) => born,
            Err(event) => {
                self.runs.remove(&run);
                out.push(Effect::Release { session: child });
                return out.push(Effect::Delegated { run, event });
            }
        };
        let Some(begun) = self.runs.get_mut(&run) else { return };
        begun.live = true;
        let content = vec![Block::text(begun.delegation.prompt.clone())];
        let kept = begun.delegation.nature.continuable.then(|| begun.delegation.clone());
        if kept.is_some() {
            self.runs.remove(&run);
        }
        self.publish(out, session, stored);
        let event = DelegationEvent::Started { child: child.clone() };
        out.push(Effect::Delegated { run, event });
        // If it takes no task, it rests at once, and so does the run.
        self.with_agent(out, now, &child, |agent, effects| {
            agent.prompt(effects, now, content, Source::user(), Delivery::Followup)
        });
        if let Some(Delegation { parent, description, .. }) = kept {
            self.promise(out, now, &parent, &child, &description);
            out.push(Effect::Delegated { run, event: DelegationEvent::Kept });
        }
    }

    /// The log of a parent says that it has a child that lives on, behind what the child's own log says of that: a crash
    /// between the two leaves no child that its parent knows and nobody can go on with.
    fn promise(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        parent: &SessionId,
        child: &SessionId,
        label: &str,
    ) {
        let live = self.sessions.get(child);
        if live.is_some_and(|live| live.agent.log().descriptor().is_some()) {
            self.with_agent(out, now, parent, |agent, effects| {
                agent.catalogue(effects, now, child, now, label);
            });
        }
    }

    fn bear(
        &mut self,
        now: u64,
        run: RunId,
        child: &SessionId,
        delegation: &Delegation,
    ) -> Result<(Session, Vec<Event>), String> {
        let chance = Chance::new(self.chance.split());
        self.lives += 1;
        let parent = self.may_delegate(delegation)?;
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
        let nature = &delegation.nature;
        let route = routed(parent.agent.route(), &nature.route);
        let mut agent = Agent::new(header, route, Arc::clone(&self.config), chance);
        // The parent's own, not what its commands may have put in that place since (P-5).
        agent.pin_root(parent.agent.root().map(str::to_owned));
        agent.expect_output(nature.output_schema.clone());
        let above = parent.toolset.filters.clone();
        let descriptor = descriptor(&delegation.description, nature, above);
        let mut born = agent.delegated(now, descriptor, delegation.access.logged_mode);
        // It may have been switched since the call that delegates was begun.
        born.extend(agent.capped(now, parent.agent.access().mode, Cap::Delegation));
        born.extend(agent.pin(now));
        let (owner, door) = (parent.owner, Arc::clone(&parent.door));
        let work = match nature.continuable {
            true => Work::Kept { settled: false },
            false => Work::UnderWay(run),
        };
        Ok((Session::new(agent, owner, Some(parent), self.lives, door, work), born))
    }

    /// Nobody wants a run any more (L-70).
    pub(crate) fn stop_delegation(&mut self, out: &mut Vec<Effect>, now: u64, run: RunId) {
        let Some(begun) = self.runs.get_mut(&run) else { return };
        begun.stopped = true;
        if begun.live {
            let child = begun.child.clone();
            let others = self.withdraw_prompts(out, &child);
            self.with_agent(out, now, &child, |agent, effects| {
                agent.cancel(effects, now, Cause::Parent, InboxFate::Clear);
            });
            self.resume_waiting(out, now, others);
        }
    }

    /// If a session has come to rest that worked for another, its run is over. The call that waits for it is told once
    /// the session has left (P-64). Children of its own that live on belong to its task: while one of them works, it will
    /// hear of that, and so its last words are still to come.
    pub(crate) fn run_rests(&mut self, out: &mut Vec<Effect>, now: u64, child: &SessionId) {
        let awaits = self.awaits_kept_children(child);
        let Some(session) = self.sessions.get_mut(child) else { return };
        let Work::UnderWay(run) = session.work else { return };
        if session.agent.status() != Status::Idle {
            return;
        }
        let stop_reason = match self.runs.get(&run).is_some_and(|run| run.stopped) {
            true => "aborted",
            false if awaits && has_gone_well(&session.agent) => match session.stage {
                Stage::Live => return,
                Stage::Leaving | Stage::Ended | Stage::Last => "aborted",
            },
            false => stop_reason(session.agent.last_end()),
        };
        let output = session.agent.output();
        let ended = DelegationEvent::Ended {
            stop_reason: stop_reason.to_owned(),
            output: output.clone(),
            diagnostic: None,
        };
        session.work = Work::Done(run, ended);
        self.runs.remove(&run);
        if let Some(parent) = session.parent().cloned() {
            self.finished(out, &parent, &Finished::of(child, PROVIDER, stop_reason, &output));
        }
        self.dispose(out, now, std::slice::from_ref(child));
    }

    /// Says that a run is over, in the tree's own order: behind the child's idle, before the result of its parent's
    /// call (L-68).
    pub(crate) fn finished(
        &mut self,
        out: &mut Vec<Effect>,
        parent: &SessionId,
        finished: &Finished<'_>,
    ) {
        let body = row::text(&Body { run_id: self.chance.uuid(), finished });
        let frame = Frame::notice("subagent/finished", Some(parent.clone()), body);
        self.notice(out, parent, Topic::Subagents, frame);
    }
}

/// Whether a session that rests has come to that by itself.
fn has_gone_well(agent: &Agent) -> bool {
    let by_itself = matches!(agent.last_end(), Some(TurnEnd::Completed | TurnEnd::MaxTokens));
    by_itself && agent.broken().is_none()
}

/// The parent's route with what the child is to have instead. A model's name means something at its own provider
/// only.
pub(crate) fn routed(parent: &Route, wanted: &Route) -> Route {
    let mut route = parent.clone();
    if let Some(provider) = wanted.provider.clone().filter(|_| wanted.provider != parent.provider) {
        route =
            Route { provider: Some(provider), max_tokens: parent.max_tokens, ..Route::default() };
    }
    route.model = wanted.model.clone().or(route.model);
    route.max_tokens = wanted.max_tokens.or(route.max_tokens);
    route.reasoning_effort = wanted.reasoning_effort.clone().or(route.reasoning_effort);
    route
}

fn descriptor(label: &str, nature: &Nature, inherited_tool_filters: Vec<ToolFilter>) -> Descriptor {
    Descriptor {
        mode: match nature.continuable {
            true => SubagentMode::Continuable,
            false => SubagentMode::OneShot,
        },
        provider: PROVIDER.to_owned(),
        // One that can be written to is always told apart by its label.
        label: Some(label.to_owned()).filter(|label| nature.continuable || !label.is_empty()),
        agent_provider: nature.route.provider.clone(),
        agent_model: nature.route.model.clone(),
        persona: nature.persona.clone(),
        tool_filter: nature.tools.clone(),
        inherited_tool_filters,
    }
}

/// The body of `subagent/finished`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    run_id: String,
    #[serde(flatten)]
    finished: &'a Finished<'a>,
}

/// What it says of the run.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finished<'a> {
    provider: &'a str,
    agent_id: &'a str,
    child_session_id: &'a str,
    local: bool,
    stop_reason: &'a str,
    #[serde(skip_serializing_if = "<[Block]>::is_empty")]
    last_assistant_message: &'a [Block],
}

impl<'a> Finished<'a> {
    pub(crate) fn of(
        child: &'a SessionId,
        provider: &'a str,
        stop_reason: &'a str,
        output: &'a [Block],
    ) -> Finished<'a> {
        Finished {
            provider,
            agent_id: child.as_str(),
            child_session_id: child.as_str(),
            local: true,
            stop_reason,
            last_assistant_message: output,
        }
    }
}

/// How a run ended, from its last turn (L-66).
pub(crate) fn stop_reason(end: Option<&TurnEnd>) -> &'static str {
    match end {
        Some(TurnEnd::Completed) => "completed",
        Some(TurnEnd::MaxTokens) => "max-tokens",
        Some(TurnEnd::Aborted { .. }) => "aborted",
        Some(TurnEnd::Blocked) => "refusal",
        Some(TurnEnd::Error { .. } | TurnEnd::Interrupted) | None => "error",
    }
}
