//! Whatever happens in whatever order, crashes included: the log passes the audit, and a fold of it gives the
//! state that the agent has.

use std::collections::VecDeque;

use proptest::prelude::*;

use transom_frame::{Code, Failure};

use super::*;
use crate::{
    agent::{Partial, Permissions, queue::QueueAction},
    audit::{Auditor, Summary},
    event::Target,
    hooks::{CallVerdict, Context, HookAbout, HookPoints, ResultVerdict, StepVerdict, Verdict},
    jobs::{JobCause, JobChange, JobKind, JobStatus},
    permissions::{
        Access, ApprovalPolicy, Mode, Outcome,
        presets::{Defaults, PRESETS},
    },
    ports::{StartedJob, Wanted},
};

#[derive(Debug, Clone)]
enum Move {
    Prompt,
    Steer,
    Inject,
    Cancel(bool),
    /// `false`: there is no model for the step.
    Assemble(bool),
    Text,
    Call,
    Stop,
    Limit,
    Fail(bool),
    Plan(bool),
    /// Whoever plans or judges calls fails.
    FailCalls,
    Judge(u8),
    /// Hooks have their say.
    Hook(u8),
    Decide(u8),
    EndTool(usize, u8),
    EndJob(usize, bool),
    StopJob(usize),
    Ring(usize),
    Switch(usize),
    Queue(usize, u8),
    Rename,
    Wander,
    /// The log cannot be written any more; the host dies with it, or some time later.
    StoreFails(bool),
    /// The host dies, and of the log this share in 256 is on disk.
    Crash(u8),
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        4 => Just(Move::Prompt),
        1 => Just(Move::Steer),
        1 => Just(Move::Inject),
        1 => any::<bool>().prop_map(Move::Cancel),
        8 => (0..20_u8).prop_map(|chance| Move::Assemble(chance > 0)),
        4 => Just(Move::Text),
        4 => Just(Move::Call),
        4 => Just(Move::Stop),
        1 => Just(Move::Limit),
        1 => any::<bool>().prop_map(Move::Fail),
        8 => any::<bool>().prop_map(Move::Plan),
        1 => Just(Move::FailCalls),
        8 => any::<u8>().prop_map(Move::Judge),
        12 => any::<u8>().prop_map(Move::Hook),
        4 => any::<u8>().prop_map(Move::Decide),
        8 => (any::<usize>(), any::<u8>()).prop_map(|(at, how)| Move::EndTool(at, how)),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(at, told)| Move::EndJob(at, told)),
        1 => any::<usize>().prop_map(Move::StopJob),
        2 => any::<usize>().prop_map(Move::Ring),
        1 => (0..3_usize).prop_map(Move::Switch),
        2 => (any::<usize>(), 0..3_u8).prop_map(|(at, how)| Move::Queue(at, how)),
        1 => Just(Move::Rename),
        1 => Just(Move::Wander),
        1 => any::<bool>().prop_map(Move::StoreFails),
        1 => any::<u8>().prop_map(Move::Crash),
    ]
}

/// `hooked`: hooks have a say wherever they can.
fn config(hooked: bool) -> AgentConfig {
    let permissions = Permissions {
        defaults: Defaults::of(&PRESETS[1]),
        pins: true,
        confines: true,
        approvals: true,
        children: ApprovalPolicy::Never,
    };
    let hooks = HookPoints {
        pre_step: hooked,
        pre_execute: hooked,
        post_execute: hooked,
        turn_stopping: hooked,
        result: hooked,
    };
    AgentConfig { permissions, hooks, prolonged_max: 2, ..AgentConfig::default() }
}

/// A session over several lives of its host.
struct Lives {
    play: Play,
    /// Everything that was ever stored, as texts.
    texts: Vec<Arc<str>>,
    calls: u32,
    /// Numbers of jobs, and those that run.
    jobs: u64,
    running: VecDeque<String>,
    lives: u8,
    hooked: bool,
    /// The log of this life cannot be written any more.
    broken: bool,
}

impl Lives {
    fn begin(hooked: bool) -> Lives {
        let play = play(hooked);
        let mut lives = Lives {
            play,
            texts: Vec::new(),
            calls: 0,
            jobs: 0,
            running: VecDeque::new(),
            lives: 1,
            hooked,
            broken: false,
        };
        let born = lives.play.agent.pin(1000);
        lives.texts.extend(born.into_iter().map(|event| event.text));
        lives
    }

    /// Moves what the agent has appended into the store.
    fn store(&mut self) {
        let events = std::mem::take(&mut self.play.texts);
        assert!(!self.broken || events.is_empty(), "nothing follows what was lost: {events:?}");
        self.texts.extend(events);
    }

    fn one(&mut self, one: &Move) {
        let play = &mut self.play;
        let speaks = !play.calling.is_empty();
        match one {
            Move::Prompt => drop(play.send("p", Delivery::Followup)),
            Move::Steer => drop(play.send("s", Delivery::Steer)),
            Move::Inject => drop(play.send("i", Delivery::Inject)),
            Move::Cancel(true) => drop(play.cancel(InboxFate::Clear)),
            Move::Cancel(false) => drop(play.cancel(InboxFate::Keep)),
            Move::Assemble(served) if !play.assembling.is_empty() => {
                let token = play.assembling.remove(0);
                let mut assembly = assembly();
                if !served {
                    let none = Failure::new(Code::NoAdapter, "no model");
                    assembly.served = Err(none);
                }
                play.happen(Happened::Assembled(token, assembly));
            }
            Move::Text if speaks => drop(play.text("t")),
            Move::Call if speaks => {
                self.calls += 1;
                play.call(self.calls, &format!("c{}", self.calls), "t");
            }
            Move::Stop if speaks => drop(play.finish(Finish::Stop)),
            Move::Limit if speaks => drop(play.finish(Finish::MaxTokens)),
            Move::Fail(again) if speaks => drop(play.fail(if *again { "SERVER" } else { "AUTH" })),
            Move::Plan(parallel) if !play.planning.is_empty() => {
                let count = play.planning[0].1;
                play.plan(&vec![*parallel; count]);
            }
            Move::FailCalls if !play.planning.is_empty() => {
                let (token, count) = play.planning.remove(0);
                // A plan that fits nothing is none.
                play.happen(Happened::Planned(token, vec![true; count + 1]));
            }
            Move::FailCalls if !play.judging.is_empty() => {
                let (token, _) = play.judging.remove(0);
                play.happen(Happened::CallsFailed(token, "lost".to_owned()));
            }
            Move::Hook(how) if !play.hooks.is_empty() => {
                let verdict = verdict(*how, &play.hooks[0].1.about);
                play.hook(verdict);
            }
            Move::Judge(how) if !play.judging.is_empty() => drop(play.judge(judgement(*how))),
            Move::Decide(how) if !play.asks.is_empty() => {
                let approval = play.asks.remove(0).id;
                let outcomes = [
                    Outcome::AllowedOnce,
                    Outcome::Rejected,
                    Outcome::Cancelled,
                    Outcome::Unavailable,
                ];
                let outcome = outcomes[usize::from(*how) % outcomes.len()];
                play.happen(Happened::Decided { approval, outcome });
            }
            Move::EndTool(at, how) if !play.tools.is_empty() => {
                let id = play.tools[at % play.tools.len()].1.call_id.clone();
                let outcome = match how % 5 {
                    0 => ToolOutcome::error("no", None),
                    1 => {
                        self.jobs += 1;
                        let id = format!("bash-{}", self.jobs);
                        self.running.push_back(id.clone());
                        let job = StartedJob {
                            id,
                            kind: JobKind::Bash,
                            label: "make".to_owned(),
                            started_at: 7,
                        };
                        ToolOutcome { job: Some(job), ..ToolOutcome::text("started") }
                    }
                    2 => ToolOutcome { contexts: told(), ..ToolOutcome::text("ok") },
                    _ => ToolOutcome::text("ok"),
                };
                play.tool(&id, outcome);
            }
            Move::EndJob(at, reported) if !self.running.is_empty() => {
                let at = at % self.running.len();
                let id = self.running.remove(at).unwrap();
                let change = JobChange::Ended {
                    id,
                    status: JobStatus::Completed,
                    detail: Some("exit code: 0".to_owned()),
                    finished_at: 9,
                    cause: JobCause::Producer,
                    reported: *reported,
                };
                play.happen(Happened::Job(change));
            }
            Move::StopJob(at) if !self.running.is_empty() => {
                let id = self.running[at % self.running.len()].clone();
                play.happen(Happened::Job(JobChange::Stopping { id }));
            }
            Move::Ring(at) if !play.timers.is_empty() => {
                let at = at % play.timers.len();
                play.timers.swap(0, at);
                play.ring();
            }
            Move::Switch(preset) => {
                let name = PRESETS[*preset].name;
                let _ = play.act(|agent, out, now| agent.switch(out, now, name));
            }
            Move::Queue(at, how) => {
                let inbox = play.agent.inbox();
                let waiting: Vec<_> = [Target::NextTurn, Target::NextStep]
                    .iter()
                    .flat_map(|target| inbox.list(*target))
                    .map(|message| message.id.clone())
                    .collect();
                if !waiting.is_empty() {
                    let id = waiting[at % waiting.len()].clone();
                    let action = match how {
                        0 => QueueAction::Edit(vec![Block::text("edited")]),
                        1 => QueueAction::Remove,
                        _ => QueueAction::Steer,
                    };
                    let _ = play.act(|agent, out, now| agent.change_queue(out, now, &id, action));
                }
            }
            Move::Rename => {
                let _ = play.act(|agent, out, now| agent.rename(out, now, "another"));
            }
            Move::Wander => {
                let _ = play.act(|agent, out, now| {
                    agent.set_directory(out, now, "/elsewhere", "/elsewhere")
                });
            }
            Move::StoreFails(dies) => {
                self.store();
                self.play.happen(Happened::StoreFailed("disk full".to_owned()));
                self.broken = true;
                if *dies {
                    self.crash(255);
                }
            }
            Move::Crash(share) => self.crash(*share),
            _ => {}
        }
        self.store();
    }

    /// The host dies and another goes on with what was stored.
    fn crash(&mut self, share: u8) {
        if self.lives >= 5 {
            return;
        }
        self.lives += 1;
        self.store();
        let kept = self.texts.len() * (usize::from(share) + 1) / 256;
        self.texts.truncate(kept);
        let header = Header::clone(self.play.agent.header());
        let (agent, closers) = Agent::restore(
            header,
            &self.texts,
            self.play.agent.route().clone(),
            Arc::new(config(self.hooked)),
            Chance::new([self.lives; 32]),
            5000,
        )
        .unwrap();
        self.texts.extend(closers.into_iter().map(|event| event.text));
        let mut play = play(self.hooked);
        play.agent = agent;
        play.agent.set_partial(partial(self.hooked));
        self.play = play;
        self.texts.extend(self.play.agent.pin(5000).into_iter().map(|event| event.text));
        self.running.clear();
        self.broken = false;
        let known = self.play.agent.log().jobs().iter();
        let numbers = known.filter_map(|job| job.id.strip_prefix("bash-")?.parse().ok());
        self.jobs = numbers.max().unwrap_or(0);
    }

    fn audit(&self) -> Summary {
        let mut auditor = Auditor::new(self.play.agent.header()).any_chunks();
        for text in &self.texts {
            if let Err(finding) = auditor.push(text) {
                panic!("{finding}\n{}", self.texts.join("\n"));
            }
        }
        auditor.finish().unwrap()
    }
}

pub(super) fn play(hooked: bool) -> Play {
    let mut play = Play::with(config(hooked));
    play.agent.set_partial(partial(hooked));
    play.strict = true;
    play
}

fn partial(hooked: bool) -> Partial {
    if hooked { Partial::Commit } else { Partial::Drop }
}

fn told() -> Vec<Context> {
    vec![Context { from: "hook:one".to_owned(), text: "know this".to_owned() }]
}

pub(super) fn verdict(how: u8, about: &HookAbout) -> Verdict {
    let odd = how % 7;
    match about {
        HookAbout::PreStep { .. } => Verdict::Step(match odd {
            0 => StepVerdict::Reject,
            1 | 2 => StepVerdict::Proceed { contexts: told() },
            _ => StepVerdict::Proceed { contexts: Vec::new() },
        }),
        HookAbout::PreExecute { .. } => Verdict::Call(match odd {
            0 => CallVerdict::Deny { reason: "not here".to_owned() },
            1 => CallVerdict::Ask { reason: Some("look".to_owned()) },
            _ => CallVerdict::Allow,
        }),
        HookAbout::PostExecute { outcome, .. } => {
            let verdict = match odd {
                0 => ResultVerdict::Block(vec![Block::text("no")]),
                1 => ResultVerdict::Content(vec![Block::text("other")]),
                2 => ResultVerdict::Value(Value::from("other")),
                3 => ResultVerdict::Value(Value::Null),
                _ => ResultVerdict::Accept,
            };
            let render = |value: Value| match value.as_str() {
                Some(text) => ToolOutcome::text(text),
                None => ToolOutcome::error("bad", Some(("E", "C"))),
            };
            let mut outcome = verdict.apply(ToolOutcome::clone(outcome), render);
            if odd == 4 {
                outcome.contexts = told();
            }
            Verdict::Outcome(Box::new(outcome))
        }
        HookAbout::TurnStopping { .. } => Verdict::Stop(if odd < 3 { told() } else { Vec::new() }),
        HookAbout::Result { .. } => unreachable!("nobody waits for those who watch"),
    }
}

fn judgement(how: u8) -> Judgement {
    let refused = |text: &str| ToolOutcome::error(text, None);
    match how % 4 {
        0 => Judgement::Refuse(refused("denied")),
        1 | 2 => Judgement::Ask(Box::new(Wanted {
            reason: Some("because".to_owned()),
            granted: Access { mode: Mode::DangerFullAccess, ..Access::FULL },
            rejected: refused("rejected"),
            cancelled: refused("cancelled"),
            unavailable: refused("unavailable"),
            begun: how % 4 == 1,
        })),
        _ => Judgement::Run,
    }
}

/// What an agent holds is what the audit has folded from the log.
fn same(agent: &Agent, summary: &Summary) {
    let ids = |target| -> Vec<String> {
        agent.inbox().list(target).iter().map(|message| message.id.to_string()).collect()
    };
    assert_eq!(agent.log().next_seq(), summary.events);
    assert_eq!(agent.log().last_turn(), summary.last_turn);
    assert_eq!(ids(Target::NextTurn), summary.next_turn);
    assert_eq!(ids(Target::NextStep), summary.next_step);
    assert_eq!(agent.cwd(), summary.cwd.as_deref());
    let (mode, policy) = agent.log().knobs().effective(&agent.config.permissions.defaults);
    assert_eq!((Some(mode), Some(policy)), (summary.mode, summary.policy));
    let history: Vec<_> =
        agent.log().history().iter().map(|message| message.id.to_string()).collect();
    let surface: Vec<_> =
        summary.surface.iter().filter(|node| node.shown).map(|node| node.message.clone()).collect();
    assert_eq!(history, surface);
    let jobs: Vec<_> =
        agent.log().jobs().iter().map(|job| (job.id.clone(), job.status.is_end())).collect();
    let audited: Vec<_> =
        summary.jobs.iter().map(|job| (job.id.clone(), job.status.is_end())).collect();
    assert_eq!(jobs, audited);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_lives_leave_a_sound_log_whose_fold_is_the_agent(
        hooked in any::<bool>(),
        moves in prop::collection::vec(any_move(), 0..160),
    ) {
        let mut lives = Lives::begin(hooked);
        for one in &moves {
            lives.one(one);
        }
        let summary = lives.audit();
        if !lives.broken {
            same(&lives.play.agent, &summary);
        }

        // Another host that opens it now closes what is open, and its fold is the same again.
        lives.lives = 0;
        lives.crash(255);
        let summary = lives.audit();
        prop_assert_eq!(summary.open_turn, None);
        prop_assert!(summary.open_approvals.is_empty());
        same(&lives.play.agent, &summary);
    }
}
