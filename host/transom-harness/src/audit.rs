//! Whether a session's log can be what this host, or the reference, has written: every invariant of
//! `agent-loop.md` sections 2 to 9 and of `permissions-and-jobs.md` that a log alone can show. The shape of
//! each event's data is `vocabulary.rs`'s; nothing here is needed to run a session.
//!
//! What a log cannot show is left out: which calls may overlap (L-57), whether a tool has concluded the turn
//! or the model should have seen its results (L-35), whether a header should have changed and did not (L-37),
//! what was live only, and everything about features whose rules are elsewhere (compaction, goals, hooks).

mod approvals;
mod attempt;
mod calls;
mod children;
mod envelope;
mod inboxes;
mod jobs;
mod request;
mod seed;
mod settings;
mod step;
mod summary;
mod surface;
mod turn;

use std::fmt;

pub use self::summary::{AuditedJob, Summary, SurfaceNode};

use self::{
    approvals::Approvals, children::Children, envelope::Envelope, inboxes::Inboxes, jobs::Jobs,
    request::Request, seed::Seed, settings::Settings, surface::Surface, turn::Turn,
};
use crate::{
    header::{Header, Origin},
    vocabulary::is_absolute,
};

/// What is wrong with a log, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The event that does not fit what stands before it; `None`: the header.
    pub seq: Option<u64>,
    /// The rule that says so, for example `L-49`.
    pub rule: &'static str,
    /// What was found, and what would be right.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seq {
            Some(seq) => write!(f, "seq {seq}: {} ({})", self.what, self.rule),
            None => write!(f, "header: {} ({})", self.what, self.rule),
        }
    }
}

impl std::error::Error for Finding {}

/// Checks a log that may end anywhere, and says what it folds to.
pub fn audit<'a>(
    header: &Header,
    events: impl IntoIterator<Item = &'a str>,
) -> Result<Summary, Finding> {
    let mut auditor = Auditor::new(header);
    for event in events {
        auditor.push(event)?;
    }
    auditor.finish()
}

/// Checks a log event by event. After a finding it gives the same one for ever.
#[derive(Debug)]
pub struct Auditor {
    seed: Seed,
    cwd: Option<String>,
    next_seq: u64,
    last_time: Option<u64>,
    turn: Option<Turn>,
    last_turn: u64,
    last_end: Option<String>,
    inboxes: Inboxes,
    surface: Surface,
    request: Request,
    settings: Settings,
    approvals: Approvals,
    jobs: Jobs,
    children: Children,
    title: Option<String>,
    strict_chunks: bool,
    /// Recovery is at work: nothing but what closes the turn may follow (L-79).
    repairing: bool,
    /// What has to be the very next event.
    expected: Option<Expected>,
    finding: Option<Finding>,
}

/// What has to be the very next event.
#[derive(Debug)]
enum Expected {
    /// `session/end-seed`, behind a turn that recovery has closed.
    EndSeed,
    /// The `tool/result` of this call, behind the start of its job.
    Result(String),
}

/// A finding that does not know yet at which event it is.
#[derive(Debug)]
struct Bad {
    rule: &'static str,
    what: String,
}

type Checked<T = ()> = Result<T, Bad>;

fn bad<T>(rule: &'static str, what: impl Into<String>) -> Checked<T> {
    Err(Bad { rule, what: what.into() })
}

fn ensure(holds: bool, rule: &'static str, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { bad(rule, what()) }
}

impl Auditor {
    /// Before the first event. What is wrong with the header is told by the first `push`, or at the end.
    pub fn new(header: &Header) -> Auditor {
        let finding = header_holds(header).err();
        Auditor {
            seed: Seed::new(header),
            cwd: header.cwd.clone(),
            next_seq: 0,
            last_time: None,
            turn: None,
            last_turn: 0,
            last_end: None,
            inboxes: Inboxes::default(),
            surface: Surface::default(),
            request: Request::default(),
            settings: Settings::new(header),
            approvals: Approvals::default(),
            jobs: Jobs::default(),
            children: Children::new(header),
            title: None,
            strict_chunks: true,
            repairing: false,
            expected: None,
            finding: finding.map(|Bad { rule, what }| Finding { seq: None, rule, what }),
        }
    }

    /// Takes any sequence of chunks that the assembler takes (L-16), also one that no provider makes, for
    /// example deltas of a block that was never opened.
    pub fn any_chunks(self) -> Auditor {
        Auditor { strict_chunks: false, ..self }
    }

    /// The next event, as its whole envelope.
    pub fn push(&mut self, event: &str) -> Result<(), Finding> {
        if let Some(finding) = &self.finding {
            return Err(finding.clone());
        }
        let seq = self.next_seq;
        self.take(event).map_err(|Bad { rule, what }| {
            let finding = Finding { seq: Some(seq), rule, what };
            self.finding = Some(finding.clone());
            finding
        })
    }

    /// What the log folds to. Its last turn may be open: the host may have been killed at any moment.
    pub fn finish(self) -> Result<Summary, Finding> {
        match &self.finding {
            Some(finding) => Err(finding.clone()),
            None => Ok(Summary::of(&self)),
        }
    }

    /// The same for the log of a session that nobody is killed in: no turn is open, and its seed is whole.
    pub fn finish_closed(self) -> Result<Summary, Finding> {
        let at_end = |rule, what| Err(Finding { seq: Some(self.next_seq), rule, what });
        if let (None, Some(turn)) = (&self.finding, &self.turn) {
            return at_end("S-112", format!("turn {} has no turn/end", turn.number));
        }
        if self.finding.is_none() && self.seed.length > self.next_seq {
            let (length, events) = (self.seed.length, self.next_seq);
            return at_end(
                "L-11",
                format!("the header tells of a seed of {length} events, and there are {events}"),
            );
        }
        self.finish()
    }

    fn take(&mut self, text: &str) -> Checked {
        let event = Envelope::read(text, self.next_seq)?;
        self.follows(&event)?;
        self.begin_own(&event)?;
        let was_opening = self.inboxes.begin_event(&event)?;
        match &*event.kind {
            "agent/inbox/spliced" => self.spliced(&event, was_opening)?,
            "turn/start" => self.turn_start(&event)?,
            "turn/end" => self.turn_end(&event)?,
            "step/start" => self.step_start(&event)?,
            "step/end" => self.step_end(&event)?,
            "user/message" => self.user_message(&event)?,
            "assistant/chunk" => self.chunk(&event)?,
            "assistant/message" => self.assistant_message(&event)?,
            "tool/call" => self.tool_call(&event)?,
            "tool/result" => self.tool_result(&event)?,
            "request/header" => self.request_header(&event)?,
            "request/context" => self.request_context(&event)?,
            "llm/retry" => self.retry(&event)?,
            "llm/retry-started" => self.retry_started(&event)?,
            "approval/asked" => self.asked(&event)?,
            "approval/decided" => self.decided(&event)?,
            "permission/preset" | "sandbox/mode" | "approval/policy" => {
                self.settings.set(&event)?
            }
            "subagent/descriptor" => self.descriptor(&event)?,
            "subagent/catalog" => self.children.catalogued(&event)?,
            "session/end-seed" => self.end_seed(&event)?,
            "session/title" => self.titled(&event)?,
            "working-directory/change" => {
                self.cwd = event.data.text("cwd").map(Into::into);
            }
            "job/registered" => self.job_registered(&event)?,
            "job/settled" => {
                let idle = self.turn.is_none();
                self.jobs.settled(&event, idle)?;
            }
            // Nothing that is checked here depends on the others.
            _ => {}
        }
        self.seed.after(&event);
        self.next_seq += 1;
        self.last_time = Some(event.time);
        Ok(())
    }

    /// Whether the event may follow the one before it at all.
    fn follows(&mut self, event: &Envelope<'_>) -> Checked {
        let kind = &*event.kind;
        match self.expected.take() {
            None => {}
            Some(Expected::Result(call)) => ensure(event.is_result_of(&call), "P-78", || {
                format!("{kind} between job/registered and the tool/result of call \"{call}\"")
            })?,
            // Jobs that were lost with the host may be settled, and told of, ahead of the marker (P-78).
            Some(Expected::EndSeed) if event.settles_lost_job() || event.injects_notice() => {
                self.expected = Some(Expected::EndSeed);
            }
            Some(Expected::EndSeed) => ensure(kind == "session/end-seed", "L-79", || {
                format!(
                    "{kind} right behind an interrupted turn, where session/end-seed must stand"
                )
            })?,
        }
        let closes = matches!(kind, "tool/result" | "step/end" | "turn/end");
        ensure(!self.repairing || closes, "L-79", || {
            format!("{kind} among the events by which recovery closes a turn")
        })
    }
}

/// What the header says of itself (L-4).
fn header_holds(header: &Header) -> Checked {
    const SAFE_MAX: u64 = (1 << 53) - 1;
    if let Some(cwd) = header.cwd.as_deref().filter(|cwd| !is_absolute(cwd)) {
        return bad("L-4", format!("session header cwd must be an absolute path, got \"{cwd}\""));
    }
    let numbers = [
        ("createdAt", header.created_at),
        ("seedLength", header.seed_length.unwrap_or_default()),
        ("delegationDepth", header.delegation_depth),
    ];
    if let Some((name, number)) = numbers.into_iter().find(|(_, number)| *number > SAFE_MAX) {
        return bad("L-4", format!("{name} must be a safe integer, got {number}"));
    }
    let orphan = header.parent_session.is_none();
    if orphan && header.seed_length.is_some() {
        return bad("L-11", "seedLength without parentSession: a seed is copied from somewhere");
    }
    if header.origin == Some(Origin::Subagent) && (orphan || header.delegation_depth == 0) {
        return bad(
            "L-67",
            "origin subagent needs a parentSession and a delegationDepth of at least 1",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
