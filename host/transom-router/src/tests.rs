//! Stories of the router: what doors ask, what they are shown, and when.

mod asks;
mod children;
mod delegations;
mod forks;
mod hooks;
mod images;
mod intake;
mod lines;
mod listing;
mod partial;
mod places;
mod questions;
mod release_order;
mod requests;
mod settings;
mod slow_peers;
mod subscriptions;
mod teardown;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    mem,
    sync::Arc,
};

use serde_json::{Value, json};
use transom_frame::{Code, ConnectionId, Failure, Frame, FrameKind, SessionId};
use transom_harness::{
    agent::{AgentConfig, Assembly, Happened},
    block::Block,
    chunk::{Chunk, Finish},
    image::ImageLimits,
    permissions::{Access, Mode},
    ports::{
        Append, AskRefused, Commit, Delegation, DelegationEvent, Judgement, Page, RetryPolicy,
        Route, Served, StoreError, StoredSession, ToolOutcome, Wanted,
    },
    subagents::{ChildRefused, Nature, Obeyed, Toolset},
};

use self::lines::{in_order, line};
use crate::{
    Answer, Answers, Claimed, Effect, Event, Facts, HostFacts, Images, OrderId, Question,
    QuestionId, Reach, Router, RunId, Unseen,
};

/// A router whose questions are answered at once, and whose store commits when it is told to.
struct House {
    router: Router,
    stored: Vec<StoredSession>,
    /// Sessions that another process has.
    elsewhere: Vec<SessionId>,
    /// Everything that was appended and has not failed.
    log: Vec<Append>,
    appended: u64,
    committed: u64,
    /// What was delivered, a line each.
    lines: Vec<String>,
    frames: Vec<(u64, Frame)>,
    /// Effects on models and tools, a word each.
    deeds: Vec<String>,
    calls: Vec<(SessionId, transom_harness::agent::Token)>,
    tools: Vec<(SessionId, transom_harness::agent::Token)>,
    timers: Vec<(SessionId, transom_harness::agent::Token, u64)>,
    /// What hooks are asked.
    hooks: Vec<(SessionId, transom_harness::agent::Token)>,
    quiesced: Vec<(u64, Vec<String>)>,
    quiet: Option<Vec<String>>,
    /// What calls that are judged come to, in order; without any, they run.
    judgements: VecDeque<Judgement>,
    /// Whether the calls of a message may overlap.
    parallel: bool,
    /// Answers to the router's questions that are kept back, where they are.
    held: Option<VecDeque<Event>>,
    connected: Vec<u64>,
    /// Sessions that are this process's own.
    claimed: BTreeSet<SessionId>,
    /// Claims fail.
    no_claims: bool,
    /// Where links lead, instead of to themselves.
    leads: HashMap<String, String>,
    /// Calls that were judged: whose, where, and what its root is.
    judged: Vec<(SessionId, Option<String>, Option<String>)>,
    /// Prompts whose images were to be kept: their blocks, and the bounds.
    kept: Vec<(usize, ImageLimits)>,
    /// Whether the model takes images; `None`: no provider serves it.
    sight: Option<bool>,
    /// Why no images are kept.
    refuses: Option<Failure>,
    /// What delegations have come to.
    delegated: Vec<(RunId, DelegationEvent)>,
    /// What orders have come to.
    ordered: Vec<(OrderId, Result<Obeyed, ChildRefused>)>,
    /// Which sessions were given tools of their own.
    equipped: Vec<(SessionId, Toolset)>,
    /// What questions have come to.
    answers: Vec<(QuestionId, Result<String, AskRefused>)>,
    next: u64,
}

fn host() -> HostFacts {
    HostFacts {
        version: "0".into(),
        directory: "/host".into(),
        doors: vec!["sdk".to_owned()],
        route: Route {
            provider: Some("p".to_owned()),
            model: Some("m".to_owned()),
            ..Route::default()
        },
        sessions_max: 1000,
        always_answered: false,
        ceiling: Mode::DangerFullAccess,
        kept_mode_max: Mode::DangerFullAccess,
        workspaces: Vec::new(),
        images: Images::AsTheyCame,
    }
}

fn facts(reach: Reach) -> Facts {
    Facts {
        door: "sdk".into(),
        reach,
        sees_stored: reach == Reach::All,
        answers: Answers::Never,
        live_notices_max: 8,
        sessions_max: 100,
    }
}

impl House {
    fn new() -> House {
        House::with(AgentConfig::default())
    }

    fn with(config: AgentConfig) -> House {
        House::of(host(), config)
    }

    fn of(host: HostFacts, config: AgentConfig) -> House {
        House {
            router: Router::new(host, config, [3; 32]),
            stored: Vec::new(),
            elsewhere: Vec::new(),
            log: Vec::new(),
            appended: 0,
            committed: 0,
            lines: Vec::new(),
            frames: Vec::new(),
            deeds: Vec::new(),
            calls: Vec::new(),
            tools: Vec::new(),
            timers: Vec::new(),
            hooks: Vec::new(),
            quiesced: Vec::new(),
            quiet: None,
            judgements: VecDeque::new(),
            parallel: false,
            held: None,
            connected: Vec::new(),
            claimed: BTreeSet::new(),
            no_claims: false,
            leads: HashMap::new(),
            judged: Vec::new(),
            kept: Vec::new(),
            sight: Some(false),
            refuses: None,
            delegated: Vec::new(),
            ordered: Vec::new(),
            equipped: Vec::new(),
            answers: Vec::new(),
            next: 0,
        }
    }

    /// One connection that watches everything it may, with one open session.
    fn with_session() -> House {
        let mut house = House::new();
        house.connect(1, facts(Reach::Owned));
        house.watch(1, "owned");
        house.ask(1, "session/open", Some("main"), json!({ "want": "new" }));
        house.told();
        house
    }

    fn connect(&mut self, connection: u64, facts: Facts) {
        self.connected.push(connection);
        self.happen(Event::Connected { connection: ConnectionId(connection), facts });
    }

    fn watch(&mut self, connection: u64, scope: &str) {
        let topics = ["events", "status", "sessions", "errors", "inbox"];
        self.ask(connection, "events/subscribe", None, json!({ "scope": scope, "topics": topics }));
        self.told();
    }

    /// Subscribes to everything there is. Gives the baseline.
    fn watch_all(&mut self, connection: u64, scope: &str, session: Option<&str>) -> Value {
        let topics = [
            "events",
            "status",
            "sessions",
            "errors",
            "inbox",
            "subagents",
            "asks",
            "jobs",
            "queue",
            "projections",
        ];
        let body = json!({ "scope": scope, "topics": topics });
        self.ask(connection, "events/subscribe", session, body);
        self.told();
        self.body(connection, "events/subscribe")
    }

    /// The body of the last frame of that name that a peer was given.
    fn body(&self, connection: u64, name: &str) -> Value {
        let mut given = self.frames.iter().rev();
        let (_, frame) =
            given.find(|(to, frame)| *to == connection && &*frame.name == name).unwrap();
        serde_json::from_str(&frame.body).unwrap()
    }

    /// The last snapshot of the queue that the first connection was shown.
    fn queue(&self) -> Value {
        let is_snapshot =
            |frame: &Frame| frame.kind == FrameKind::Notice && &*frame.name == "session/queue";
        let mut given = self.frames.iter().rev();
        let (_, frame) = given.find(|(to, frame)| *to == 1 && is_snapshot(frame)).unwrap();
        let body: Value = serde_json::from_str(&frame.body).unwrap();
        body["items"].clone()
    }

    fn ask(&mut self, connection: u64, name: &str, session: Option<&str>, body: Value) {
        self.next += 1;
        let frame = Frame::request(
            name,
            session.map(Into::into),
            self.next.to_string().into(),
            body.to_string(),
        );
        self.happen(Event::Frame { connection: ConnectionId(connection), frame });
    }

    fn prompt(&mut self, session: &str, text: &str) {
        self.prompt_from(1, session, text);
    }

    fn prompt_from(&mut self, connection: u64, session: &str, text: &str) {
        let content = json!({ "content": [{ "type": "text", "text": text }] });
        self.ask(connection, "session/prompt", Some(session), content);
    }

    fn happen(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut effects = Vec::new();
            self.router.handle(&mut effects, 1000, event);
            for effect in effects {
                events.extend(self.perform(effect));
            }
        }
    }

    fn perform(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Deliver { connection, frame } => {
                self.lines.push(format!("{connection} {}", line(&frame)));
                self.frames.push((connection.0, frame));
                None
            }
            Effect::Append(append) => {
                let before = self.log.iter().filter(|before| before.session == append.session);
                assert_eq!(append.seq, before.count() as u64, "a log has no gaps: {}", append.text);
                self.appended = append.number;
                self.log.push(append);
                None
            }
            Effect::Ask { ask, question } => {
                let answer = match question {
                    question @ (Question::Same { .. }
                    | Question::Titles(_)
                    | Question::Catalogue { .. }) => listing::answer(self, question),
                    Question::Claim(_) if self.no_claims => {
                        Answer::Claimed(Err(StoreError::Io("no disk".to_owned())))
                    }
                    Question::Claim(id) if self.elsewhere.contains(&id) => {
                        Answer::Claimed(Ok(Claimed::Elsewhere))
                    }
                    Question::Claim(id) => {
                        let stored = self.stored.iter().find(|stored| stored.id == id).cloned();
                        self.claimed.insert(id);
                        Answer::Claimed(Ok(Claimed::Here(stored)))
                    }
                    Question::Read { session, page: Page { from, limit, .. } } => {
                        let texts = self.log.iter().filter(|append| append.session == session);
                        let page = texts.skip(from as usize).take(limit as usize);
                        Answer::Events(Ok(page.map(|append| Arc::clone(&append.text)).collect()))
                    }
                    Question::Keep { content, limits } => {
                        self.kept.push((content.len(), limits));
                        Answer::Kept(match &self.refuses {
                            None => Ok(vec![Block::text("kept")]),
                            Some(failure) => Err(failure.clone()),
                        })
                    }
                    Question::Attachment { session, name, events } => Answer::Attachment(Ok(
                        json!({ "session": session.as_str(), "name": name, "events": events })
                            .to_string(),
                    )),
                    Question::List => Answer::Listed(Ok(self.stored.clone())),
                    Question::Serve { .. } => Answer::Served(match self.sight {
                        Some(images) => Ok(Served { images, ..served() }),
                        None => Err(Failure::new(Code::NoAdapter, "nobody serves it")),
                    }),
                    Question::Directory(path) => {
                        let found = self.leads.get(&path).cloned().unwrap_or(path);
                        Answer::Directory((!found.contains("missing")).then_some(found))
                    }
                };
                let answered = Event::Answered { ask, answer };
                match &mut self.held {
                    None => Some(answered),
                    Some(held) => {
                        held.push_back(answered);
                        None
                    }
                }
            }
            Effect::Assemble { session, token, .. } => {
                let assembly = Assembly {
                    served: Ok(served()),
                    tools: Arc::from(Vec::new()),
                    retry: RetryPolicy::default(),
                };
                Some(Event::Happened { session, happened: Happened::Assembled(token, assembly) })
            }
            Effect::PlanCalls { session, token, calls } => {
                let plan = Happened::Planned(token, vec![self.parallel; calls.len()]);
                Some(Event::Happened { session, happened: plan })
            }
            Effect::CallModel { session, token, .. } => {
                self.deeds.push(format!("call {session}"));
                self.calls.push((session, token));
                None
            }
            Effect::Judge { session, token, call } => {
                self.judged.push((session.clone(), call.cwd, call.root));
                let judgement = self.judgements.pop_front().unwrap_or(Judgement::Run);
                let happened = Happened::Judged(token, judgement);
                Some(Event::Happened { session, happened })
            }
            Effect::AskHooks { session, token, ask } => {
                self.deeds.push(format!("ask {} of {session}", ask.about.point()));
                self.hooks.push((session, token));
                None
            }
            Effect::StopHooks { session, .. } => self.did(format!("stop hooks of {session}")),
            Effect::Observe(seen) => {
                self.did(format!("show {} of {}", seen.about.point(), seen.session))
            }
            Effect::Delegated { run, event } => {
                self.delegated.push((run, event));
                None
            }
            Effect::Ordered { order, result } => {
                self.ordered.push((order, result));
                None
            }
            Effect::Equip { session, toolset } => {
                self.equipped.push((session, toolset));
                None
            }
            Effect::Answer { question, answer } => {
                self.answers.push((question, answer));
                None
            }
            Effect::RunTool { session, token, call } => {
                self.deeds.push(format!("run {session} {}", call.call_id));
                self.tools.push((session, token));
                None
            }
            Effect::StopModel { session, .. } => self.did(format!("stop {session}")),
            Effect::StopTool { session, .. } => self.did(format!("stop tool {session}")),
            Effect::TerminateTools { session, kill_after_ms } => {
                self.did(format!("terminate {session} {kill_after_ms}"))
            }
            Effect::ForgetTools { session } => self.did(format!("forget {session}")),
            Effect::Release { session } => {
                self.claimed.remove(&session);
                self.did(format!("release {session}"))
            }
            Effect::Timer { session, token, after_ms } => {
                self.timers.push((session, token, after_ms));
                None
            }
            Effect::Quiesced { connection, failures } => {
                self.quiesced.push((connection.0, failures));
                None
            }
            Effect::Quiet { failures } => {
                self.quiet = Some(failures);
                None
            }
        }
    }

    fn did(&mut self, deed: String) -> Option<Event> {
        self.deeds.push(deed);
        None
    }

    /// Gives the answers that were kept back, and keeps none back any more.
    fn answer_held(&mut self) {
        for answer in self.held.take().into_iter().flatten() {
            self.happen(answer);
        }
    }

    fn commit(&mut self) {
        self.committed = self.appended;
        self.happen(Event::Committed(Commit::Through(self.committed)));
    }

    fn commit_through(&mut self, number: u64) {
        self.committed = number;
        self.happen(Event::Committed(Commit::Through(number)));
    }

    fn fail_commit(&mut self) {
        let failed = Commit::Failed {
            from: self.committed + 1,
            through: self.appended,
            message: "disk full".to_owned(),
        };
        let committed = self.committed;
        self.log.retain(|append| append.number <= committed);
        self.committed = self.appended;
        self.happen(Event::Committed(failed));
    }

    fn chunk(&mut self, chunk: Chunk) {
        let (session, token) = self.calls.last().unwrap().clone();
        self.happen(Event::Happened { session, happened: Happened::Chunk(token, chunk) });
    }

    /// The model says `text` and stops.
    fn answer(&mut self, text: &str) {
        self.chunk(Chunk::TextDelta { index: 0, text: text.to_owned() });
        self.chunk(Chunk::Finish { reason: Finish::Stop });
        self.calls.pop();
    }

    /// The model calls tools of these ids and names.
    fn call(&mut self, calls: &[(&str, &str)]) {
        for (index, (id, name)) in (0..).zip(calls) {
            self.chunk(Chunk::ToolCallDelta {
                index,
                id: (*id).to_owned(),
                name: Some((*name).to_owned()),
                arguments_delta: "{}".to_owned(),
            });
        }
        self.chunk(Chunk::Finish { reason: Finish::ToolCalls });
        self.calls.pop();
    }

    /// The oldest call of a session that runs comes to its end.
    fn tool_of(&mut self, session: &str, outcome: ToolOutcome) {
        let at = self.tools.iter().position(|(of, _)| of.as_str() == session).unwrap();
        let (session, token) = self.tools.remove(at);
        self.happen(Event::Happened { session, happened: Happened::ToolEnded(token, outcome) });
    }

    /// A call of `parent` hands work on.
    fn delegate(&mut self, run: u64, parent: &str) {
        let delegation = Delegation {
            parent: parent.into(),
            description: "look".to_owned(),
            prompt: "look closely".to_owned(),
            access: Access::FULL,
            directory: Some("/host".into()),
            nature: Nature::default(),
        };
        self.happen(Event::Delegate { run: RunId(run), delegation });
    }

    /// The child of a run that has begun.
    fn child(&self, run: u64) -> String {
        let started = self.delegated.iter().find_map(|(of, event)| match event {
            DelegationEvent::Started { child } if of.0 == run => Some(child.to_string()),
            _ => None,
        });
        started.unwrap()
    }

    /// How a run has come out: its stop reason, or why there was none.
    fn outcome(&self, run: u64) -> Option<String> {
        self.delegated.iter().find_map(|(of, event)| match event {
            DelegationEvent::Ended { stop_reason, .. } if of.0 == run => Some(stop_reason.clone()),
            DelegationEvent::Refused(why) if of.0 == run => Some(why.clone()),
            _ => None,
        })
    }

    /// Everything of the log is in the store, as a later host would find it.
    fn keep_stored(&mut self) {
        let mut ids: Vec<SessionId> = Vec::new();
        for append in &self.log {
            if !ids.contains(&append.session) {
                ids.push(append.session.clone());
            }
        }
        self.stored = ids
            .into_iter()
            .map(|id| {
                let of: Vec<_> = self.log.iter().filter(|append| append.session == id).collect();
                let header = of[0].header.to_string();
                StoredSession { id, header, events: of.len() as u64, updated_at: 1 }
            })
            .collect();
    }

    /// Types of a session's events, in the order of its log.
    fn kinds(&self, session: &str) -> Vec<String> {
        let of = self.log.iter().filter(|append| append.session.as_str() == session);
        of.map(|append| append.kind.to_string()).collect()
    }

    /// Ends everything, however the story has left it.
    fn end(&mut self) {
        self.answer_held();
        self.happen(Event::Shutdown);
        // Each round ends one more generation of a tree.
        for _ in 0..20 {
            self.commit();
            for (session, token, _) in mem::take(&mut self.timers) {
                self.happen(Event::Happened { session, happened: Happened::Timer(token) });
            }
        }
        assert!(self.quiet.is_some(), "not everything comes to its end");
        for connection in mem::take(&mut self.connected) {
            self.happen(Event::Disconnected { connection: ConnectionId(connection) });
        }
    }

    fn tool(&mut self, outcome: ToolOutcome) {
        let (session, token) = self.tools.remove(0);
        self.happen(Event::Happened { session, happened: Happened::ToolEnded(token, outcome) });
    }

    /// What was delivered since the last look.
    fn told(&mut self) -> String {
        mem::take(&mut self.lines).join("\n")
    }

    fn done(&mut self) -> String {
        mem::take(&mut self.deeds).join("\n")
    }
}

/// Every story ends with a host that remembers nothing of it.
impl Drop for House {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
            assert_eq!(self.router.remembered(), []);
            assert_eq!(self.claimed, BTreeSet::new(), "still this process's own");
        }
    }
}

/// A call that somebody has to decide about.
fn wanted() -> Judgement {
    Judgement::Ask(Box::new(Wanted {
        reason: Some("rule".to_owned()),
        granted: Access::FULL,
        rejected: ToolOutcome::error("rejected", None),
        cancelled: ToolOutcome::error("cancelled", None),
        unavailable: ToolOutcome::error("unavailable", None),
        begun: false,
    }))
}

fn served() -> Served {
    Served {
        provider: "p".to_owned(),
        model: "m".to_owned(),
        max_tokens: None,
        reasoning_effort: None,
        max_tokens_is_default: false,
        reasoning_effort_is_default: false,
        context_window: None,
        images: false,
    }
}
