//! The codec contract in plain Rust: the same words as `wit/codec/0.1/codec.wit`, usable natively.

/// Milliseconds since the connection opened. Never runs back, not even over a swap.
pub type Millis = u64;
/// Names and values in order. Names are lower case and may repeat.
pub type Fields = Vec<(String, String)>;
/// A stream of the connection; 0 is its own wire.
pub type Lane = u32;

/// How the host cuts lane 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A line without its end.
    Lines,
    /// A WebSocket message; `open` runs before the upgrade is answered.
    Messages,
    /// One HTTP request and its response; the head is in the facts.
    Exchange,
    /// Nothing arrives unasked: the codec begins HTTP calls.
    Outbound,
    /// Bytes as they come.
    Chunks,
}

/// What a codec says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// The protocol's name, for example `sdk`.
    pub protocol: String,
    /// Revisions of the protocol that it speaks.
    pub revisions: Vec<String>,
    /// How the host may cut its wire.
    pub framings: Vec<Framing>,
    /// Frames it may send, by name or by prefix ending in `/*`.
    pub sends: Vec<String>,
    /// HTTP headers it sees.
    pub headers: Vec<String>,
    /// The format that `suspend` writes.
    pub state_format: u32,
    /// The state formats that `resume` accepts.
    pub resumes: Vec<u32>,
}

/// What a codec learns when its connection opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// How lane 0 is cut.
    pub framing: Framing,
    /// 128 bits of chance; the only source of it.
    pub seed: (u64, u64),
    /// JSON text of the door's options.
    pub options: String,
    /// What the host vouches for, never what a peer claims about itself.
    pub facts: Fields,
}

impl Setup {
    /// The first fact of this name.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What a frame is to the one who gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// Wants exactly one reply or failure.
    Request,
    /// Answers a request.
    Reply,
    /// Refuses a request: the body is `{code, message, details}`.
    Failure,
    /// Wants no answer.
    Notice,
}

/// One message in the host's own language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Request, reply, failure or notice.
    pub kind: FrameKind,
    /// The session it is about; bodies do not repeat it.
    pub session: Option<String>,
    /// Minted by the asker, echoed by reply and failure. Each direction counts for itself.
    pub id: Option<String>,
    /// For example `session/prompt`.
    pub name: String,
    /// JSON text.
    pub body: String,
}

impl Frame {
    /// A request; `id` is the codec's own.
    pub fn request(
        name: &str,
        session: Option<&str>,
        id: impl ToString,
        body: impl Into<String>,
    ) -> Frame {
        Frame {
            kind: FrameKind::Request,
            session: session.map(str::to_owned),
            id: Some(id.to_string()),
            name: name.to_owned(),
            body: body.into(),
        }
    }

    /// A notice.
    pub fn notice(name: &str, session: Option<&str>, body: impl Into<String>) -> Frame {
        Frame {
            kind: FrameKind::Notice,
            session: session.map(str::to_owned),
            id: None,
            name: name.to_owned(),
            body: body.into(),
        }
    }

    /// The reply to a request of the host.
    pub fn reply(request: &Frame, body: impl Into<String>) -> Frame {
        Frame { kind: FrameKind::Reply, body: body.into(), ..request.answered() }
    }

    /// The refusal of a request of the host; `body` is `{code, message, details}`.
    pub fn failure(request: &Frame, body: impl Into<String>) -> Frame {
        Frame { kind: FrameKind::Failure, body: body.into(), ..request.answered() }
    }

    /// What an answer repeats of its request.
    fn answered(&self) -> Frame {
        Frame {
            kind: FrameKind::Reply,
            session: self.session.clone(),
            id: self.id.clone(),
            name: self.name.clone(),
            body: String::new(),
        }
    }
}

/// What kind of unit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A line, text message, body or piece of one.
    Text,
    /// A binary message.
    Binary,
    /// What was left when the wire ended.
    Unfinished,
}

/// What the host's framing cut off the wire, or what shall be put there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The stream it belongs to.
    pub lane: Lane,
    /// Text, binary, or a rest.
    pub form: Form,
    /// Its content, without the framing.
    pub bytes: Vec<u8>,
}

/// Start line and headers; `:status`, `:method` and `:path` are ordinary names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The stream it opens or answers.
    pub lane: Lane,
    /// In order; names are lower case.
    pub fields: Fields,
}

/// Which bound a unit crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// More bytes than the door allows.
    TooLong,
    /// More levels of nesting than the host allows.
    TooDeep,
}

/// A unit that crossed a bound: dropped, counted, reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skipped {
    /// The stream it arrived on.
    pub lane: Lane,
    /// The bound that it crossed.
    pub why: Excess,
    /// How long it was.
    pub bytes: u64,
}

/// The other side sends no more here; with `broken`, nothing can be written here either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The stream that ended.
    pub lane: Lane,
    /// Why nothing can be written either; a half-close has none.
    pub broken: Option<String>,
}

/// How the connection is to be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    /// A WebSocket close code; other carriers ignore it.
    pub code: Option<u16>,
    /// For the log, and for peers whose protocol has a place for it.
    pub reason: String,
}

/// Why the host wants the connection to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// The host goes away.
    Shutdown,
    /// Another version takes the new connections.
    Replaced,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A head arrived on a lane.
    Head(Head),
    /// A unit arrived.
    Unit(Unit),
    /// A unit was dropped because it crossed a bound.
    Skipped(Skipped),
    /// The other side of a lane is done.
    End(Ending),
    /// The host says something.
    Frame(Frame),
    /// The moment asked for by `deadline` has come.
    Deadline,
    /// The connection shall come to an end of its own accord.
    Drain(Farewell),
    /// Growth within the track: ignore names you do not know.
    Other(String, String),
}

/// What must happen next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Begins a lane, or answers an exchange.
    Head(Head),
    /// Goes out on its lane.
    Unit(Unit),
    /// This side of the lane is complete.
    End(Lane),
    /// Break the lane off, visibly.
    Abort(Lane),
    /// Says something to the host.
    Frame(Frame),
    /// Replaces the earlier deadline and outlives a swap.
    Deadline(Option<Millis>),
    /// Once everything before it is written.
    Close(Closing),
    /// For logs: a name and JSON text.
    Note(String, String),
    /// Growth within the track: name and JSON text.
    Other(String, String),
}

/// What kind of reason ended the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// What arrived cannot be read at all.
    Malformed,
    /// What arrived is well formed but may not stand here.
    Misplaced,
    /// A version or feature that this side does not speak.
    Unsupported,
    /// Nothing arrived in time.
    Silent,
    /// This side failed.
    Internal,
}

impl FaultKind {
    /// The word of the interface.
    pub fn as_str(self) -> &'static str {
        match self {
            FaultKind::Malformed => "malformed",
            FaultKind::Misplaced => "misplaced",
            FaultKind::Unsupported => "unsupported",
            FaultKind::Silent => "silent",
            FaultKind::Internal => "internal",
        }
    }
}

/// Why the connection cannot go on. `detail` may be shown to the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Whose fault it is, and what sort.
    pub kind: FaultKind,
    /// One short sentence.
    pub detail: String,
}

impl Fault {
    /// A fault of this kind.
    pub fn new(kind: FaultKind, detail: impl Into<String>) -> Fault {
        Fault { kind, detail: detail.into() }
    }
}

/// Collects the outputs of one call, in order.
#[derive(Debug, Default)]
pub struct Outputs(Vec<Output>);

impl Outputs {
    /// Appends any output.
    pub fn push(&mut self, output: Output) {
        self.0.push(output);
    }

    /// One unit of text on the connection's own wire.
    pub fn unit(&mut self, bytes: impl Into<Vec<u8>>) {
        self.push(Output::Unit(Unit { lane: 0, form: Form::Text, bytes: bytes.into() }));
    }

    /// Says something to the host.
    pub fn frame(&mut self, frame: Frame) {
        self.push(Output::Frame(frame));
    }

    /// Asks to be woken at `at`, or no longer.
    pub fn deadline(&mut self, at: Option<Millis>) {
        self.push(Output::Deadline(at));
    }

    /// Ends the connection once everything before is written.
    pub fn close(&mut self, reason: impl Into<String>) {
        self.push(Output::Close(Closing { code: None, reason: reason.into() }));
    }

    /// A line for the host's log; `json` is JSON text.
    pub fn note(&mut self, name: &str, json: impl Into<String>) {
        self.push(Output::Note(name.to_owned(), json.into()));
    }

    /// What was collected.
    pub fn into_vec(self) -> Vec<Output> {
        self.0
    }
}

/// A codec: a value that is told what happened and answers with what must happen next.
pub trait Machine: Sized + 'static {
    /// What this codec is. Asked once when the component is loaded.
    fn describe() -> Manifest;

    /// A connection opens. Outputs may be given at once.
    fn open(out: &mut Outputs, setup: Setup) -> Result<Self, Fault>;

    /// Advances by one input. After a fault, every later call must fault again.
    fn handle(&mut self, out: &mut Outputs, now: Millis, input: Input) -> Result<(), Fault>;

    /// Every bit of state, in format `describe().state_format`. Only reads.
    fn suspend(&self) -> Vec<u8>;

    /// Goes on as if nothing had happened.
    fn resume(setup: Setup, format: u32, state: &[u8]) -> Result<Self, Fault>;
}
