//! What the loop needs from the world: models, tools, a store. The machines of this crate never
//! call these; the driver does, when it performs their effects.

use std::{path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use transom_frame::{Failure, SessionId};

use crate::{
    block::Block,
    catalogue::Catalogue,
    chunk::Chunk,
    hooks::{Context, HookAnswer, HookAsk},
    jobs::{JobKind, JobRecord},
    message::Message,
    permissions::Access,
    subagents::{Capabilities, ChildOrder, ChildRefused, Nature, Obeyed, Toolset},
};

/// Receives what a port produces. May be called from any thread, and must not block.
pub type Sink<T> = Box<dyn Fn(T) + Send + Sync>;

/// Something that was started and can be told to stop. Dropping it stops nothing.
pub trait Stop: Send + Sync {
    /// Asks for an early end. The sink is still told how it ended.
    fn stop(&self);
}

/// Which model answers, and how (`Route` of `frames.md`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Name under which the provider is registered; there is no default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The provider's name for it; without one, the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Output cap in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// In the provider's words, for example `high`; without it, the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
}

/// A route as a provider will serve it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Name under which the provider is registered, for example `deepseek-official`.
    pub provider: String,
    /// The provider's name for it.
    pub model: String,
    /// Output cap in tokens; `None` sends none.
    pub max_tokens: Option<u64>,
    /// In the provider's words; `None` sends none.
    pub reasoning_effort: Option<String>,
    /// `max_tokens` is the provider's default, not the caller's wish.
    pub max_tokens_is_default: bool,
    /// `reasoning_effort` is the provider's default, not the caller's wish.
    pub reasoning_effort_is_default: bool,
    /// Tokens that fit into one request and its answer.
    pub context_window: Option<u64>,
    /// Whether messages may carry images.
    pub images: bool,
}

/// When a failed attempt is made again (L-41).
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// `None`: always, whatever the code.
    pub normal: Option<NormalRetry>,
    /// Before the first retry; doubles with each further one.
    pub initial_delay_ms: u64,
    /// No delay is longer, not even one that the provider asks for.
    pub max_delay_ms: u64,
    /// Share of the delay, 0 to 1, by which chance may change it.
    pub jitter_ratio: f64,
}

/// When a bounded number of retries is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NormalRetry {
    /// Retries of one step, the first attempt not counted.
    pub max_retries: u32,
    /// Sorted.
    pub codes: Vec<String>,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        let codes = ["EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT"];
        RetryPolicy {
            normal: Some(NormalRetry { max_retries: 2, codes: codes.map(str::to_owned).to_vec() }),
            initial_delay_ms: 500,
            max_delay_ms: 10_000,
            jitter_ratio: 0.1,
        }
    }
}

/// One attempt's worth of input for a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The session that asks.
    pub session: SessionId,
    /// Checked by `Models::serve`.
    pub served: Served,
    /// The system prompt, if there is any.
    pub system: Option<Arc<str>>,
    /// The surface, oldest first (L-9).
    pub messages: Vec<Arc<Message>>,
    /// Sorted by name (L-95); may be empty.
    pub tools: Arc<[ToolSpec]>,
}

/// The model providers of a host.
pub trait Models: Send + Sync {
    /// Checks a route without calling anybody: `no-adapter`, `model-unavailable`,
    /// `effort-unsupported`.
    fn serve(&self, route: &Route) -> Result<Served, Failure>;

    /// What there is to choose from. Advisory: other models may be served as well (B-133).
    fn catalogue(&self) -> Catalogue;

    /// The policy of whoever answers for the provider; the default for an unknown one.
    fn retry_policy(&self, provider: &str) -> RetryPolicy;

    /// Starts an attempt. The sink receives chunks in order; the last one, always, is a `Finish`.
    /// A stopped attempt finishes as `aborted` with code `ABORTED`.
    fn call(&self, request: ModelRequest, sink: Sink<Chunk>) -> Box<dyn Stop>;
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Unique within the host.
    pub name: String,
    /// For the model: when and how to use it.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// One call of a tool.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The session that calls.
    pub session: SessionId,
    /// The directory of shell and file tools; absolute.
    pub cwd: Option<String>,
    /// The workspace root: where `cwd` really stood when the session was given it (P-5). `None`: it was not there then.
    pub root: Option<String>,
    /// Chosen by the model provider; pairs call and result.
    pub call_id: String,
    /// As the model wrote it; there may be no such tool.
    pub name: String,
    /// Raw text as the model produced it (L-54).
    pub arguments: String,
    /// What it may do; widened if its ask was granted.
    pub access: Access,
    /// The session's jobs as its log has them, oldest first; new ones are numbered from here (P-66).
    pub jobs: Arc<[JobRecord]>,
}

/// Whether a call may begin: arguments, rules and escalation, in the order of P-30.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "lives for one call")]
pub enum Judgement {
    /// It runs with the access it has.
    Run,
    /// It does not run, and this is its result.
    Refuse(ToolOutcome),
    /// A person decides.
    Ask(Box<Wanted>),
}

/// What is asked of a person, and what each answer comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Why somebody has to decide; stands in `approval/asked`.
    pub reason: Option<String>,
    /// What the call may do if it is allowed.
    pub granted: Access,
    /// The result if it is rejected.
    pub rejected: ToolOutcome,
    /// The result if the ask is cancelled.
    pub cancelled: ToolOutcome,
    /// The result if nobody can answer.
    pub unavailable: ToolOutcome,
    /// The call has begun with its ask: `cancelled` is its result even in a cancelled turn (P-19), where other calls
    /// are recorded as never dispatched (L-62).
    pub begun: bool,
}

/// A job that a call has started; logged right before the call's result (P-78).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedJob {
    /// `<kind>-<n>`.
    pub id: String,
    /// What it runs.
    pub kind: JobKind,
    /// The whole command or description.
    pub label: String,
    /// Epoch milliseconds.
    pub started_at: u64,
}

/// What a tool call came to.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutcome {
    /// What the model is shown.
    pub content: Vec<Block>,
    /// Tells the model that the call failed.
    pub is_error: bool,
    /// Only for errors of the harness itself (L-55).
    pub error: Option<ToolErrorCode>,
    /// What the content was made of; hooks see it, and nothing keeps it (L-59).
    pub value: Option<Box<Value>>,
    /// Told to the model with the next step, besides the content (L-58).
    pub contexts: Vec<Context>,
    /// For people's eyes; never sent to the model (L-59).
    pub meta: Option<Value>,
    /// The turn is complete with this result.
    pub concludes: bool,
    /// The job that runs on behind the result.
    pub job: Option<StartedJob>,
    /// The session's list of what is to be done, if the call has replaced it: items with `content` and `status`.
    pub todos: Option<Box<Value>>,
}

/// Which error of the harness a result stands for (L-55).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolErrorCode {
    /// For example `ToolNotFoundError`.
    pub name: String,
    /// For example `UNKNOWN_TOOL`.
    pub code: String,
}

impl ToolOutcome {
    /// A success with a single text block.
    pub fn text(text: impl Into<String>) -> ToolOutcome {
        ToolOutcome {
            content: vec![Block::text(text)],
            is_error: false,
            error: None,
            value: None,
            contexts: Vec::new(),
            meta: None,
            concludes: false,
            job: None,
            todos: None,
        }
    }

    /// An error result with the text `Error: <message>`; `error` is name and code where the harness
    /// itself refuses.
    pub fn error(message: &str, error: Option<(&str, &str)>) -> ToolOutcome {
        ToolOutcome {
            content: vec![Block::text(format!("Error: {message}"))],
            is_error: true,
            error: error
                .map(|(name, code)| ToolErrorCode { name: name.to_owned(), code: code.to_owned() }),
            value: None,
            contexts: Vec::new(),
            meta: None,
            concludes: false,
            job: None,
            todos: None,
        }
    }
}

/// The session whose model is about to be told of tools.
#[derive(Debug, Clone)]
pub struct Asker {
    /// Its id.
    pub session: SessionId,
    /// As in [`ToolCall`].
    pub cwd: Option<String>,
    /// As in [`ToolCall`].
    pub root: Option<String>,
    /// Whether its model takes images.
    pub images: bool,
}

/// The tools of a host.
pub trait Tools: Send + Sync {
    /// Gives a session tools of its own, and keeps others from it, until it is forgotten. Comes before anything else
    /// of that session (L-53, L-67).
    fn equip(&self, session: &SessionId, toolset: Toolset);

    /// What the model of a session may be told, sorted by name (L-95).
    fn specs(&self, session: &SessionId) -> Arc<[ToolSpec]>;

    /// What it is told for a step, where that depends on the session's directory and model.
    fn specs_for(&self, asker: &Asker) -> Arc<[ToolSpec]> {
        self.specs(&asker.session)
    }

    /// Whether `specs_for` looks at files for a session, and so is no work for the loop's own thread.
    fn specs_need_disk(&self, _session: &SessionId) -> bool {
        false
    }

    /// Notes whether a session's model takes images, on the loop's own thread: `forget` undoes it however long
    /// `specs_for` takes.
    fn note(&self, _session: &SessionId, _images: bool) {}

    /// Whether this call of a session may overlap its neighbours (L-57).
    fn is_parallel(&self, session: &SessionId, name: &str, arguments: &str) -> bool;

    /// Says whether a call may begin. The sink is called once, perhaps before this returns.
    fn judge(&self, call: ToolCall, sink: Sink<Judgement>);

    /// Starts a call that was judged, which decodes and validates the arguments itself. The sink is called once, with an
    /// outcome that `finish` has not seen.
    fn call(&self, call: ToolCall, sink: Sink<ToolOutcome>) -> Box<dyn Stop>;

    /// What stands in the log in the end: the tool's own last touch to the content, behind everybody who could replace it
    /// (L-55).
    fn finish(&self, _session: &SessionId, _name: &str, outcome: ToolOutcome) -> ToolOutcome {
        outcome
    }

    /// Drops what is remembered of a session, for example which files it has read.
    fn forget(&self, session: &SessionId);

    /// Ends every child process and every job at once (`SIGTERM` now, `SIGKILL` after `kill_after_ms`). The ends of
    /// jobs are reported with the cause `Teardown`.
    fn terminate(&self, session: &SessionId, kill_after_ms: u64);
}

/// Whoever has a say at the points of a turn (L-31, L-55).
pub trait Hooks: Send + Sync {
    /// Asks. The sink is called once, unless it is stopped before; a hook that fails is answered for (`docs/hooks.md`).
    fn ask(&self, ask: HookAsk, sink: Sink<HookAnswer>) -> Box<dyn Stop>;

    /// Tells of a result. What comes of that is nobody's business here.
    fn observe(&self, seen: HookAsk);

    /// Ends everything that still runs for a session.
    fn end(&self, session: &SessionId);
}

/// Work that a session hands to another (`agent-loop.md` §13).
#[derive(Debug, Clone)]
pub struct Delegation {
    /// The session that hands it on.
    pub parent: SessionId,
    /// A few words for people; the child's label.
    pub description: String,
    /// The child's first message.
    pub prompt: String,
    /// The parent's, captured when the call was judged (P-23).
    pub access: Access,
    /// The parent's directory; absolute. `None`: it has none. Who runs the child elsewhere has no other one (L-69).
    pub directory: Option<PathBuf>,
    /// What the child is besides.
    pub nature: Nature,
}

/// What becomes of a delegation, in this order; `Kept`, `Ended` and `Refused` are last.
#[derive(Debug, Clone, PartialEq)]
pub enum DelegationEvent {
    /// The child is there (L-66).
    Started {
        /// Its id, which is the agent's as well.
        child: SessionId,
    },
    /// The child has its task, and lives on after it (L-72). What becomes of it is told to its parent (P-80).
    Kept,
    /// It could not be started; for the model.
    Refused(String),
    /// The run is over, and everything of it is released; one in another process that was stopped may still be ending
    /// (L-70).
    Ended {
        /// `completed`, `aborted`, `error`, `max-tokens`, `refusal` (L-66).
        stop_reason: String,
        /// The child's last words; empty where there are none.
        output: Vec<Block>,
        /// For the model: what whoever ran the child has to say about how it ended.
        diagnostic: Option<String>,
    },
}

/// Who runs delegations: this host's own sessions, or agents in other processes.
pub trait Subagents: Send + Sync {
    /// What a delegation may ask of it (L-69). Nothing, unless it says otherwise.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Starts a run. Stopping it ends the run as aborted.
    fn start(&self, delegation: Delegation, sink: Sink<DelegationEvent>) -> Box<dyn Stop>;
}

/// Who carries words between sessions and the children that they keep (L-72).
pub trait Children: Send + Sync {
    /// Carries out what a session wants. The sink is called once.
    fn order(
        &self,
        session: &SessionId,
        order: ChildOrder,
        sink: Sink<Result<Obeyed, ChildRefused>>,
    );
}

/// Whoever puts questions to the person behind a session (L-65).
pub trait Questions: Send + Sync {
    /// Asks. `questions` is the array of L-65, checked by nobody yet; the answer is the JSON text of
    /// `{answers: […]}`, or an ASK code with a message for the model. Stopping it withdraws the question
    /// (`ASK_ABORTED`).
    fn ask(
        &self,
        session: &SessionId,
        questions: Value,
        sink: Sink<Result<String, AskRefused>>,
    ) -> Box<dyn Stop>;
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskRefused {
    /// One of the ASK codes of L-65, for example `NO_PROVIDER`.
    pub code: &'static str,
    /// For the model.
    pub message: String,
}

/// One event on its way to the store.
#[derive(Debug, Clone)]
pub struct Append {
    /// Position in the order in which the whole host appends; from 1, contiguous.
    pub number: u64,
    /// The session whose log grows.
    pub session: SessionId,
    /// JSON text of the session header; stored with the first event (L-73).
    pub header: Arc<str>,
    /// Place in the session's log, contiguous from 0.
    pub seq: u64,
    /// Epoch milliseconds.
    pub time: u64,
    /// The event's `type`.
    pub kind: Arc<str>,
    /// The whole envelope as JSON text, exactly as doors will see it.
    pub text: Arc<str>,
}

/// How far the store has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commit {
    /// Everything up to this number is durable.
    Through(u64),
    /// The batch `from..=through` was not stored, and nothing of it is.
    Failed {
        /// `Append::number` of the batch's first event.
        from: u64,
        /// `Append::number` of the batch's last event.
        through: u64,
        /// For people: why.
        message: String,
    },
}

/// A session as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSession {
    /// Names the session in every frame.
    pub id: SessionId,
    /// JSON text of the header.
    pub header: String,
    /// Number of stored events; the next event's `seq`.
    pub events: u64,
    /// Time of the last event, epoch milliseconds.
    pub updated_at: u64,
}

/// A run of events: from `from` on, until `limit` events or `bytes_max` bytes of text are read, and one event at
/// least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The `seq` of the first one.
    pub from: u64,
    /// At most so many events.
    pub limit: u64,
    /// Bytes of envelope text at which the run ends.
    pub bytes_max: u64,
}

impl Page {
    /// As many as `limit`, however long.
    pub fn events(from: u64, limit: u64) -> Page {
        Page { from, limit, bytes_max: u64::MAX }
    }
}

/// Bytes that are kept under the name of their digest (S-58).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// For example `image/png`; `None` if nobody said.
    pub media_type: Option<String>,
    /// The bytes themselves.
    pub bytes: Vec<u8>,
}

/// Where the bytes are that messages only name. Its functions wait for a disk.
pub trait Attachments: Send + Sync {
    /// Keeps bytes under `sha256:<hex of their digest>`, with what they are, and returns that name once they are
    /// durable. What was said first of equal bytes stays.
    fn keep_attachment(&self, bytes: &[u8], media_type: Option<&str>)
    -> Result<String, StoreError>;

    /// The attachment of that name, whose bytes have that digest; `None` if there is none, or can be none.
    fn attachment(&self, name: &str) -> Result<Option<Attachment>, StoreError>;
}

/// The durable log. Commits are reported, in order, to the sink given to the store's constructor.
pub trait Store: Attachments {
    /// Queues events for the next commit; never waits.
    fn append(&self, events: Vec<Append>);

    /// The session of that id; `None` if nothing of it is stored.
    fn find(&self, id: &SessionId) -> Result<Option<StoredSession>, StoreError>;

    /// Makes a session this process's own, whether it is stored or not, until it is released or the process
    /// ends (L-82). `false`: it is live in another process.
    fn claim(&self, id: &SessionId) -> Result<bool, StoreError>;

    /// Gives a claim back; another process may have the session from here on.
    fn release(&self, id: &SessionId);

    /// A run of a session's events, envelopes as JSON text.
    fn read(&self, id: &SessionId, page: Page) -> Result<Vec<Arc<str>>, StoreError>;

    /// All sessions, the one with the newest event first.
    fn list(&self) -> Result<Vec<StoredSession>, StoreError>;

    /// The session's last `session/title` event, as JSON text; `None` if it has none, or nothing of it is stored.
    /// A store that can look for it faster than by reading everything does so.
    fn titled(&self, id: &SessionId) -> Result<Option<Arc<str>>, StoreError> {
        let (mut from, mut last) = (0, None);
        loop {
            let events = self.read(id, Page { from, limit: 4096, bytes_max: 4 << 20 })?;
            if events.is_empty() {
                return Ok(last);
            }
            from += events.len() as u64;
            last = events.into_iter().rfind(|event| is_title(event)).or(last);
        }
    }

    /// Waits until everything queued is durable, then closes.
    fn close(&self) -> Result<(), StoreError>;
}

/// Whether the JSON text of an event is that of a title.
fn is_title(event: &str) -> bool {
    #[derive(Deserialize)]
    struct Typed {
        r#type: String,
    }

    // Most events are none, and need not be parsed to know it.
    event.contains("session/title")
        && serde_json::from_str::<Typed>(event).is_ok_and(|typed| typed.r#type == "session/title")
}

/// Why the store could not do it; the text is for logs and people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The file is another program's, or of another version.
    #[error("{0}")]
    Foreign(String),
    /// Reading or writing failed.
    #[error("{0}")]
    Io(String),
}
