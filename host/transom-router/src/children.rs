//! Children that outlive their task (L-72, P-80): what they and those above them want of one another, and what a
//! parent is told once a child has come to rest. How one comes back from the store is `revivals.rs`; how it is made,
//! `delegations.rs`.

use transom_frame::{Code, Failure, SessionId};
use transom_harness::{
    agent::{Agent, Delivery, InboxFate, Status},
    block::Block,
    event::Cause,
    message::{Form, Source},
    subagents::{ChildCode, ChildOrder, ChildRefused, ChildState, Listed, Obeyed, settled},
};

use crate::{
    Effect, OrderId,
    delegations::{Finished, stop_reason},
    router::Router,
    sessions::{Session, Stage, Work},
};

/// What an order comes to, where that is known.
pub(crate) type Answer = Result<Obeyed, ChildRefused>;

impl Router {
    /// Carries out what a session wants of one that it is related to.
    pub(crate) fn order(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        order: OrderId,
        session: &SessionId,
        wanted: ChildOrder,
    ) {
        let result = match (self.may_order(session), wanted) {
            (Err(refused), _) => Err(refused),
            (Ok(()), ChildOrder::Message { child, text }) => {
                match self.address(session, &child) {
                    Err(refused) => Err(refused),
                    Ok(Place::Live) => self.give_turn(out, now, session, &child, text),
                    // It answers once the child is back.
                    Ok(Place::Stored) => return self.revive(out, now, session, child, order, text),
                }
            }
            (Ok(()), ChildOrder::Interrupt { agent }) => self.interrupt(out, now, session, &agent),
            (Ok(()), ChildOrder::Report { text }) => self.report(out, now, session, text),
            (Ok(()), ChildOrder::List) => Ok(Obeyed::Listed(self.children_of(session))),
        };
        out.push(Effect::Ordered { order, result });
    }

    pub(crate) fn may_order(&self, session: &SessionId) -> Result<(), ChildRefused> {
        match self.sessions.get(session) {
            Some(caller) if caller.stage == Stage::Live && self.ending.is_none() => Ok(()),
            Some(_) | None => ChildCode::Draining
                .refuse(format!("session \"{session}\" is going away, and all that work for it")),
        }
    }

    /// Where a child is that the caller may write to: only its exact parent may.
    fn address(&self, caller: &SessionId, child: &SessionId) -> Result<Place, ChildRefused> {
        let kept = self.keeps(caller, child);
        match self.sessions.get(child) {
            Some(live) if live.parent() == Some(caller) => {
                if live.stage != Stage::Live {
                    return ChildCode::ActivationClosing
                        .refuse(format!("subagent {child} is just leaving; try again"));
                }
                match kept {
                    true => Ok(Place::Live),
                    false => ChildCode::NotResumable.refuse(format!(
                        "subagent {child} works on one task and takes no further messages"
                    )),
                }
            }
            Some(_) if kept => ChildCode::NotResumable
                .refuse(format!("subagent {child} is open as a session of its own")),
            None if kept => Ok(Place::Stored),
            Some(_) | None => ChildCode::Unauthorized
                .refuse(format!("session \"{caller}\" is not the parent of a subagent {child}")),
        }
    }

    /// Whether the log of a session says that it has such a child.
    fn keeps(&self, parent: &SessionId, child: &SessionId) -> bool {
        let children = self.sessions.get(parent).map(|parent| parent.agent.log().children());
        children.is_some_and(|children| children.iter().any(|kept| kept.child == *child))
    }

    /// Queues the next turn of a live child.
    pub(crate) fn give_turn(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        parent: &SessionId,
        child: &SessionId,
        text: String,
    ) -> Answer {
        let source = Source::Coordinator {
            form: Form::Relay,
            sender_session_id: parent.as_str().to_owned(),
        };
        self.relay(out, now, child, vec![Block::text(text)], source, Delivery::Followup)
    }

    /// Ends the turn of a session below the caller; what waits there stays.
    fn interrupt(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        caller: &SessionId,
        agent: &SessionId,
    ) -> Answer {
        let Some(live) = self.sessions.get(agent) else {
            // What rests in the store has no turn to end.
            return match self.keeps(caller, agent) {
                true => Ok(Obeyed::Done),
                false => not_above(caller, agent),
            };
        };
        if agent == caller || !live.line.contains(caller) {
            return not_above(caller, agent);
        }
        if live.stage != Stage::Live {
            return ChildCode::ActivationClosing
                .refuse(format!("subagent {agent} is just leaving"));
        }
        self.with_agent(out, now, agent, |agent, effects| {
            agent.cancel(effects, now, Cause::Parent, InboxFate::Keep);
        });
        Ok(Obeyed::Done)
    }

    /// A child tells its parent something in words of its own.
    fn report(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        child: &SessionId,
        text: String,
    ) -> Answer {
        let nobody = || {
            let text = format!("nobody live has delegated to session \"{child}\"");
            ChildCode::ParentUnavailable.refuse(text)
        };
        let Some(session) = self.sessions.get(child) else { return nobody() };
        if !session.agent.is_continuable() {
            let text = "only a subagent that takes further messages can report";
            return ChildCode::Unauthorized.refuse(text);
        }
        let parent = session.parent().cloned();
        let live = parent.and_then(|parent| self.sessions.get(&parent));
        let Some(parent) = live.filter(|parent| parent.agent.takes_messages()) else {
            return nobody();
        };
        let (parent, delivery) = (parent.agent.id().clone(), delivery(&parent.agent));
        let source = Source::SubagentReport {
            form: Form::Relay,
            sender_session_id: child.as_str().to_owned(),
        };
        self.relay(out, now, &parent, vec![Block::text(text)], source, delivery)
    }

    fn relay(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        to: &SessionId,
        content: Vec<Block>,
        source: Source,
        delivery: Delivery,
    ) -> Answer {
        let told = self.with_agent(out, now, to, |agent, effects| {
            agent.prompt(effects, now, content, source, delivery)
        });
        match told {
            Some(Ok(_)) => Ok(Obeyed::Done),
            Some(Err(failure)) => Err(refused(failure)),
            None => ChildCode::ActivationClosing.refuse(format!("session \"{to}\" is not live")),
        }
    }

    fn children_of(&self, parent: &SessionId) -> Vec<Listed> {
        let Some(session) = self.sessions.get(parent) else { return Vec::new() };
        let listed = session.agent.log().children().iter().map(|kept| {
            let live = self.sessions.get(&kept.child);
            let live = live.filter(|live| live.parent() == Some(parent));
            let waiting = live.map_or(0, |live| live.agent.waiting());
            let state = match live {
                Some(live) if live.agent.status() == Status::Running => ChildState::Running,
                Some(_) => ChildState::Idle,
                None => ChildState::Stored,
            };
            Listed { child: kept.child.clone(), label: kept.label.clone(), state, waiting }
        });
        listed.collect()
    }

    /// Makes room for one more child of a session. One that rests goes to the store, from where a message brings it
    /// back; what works stays, and then there is no room.
    pub(crate) fn make_room(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        parent: &SessionId,
    ) -> Result<(), String> {
        let most = self.config.subagents_live_max;
        let Some(session) = self.sessions.get(parent) else { return Ok(()) };
        let children = session.children.iter().filter_map(|child| self.sessions.get(child));
        let live: Vec<&Session> = children.filter(|child| child.stage == Stage::Live).collect();
        let coming = self.unborn_of(parent) + self.reviving_for(parent);
        if live.len() + coming < most {
            return Ok(());
        }
        let resting = live.iter().filter(|child| {
            matches!(child.work, Work::Kept { settled: true })
                && child.children.is_empty()
                && child.agent.status() == Status::Idle
                && !child.agent.has_running_jobs()
        });
        // One that nothing waits for goes first.
        let resting = resting.min_by_key(|child| !child.agent.inbox().is_empty());
        match resting.map(|child| child.agent.id().clone()) {
            Some(child) => {
                if let Some(session) = self.sessions.get_mut(&child) {
                    session.agent.keep_inbox();
                }
                self.dispose(out, now, &[child]);
                Ok(())
            }
            None => Err(format!(
                "this session has its maximum of live subagents ({most}); wait until one has finished, then retry"
            )),
        }
    }

    /// If a child that lives on has come to rest, its parent is told (P-80). A parent that is going away is told once
    /// the child has left.
    pub(crate) fn child_rests(&mut self, out: &mut Vec<Effect>, now: u64, child: &SessionId) {
        let pending = self.awaits_children(child);
        let Some(session) = self.sessions.get_mut(child) else { return };
        let Work::Kept { settled } = &mut session.work else { return };
        if session.agent.status() == Status::Running {
            *settled = false;
            return;
        }
        if *settled || !session.agent.is_at_rest() || (pending && !session.agent.has_failed()) {
            return;
        }
        let parent = session.parent().cloned();
        let is_live = |parent: &Session| parent.stage == Stage::Live;
        if !parent.is_some_and(|parent| self.sessions.get(&parent).is_some_and(is_live)) {
            return;
        }
        if let Some(session) = self.sessions.get_mut(child) {
            session.work = Work::Kept { settled: true };
        }
        self.settle(out, now, child);
    }

    /// Whether a session waits for work that it has handed on.
    fn awaits_children(&self, id: &SessionId) -> bool {
        let works = |work: &Work| matches!(work, Work::UnderWay(_) | Work::Kept { settled: false });
        self.has_child(id, works)
    }

    /// The same of children that live on, which no call and no job waits for.
    pub(crate) fn awaits_kept_children(&self, id: &SessionId) -> bool {
        self.has_child(id, |work| matches!(work, Work::Kept { settled: false }))
    }

    fn has_child(&self, id: &SessionId, is_one: impl Fn(&Work) -> bool) -> bool {
        let children = self.sessions.get(id).map(|session| session.children.iter());
        let mut live = children.into_iter().flatten().filter_map(|child| self.sessions.get(child));
        live.any(|child| is_one(&child.work))
    }

    /// Tells the parent how a live child has come to rest, and everybody that the run is over (S-78).
    fn settle(&mut self, out: &mut Vec<Effect>, now: u64, child: &SessionId) {
        let Some(session) = self.sessions.get(child) else { return };
        let Some(parent) = session.parent().cloned() else { return };
        let last = LastWords::of(&session.agent);
        self.pass_on(out, now, &parent, last);
    }

    /// The same of a child that leaves before it has come to rest. Its parent still counts it.
    pub(crate) fn settle_leaving(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        parent: &SessionId,
        agent: &Agent,
    ) {
        self.pass_on(out, now, parent, LastWords::of(agent));
    }

    fn pass_on(&mut self, out: &mut Vec<Effect>, now: u64, parent: &SessionId, last: LastWords) {
        let LastWords { child, label, provider, stop_reason, output, waiting } = last;
        let (source, content) = settled(&child, &label, stop_reason, &output, waiting);
        let is_live = |live: &Session| live.stage == Stage::Live;
        let stays = self.sessions.get(parent).is_some_and(is_live);
        self.with_agent(out, now, parent, |agent, effects| {
            if stays {
                let delivery = delivery(agent);
                // An inbox that is full has said so already; the end stands in the child's log.
                let _ = agent.prompt(effects, now, content, source, delivery);
            } else {
                agent.leave_word(effects, now, content, source);
            }
        });
        self.finished(out, parent, &Finished::of(&child, &provider, stop_reason, &output));
    }
}

/// Where a child is.
enum Place {
    Live,
    Stored,
}

/// What there is to say of a child that has come to rest.
struct LastWords {
    child: SessionId,
    label: String,
    provider: String,
    stop_reason: &'static str,
    output: Vec<Block>,
    /// Messages that it has not begun with.
    waiting: usize,
}

impl LastWords {
    fn of(agent: &Agent) -> LastWords {
        let descriptor = agent.descriptor();
        let label = descriptor.and_then(|descriptor| descriptor.label.clone());
        LastWords {
            child: agent.id().clone(),
            label: label.unwrap_or_else(|| "subagent".to_owned()),
            provider: descriptor.map(|it| it.provider.clone()).unwrap_or_default(),
            stop_reason: match agent.broken() {
                Some(_) => "error",
                None => stop_reason(agent.last_end()),
            },
            output: agent.output(),
            waiting: agent.waiting(),
        }
    }
}

/// Into the turn that runs, or as a turn of its own (P-80).
fn delivery(agent: &Agent) -> Delivery {
    match agent.status() {
        Status::Running => Delivery::Steer,
        Status::Idle => Delivery::Followup,
    }
}

fn not_above(caller: &SessionId, agent: &SessionId) -> Answer {
    ChildCode::Unauthorized
        .refuse(format!("agent {agent} does not work below session \"{caller}\""))
}

/// Why a session did not take a message.
fn refused(failure: Failure) -> ChildRefused {
    let code = match failure.code {
        Code::StoreFailed => ChildCode::PersistenceUnavailable,
        Code::Overloaded => ChildCode::Overloaded,
        _ => ChildCode::ActivationClosing,
    };
    ChildRefused { code, message: failure.message }
}
