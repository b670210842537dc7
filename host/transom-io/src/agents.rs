//! The driver of the loop: one task owns the router and its agents, and performs their effects on
//! models, tools and the store. Everything it hears comes through one inbox, in one order.

mod answers;
mod calls;

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, error};
use transom_frame::{ConnectionId, Frame, SessionId};
use transom_harness::{
    agent::{Assembly, Happened, Token},
    chunk::Chunk,
    hooks::{HookAnswer, HookPoints},
    jobs::JobChange,
    ports::{
        Append, AskRefused, Asker, Children, Commit, Delegation, DelegationEvent, Hooks, Models,
        Questions, Sink, Stop, Store, Subagents, Tools,
    },
    subagents::{Capabilities, ChildOrder, ChildRefused, Obeyed},
};
use transom_router::{Effect, Event, Facts, OrderId, QuestionId, Router, RunId, Settings};

use self::calls::{begun, called, described, failed, finished, scheduled, touched};

/// Things taken from the inbox in one go, before the store and the connections are served again.
const BATCH: usize = 256;

/// What agents need from the world.
#[derive(Clone)]
pub struct Ports {
    /// The models of doors that map routes in their own way, by door.
    pub door_models: HashMap<Arc<str>, Arc<dyn Models>>,
    /// The models of all other doors.
    pub models: Arc<dyn Models>,
    /// The tools of all doors.
    pub tools: Arc<dyn Tools>,
    /// Where logs are kept; its commits go to `Host::commits`.
    pub store: Arc<dyn Store>,
}

impl Ports {
    fn models_of(&self, door: &str) -> &dyn Models {
        self.door_models.get(door).unwrap_or(&self.models).as_ref()
    }
}

type OrderSink = Sink<Result<Obeyed, ChildRefused>>;
type AnswerSink = Sink<Result<String, AskRefused>>;

/// The way into the loop, for carriers, peers and ports. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Host {
    inbox: mpsc::UnboundedSender<Message>,
    connections: Arc<AtomicU64>,
    /// Delegations, orders and questions so far.
    asked: Arc<AtomicU64>,
}

/// The other end of `Host`.
#[derive(Debug)]
pub struct Inbox(mpsc::UnboundedReceiver<Message>);

enum Message {
    Event(Event),
    Delegate { run: RunId, delegation: Delegation, sink: Sink<DelegationEvent> },
    Order { order: OrderId, session: SessionId, wanted: ChildOrder, sink: OrderSink },
    Question { question: QuestionId, session: SessionId, questions: Value, sink: AnswerSink },
    Attach { connection: ConnectionId, facts: Facts, link: Link },
    Shutdown(oneshot::Sender<Vec<String>>),
}

/// The core's side of a connection.
#[derive(Debug)]
struct Link {
    /// The router gives a connection only so many frames that it has not handled, so this stays
    /// short although it has no bound of its own.
    frames: mpsc::UnboundedSender<Frame>,
    quiesced: Option<oneshot::Sender<Vec<String>>>,
}

/// A connection's side of the core, or of whoever else is at the host's end of it.
#[derive(Debug)]
pub struct Attached {
    /// New for every connection, never used again in this process.
    pub id: ConnectionId,
    /// Frames for the peer, in order; ends when the host lets the connection go.
    pub frames: mpsc::UnboundedReceiver<Frame>,
    far: Far,
}

/// Who is at the host's end of a connection.
enum Far {
    /// The loop.
    Loop { host: Host, quiesced: oneshot::Receiver<Vec<String>> },
    /// Somebody who asks something of the peer: the door is a reverse one.
    Asker(Sink<Frame>),
}

impl std::fmt::Debug for Far {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Far::Loop { .. } => "Loop",
            Far::Asker(_) => "Asker",
        })
    }
}

impl Host {
    /// A host and its inbox, to be given to `Core::new`.
    #[expect(
        clippy::disallowed_methods,
        reason = "ports may not block; what they send is bounded by requests in flight and by streams that the loop can stop"
    )]
    pub fn new() -> (Host, Inbox) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (
            Host { inbox: sender, connections: Arc::default(), asked: Arc::default() },
            Inbox(receiver),
        )
    }

    /// Where the store reports its commits.
    pub fn commits(&self) -> Sink<Commit> {
        let host = self.clone();
        Box::new(move |commit| host.send(Event::Committed(commit)))
    }

    /// Where tools report what has become of jobs.
    pub fn jobs(&self) -> Arc<dyn Fn(SessionId, JobChange) + Send + Sync> {
        let host = self.clone();
        Arc::new(move |session, change| {
            host.send(Event::Happened { session, happened: Happened::Job(change) });
        })
    }

    /// Joins the host as a peer. Frames sent from here have passed the door's policy already.
    #[expect(
        clippy::disallowed_methods,
        reason = "the router bounds the frames that a connection has not handled"
    )]
    pub fn attach(&self, facts: Facts) -> Attached {
        let id = ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed) + 1);
        let (frames, receiver) = mpsc::unbounded_channel();
        let (quiesced, over) = oneshot::channel();
        let link = Link { frames, quiesced: Some(quiesced) };
        self.tell(Message::Attach { connection: id, facts, link });
        Attached { id, frames: receiver, far: Far::Loop { host: self.clone(), quiesced: over } }
    }

    /// A connection that the loop has no part in, for a reverse door: whoever opens it asks the peer, through the sender
    /// given back, and hears what its codec says.
    #[expect(
        clippy::disallowed_methods,
        reason = "an asker has a handful of requests, and waits for the answer to each"
    )]
    pub(crate) fn apart(&self, heard: Sink<Frame>) -> (Attached, mpsc::UnboundedSender<Frame>) {
        let id = ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed) + 1);
        let (frames, receiver) = mpsc::unbounded_channel();
        (Attached { id, frames: receiver, far: Far::Asker(heard) }, frames)
    }

    /// Ends every session and waits until the log of each is closed. Gives what went wrong.
    pub async fn shut_down(&self) -> Vec<String> {
        let (done, over) = oneshot::channel();
        self.tell(Message::Shutdown(done));
        over.await.unwrap_or_default()
    }

    /// Changes what requests and sessions that begin from now on go by.
    pub fn configure(&self, settings: Settings) {
        self.send(Event::Configured(settings));
    }

    fn next(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn send(&self, event: Event) {
        self.tell(Message::Event(event));
    }

    fn tell(&self, message: Message) {
        if self.inbox.send(message).is_err() {
            debug!("the host is gone, and with it who could hear this");
        }
    }
}

impl Attached {
    /// Passes a frame on in order and never waits.
    pub fn send(&self, frame: Frame) {
        match &self.far {
            Far::Loop { host, .. } => host.send(Event::Frame { connection: self.id, frame }),
            Far::Asker(heard) => heard(frame),
        }
    }

    /// Frames received from `frames` have been dealt with.
    pub fn handled(&self, frames: usize) {
        if let Far::Loop { host, .. } = &self.far {
            host.send(Event::Handled { connection: self.id, frames });
        }
    }

    /// Says whether the output is too full for more notices (`true`) or has room again.
    pub fn rest(&self, resting: bool) {
        if let Far::Loop { host, .. } = &self.far {
            host.send(Event::Rest { connection: self.id, resting });
        }
    }

    /// Leaves, and waits until everything that this connection owned is gone and durable.
    pub async fn leave(self) -> Vec<String> {
        match self.far {
            Far::Loop { host, quiesced } => {
                host.send(Event::Disconnected { connection: self.id });
                quiesced.await.unwrap_or_default()
            }
            Far::Asker(_) => Vec::new(),
        }
    }
}

/// This host's own sessions take work from one another (L-66).
impl Subagents for Host {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn start(&self, delegation: Delegation, sink: Sink<DelegationEvent>) -> Box<dyn Stop> {
        let run = RunId(self.next());
        self.tell(Message::Delegate { run, delegation, sink });
        Box::new(Withdraw { host: self.clone(), event: move || Event::StopDelegation { run } })
    }
}

/// Children of this host's own sessions are reached through the loop (L-72).
impl Children for Host {
    fn order(&self, session: &SessionId, wanted: ChildOrder, sink: OrderSink) {
        let order = OrderId(self.next());
        self.tell(Message::Order { order, session: session.clone(), wanted, sink });
    }
}

/// The person behind a session is reached through its peers (L-65).
impl Questions for Host {
    fn ask(&self, session: &SessionId, questions: Value, sink: AnswerSink) -> Box<dyn Stop> {
        let question = QuestionId(self.next());
        self.tell(Message::Question { question, session: session.clone(), questions, sink });
        Box::new(Withdraw {
            host: self.clone(),
            event: move || Event::WithdrawQuestion { question },
        })
    }
}

struct Withdraw<F> {
    host: Host,
    event: F,
}

impl<F: Fn() -> Event + Send + Sync> Stop for Withdraw<F> {
    fn stop(&self) {
        self.host.send((self.event)());
    }
}

/// The task that owns the router.
pub struct Core {
    inbox: mpsc::UnboundedReceiver<Message>,
    host: Host,
    router: Router,
    ports: Ports,
    hooks: Option<Arc<dyn Hooks>>,
    /// Hooks see results before they are finished.
    reviews: bool,
    links: HashMap<ConnectionId, Link>,
    /// Model attempts and tool calls that run, so that they can be told to stop.
    running: HashMap<(SessionId, Token), Box<dyn Stop>>,
    /// Who waits for what becomes of a delegation.
    delegations: HashMap<RunId, Sink<DelegationEvent>>,
    /// Who waits for what becomes of an order.
    orders: HashMap<OrderId, OrderSink>,
    /// Who waits for an answer.
    questions: HashMap<QuestionId, AnswerSink>,
    appends: Vec<Append>,
    /// What effects led to, before anything else is heard.
    next: VecDeque<Event>,
    ending: Vec<oneshot::Sender<Vec<String>>>,
}

impl Core {
    /// A core that has heard nothing yet; `host` and `inbox` come from the same `Host::new`.
    pub fn new(host: Host, inbox: Inbox, router: Router, ports: Ports) -> Core {
        Core {
            inbox: inbox.0,
            host,
            router,
            ports,
            hooks: None,
            reviews: false,
            links: HashMap::new(),
            running: HashMap::new(),
            delegations: HashMap::new(),
            orders: HashMap::new(),
            questions: HashMap::new(),
            appends: Vec::new(),
            next: VecDeque::new(),
            ending: Vec::new(),
        }
    }

    /// The same with those who have a say. `points` are those of the agents' configuration.
    pub fn with_hooks(self, hooks: Arc<dyn Hooks>, points: HookPoints) -> Core {
        Core { hooks: Some(hooks), reviews: points.post_execute, ..self }
    }

    /// Runs until the task is dropped.
    pub async fn run(mut self) {
        let mut messages = Vec::with_capacity(BATCH);
        let mut effects = Vec::new();
        while self.inbox.recv_many(&mut messages, BATCH).await > 0 {
            let now = epoch_ms();
            for message in messages.drain(..) {
                self.hear(&mut effects, now, message);
            }
            if !self.appends.is_empty() {
                self.ports.store.append(mem::take(&mut self.appends));
            }
        }
    }

    fn hear(&mut self, effects: &mut Vec<Effect>, now: u64, message: Message) {
        match message {
            Message::Event(event) => self.next.push_back(event),
            Message::Delegate { run, delegation, sink } => {
                self.delegations.insert(run, sink);
                self.next.push_back(Event::Delegate { run, delegation });
            }
            Message::Order { order, session, wanted, sink } => {
                self.orders.insert(order, sink);
                self.next.push_back(Event::Order { order, session, wanted });
            }
            Message::Question { question, session, questions, sink } => {
                self.questions.insert(question, sink);
                self.next.push_back(Event::Question { question, session, questions });
            }
            Message::Attach { connection, facts, link } => {
                self.links.insert(connection, link);
                self.next.push_back(Event::Connected { connection, facts });
            }
            Message::Shutdown(done) => {
                self.ending.push(done);
                self.next.push_back(Event::Shutdown);
            }
        }
        while let Some(event) = self.next.pop_front() {
            self.forget_ended(&event);
            self.router.handle(effects, now, event);
            for effect in effects.drain(..) {
                self.perform(effect);
            }
        }
    }

    /// What has ended by itself needs no stop any more.
    fn forget_ended(&mut self, event: &Event) {
        let Event::Happened { session, happened } = event else { return };
        match happened {
            Happened::Chunk(token, Chunk::Finish { .. })
            | Happened::ToolEnded(token, _)
            | Happened::Hooked(token, _) => {
                self.running.remove(&(session.clone(), *token));
            }
            Happened::Chunk(..)
            | Happened::Assembled(..)
            | Happened::Timer(_)
            | Happened::Planned(..)
            | Happened::Judged(..)
            | Happened::CallsFailed(..)
            | Happened::Decided { .. }
            | Happened::Job(_)
            | Happened::StoreFailed(_) => {}
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Deliver { connection, frame } => {
                if let Some(link) = self.links.get(&connection)
                    && link.frames.send(frame).is_err()
                {
                    debug!(%connection, "a frame came after its connection had ended");
                }
            }
            Effect::Append(append) => self.appends.push(append),
            Effect::Ask { ask, question } => self.answer(ask, question),
            Effect::Assemble { door, session, token, route, cwd, root } => {
                let models = self.ports.models_of(&door);
                let served = models.serve(&route);
                let provider = served.as_ref().map_or("", |served| served.provider.as_str());
                let retry = models.retry_policy(provider);
                let images = served.as_ref().is_ok_and(|served| served.images);
                let asker = Asker { session: session.clone(), cwd, root, images };
                let tools = Arc::clone(&self.ports.tools);
                tools.note(&session, images);
                let needs_disk = tools.specs_need_disk(&session);
                let assembled = move || {
                    let (tools, served) = described(tools.as_ref(), &asker, served);
                    Happened::Assembled(token, Assembly { tools, retry, served })
                };
                if needs_disk {
                    let host = self.host.clone();
                    tokio::task::spawn_blocking(move || {
                        host.send(Event::Happened { session, happened: assembled() });
                    });
                } else {
                    self.happens(session, assembled());
                }
            }
            Effect::PlanCalls { session, token, calls } => {
                let tools = &self.ports.tools;
                let plan = scheduled(|| {
                    let parallel = |(name, arguments): &(String, String)| {
                        tools.is_parallel(&session, name, arguments)
                    };
                    calls.iter().map(parallel).collect()
                });
                let happened = match plan {
                    Ok(plan) => Happened::Planned(token, plan),
                    Err(why) => Happened::CallsFailed(token, why),
                };
                self.happens(session, happened);
            }
            Effect::CallModel { door, session, token, request } => {
                let (host, heard) = (self.host.clone(), session.clone());
                let sink: Sink<Chunk> = Box::new(move |chunk| {
                    let happened = Happened::Chunk(token, chunk);
                    host.send(Event::Happened { session: heard.clone(), happened });
                });
                let stop = self.ports.models_of(&door).call(request, sink);
                self.running.insert((session, token), stop);
            }
            Effect::Judge { session, token, call } => {
                let (host, heard) = (self.host.clone(), session.clone());
                let sink = Box::new(move |judgement| {
                    let happened = Happened::Judged(token, judgement);
                    host.send(Event::Happened { session: heard.clone(), happened });
                });
                if let Err(why) = scheduled(|| self.ports.tools.judge(call, sink)) {
                    self.happens(session, Happened::CallsFailed(token, why));
                }
            }
            Effect::AskHooks { session, token, ask } => {
                let (host, heard) = (self.host.clone(), session.clone());
                let (tools, called) = (Arc::clone(&self.ports.tools), called(&ask));
                let sink: Sink<HookAnswer> = Box::new(move |answer| {
                    let answer = finished(tools.as_ref(), &heard, called.as_deref(), answer);
                    let happened = Happened::Hooked(token, answer);
                    host.send(Event::Happened { session: heard.clone(), happened });
                });
                match &self.hooks {
                    Some(hooks) => match begun(|| hooks.ask(ask, sink)) {
                        Some(stop) => {
                            self.running.insert((session, token), stop);
                        }
                        None => self.happens(session, Happened::Hooked(token, HookAnswer::none())),
                    },
                    // Asked at points that nobody was configured for.
                    None => sink(HookAnswer::none()),
                }
            }
            Effect::StopHooks { session, token } => {
                if let Some(stop) = self.running.remove(&(session, token)) {
                    stop.stop();
                }
            }
            Effect::Observe(seen) => {
                if let Some(hooks) = &self.hooks {
                    // Nobody waits for those who watch.
                    begun(|| hooks.observe(seen));
                }
            }
            Effect::Delegated { run, event } => {
                let over = !matches!(event, DelegationEvent::Started { .. });
                if let Some(sink) = self.delegations.get(&run) {
                    sink(event);
                }
                if over {
                    self.delegations.remove(&run);
                }
            }
            Effect::Ordered { order, result } => {
                if let Some(sink) = self.orders.remove(&order) {
                    sink(result);
                }
            }
            Effect::Equip { session, toolset } => self.ports.tools.equip(&session, toolset),
            Effect::Answer { question, answer } => {
                if let Some(sink) = self.questions.remove(&question) {
                    sink(answer);
                }
            }
            Effect::RunTool { session, token, call } => {
                let (host, heard) = (self.host.clone(), session.clone());
                // Hooks that are still to see it come before the tool's own last touch (L-55).
                let finisher = (!self.reviews).then(|| Arc::clone(&self.ports.tools));
                let name = call.name.clone();
                let sink = Box::new(move |mut outcome| {
                    if let Some(tools) = &finisher {
                        outcome = touched(tools.as_ref(), &heard, &name, outcome);
                    }
                    let happened = Happened::ToolEnded(token, outcome);
                    host.send(Event::Happened { session: heard.clone(), happened });
                });
                let name = call.name.clone();
                match begun(|| self.ports.tools.call(call, sink)) {
                    Some(stop) => {
                        self.running.insert((session, token), stop);
                    }
                    None => self.happens(session, Happened::ToolEnded(token, failed(&name))),
                }
            }
            // A stopped attempt is not waited for; a stopped tool still reports its end.
            Effect::StopModel { session, token } => {
                if let Some(stop) = self.running.remove(&(session, token)) {
                    stop.stop();
                }
            }
            Effect::StopTool { session, token } => {
                if let Some(stop) = self.running.get(&(session, token)) {
                    stop.stop();
                }
            }
            Effect::Timer { session, token, after_ms } => {
                let host = self.host.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(after_ms)).await;
                    host.send(Event::Happened { session, happened: Happened::Timer(token) });
                });
            }
            Effect::TerminateTools { session, kill_after_ms } => {
                self.ports.tools.terminate(&session, kill_after_ms);
                self.end_hooks(&session);
            }
            Effect::ForgetTools { session } => {
                self.ports.tools.forget(&session);
                self.end_hooks(&session);
            }
            Effect::Release { session } => self.ports.store.release(&session),
            Effect::Quiesced { connection, failures } => {
                let link = self.links.remove(&connection);
                if let Some(quiesced) = link.and_then(|link| link.quiesced) {
                    // Whoever waited may have given up at its hard stop.
                    let _ = quiesced.send(failures);
                }
            }
            Effect::Quiet { failures } => {
                for done in self.ending.drain(..) {
                    let _ = done.send(failures.clone());
                }
            }
        }
    }

    fn end_hooks(&self, session: &SessionId) {
        if let Some(hooks) = &self.hooks {
            hooks.end(session);
        }
    }

    fn happens(&mut self, session: SessionId, happened: Happened) {
        self.next.push_back(Event::Happened { session, happened });
    }
}

/// Milliseconds since the epoch; 0 on a machine whose clock stands before it.
pub(crate) fn epoch_ms() -> u64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        Err(before) => {
            error!(%before, "the clock stands before 1970");
            0
        }
    }
}
