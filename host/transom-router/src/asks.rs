//! Asks as objects of the host (decision 9): who may answer one, how peers learn of it, and how an
//! answer that does not fit is told apart from one that comes too late (P-14, P-15, B-136 to B-143).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use transom_frame::{ConnectionId, Frame, SessionId};
use transom_harness::{
    agent::{Approval, Happened},
    permissions::Outcome,
};

use crate::{
    Answers, Effect, QuestionId,
    peer::Asked,
    questions::{self, Closed},
    release::Item,
    request::{AskAnswer, AskSettle, Settled, Topic},
    router::Router,
    row,
};

/// An ask that nobody has decided yet.
#[derive(Debug)]
pub(crate) struct OpenAsk {
    /// UUID v4; the `rpcId` of a browser.
    pub(crate) id: String,
    pub(crate) session: SessionId,
    /// The session on top, where that is another one.
    pub(crate) root: Option<SessionId>,
    pub(crate) kind: Kind,
    /// The notice was shown, so a baseline may have it (decision 1h).
    pub(crate) shown: bool,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Approval(Approval),
    Question { question: QuestionId, questions: Value },
}

/// What peers are told of an ask.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told<'a> {
    ask_id: &'a str,
    kind: &'static str,
    /// In a baseline, which is about several sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    /// Of a session that works for another: the one on top of all, whose owner is asked (P-24).
    #[serde(skip_serializing_if = "Option::is_none")]
    root_session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    questions: Option<&'a Value>,
    /// Once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
}

/// Who had asked.
enum AskOf {
    Approval(String),
    Question(QuestionId),
}

impl Kind {
    fn id(&self) -> AskOf {
        match self {
            Kind::Approval(approval) => AskOf::Approval(approval.id.clone()),
            Kind::Question { question, .. } => AskOf::Question(*question),
        }
    }
}

impl OpenAsk {
    /// The body of `ask/opened`.
    fn opened(&self) -> Told<'_> {
        let ask_id = self.id.as_str();
        let root_session_id = self.root.as_ref().map(SessionId::as_str);
        match &self.kind {
            Kind::Approval(approval) => Told {
                ask_id,
                kind: "approval",
                root_session_id,
                approval_id: Some(&approval.id),
                tool_name: Some(&approval.tool_name),
                call_id: Some(&approval.call_id),
                reason: approval.reason.as_deref(),
                arguments: Some(&approval.arguments),
                ..Told::default()
            },
            Kind::Question { questions, .. } => Told {
                ask_id,
                kind: "question",
                root_session_id,
                questions: Some(questions),
                ..Told::default()
            },
        }
    }

    /// The body of `ask/closed`.
    fn closed<'a>(&'a self, outcome: &'a str) -> Told<'a> {
        let Told { ask_id, kind, approval_id, .. } = self.opened();
        Told { ask_id, kind, approval_id, outcome: Some(outcome), ..Told::default() }
    }

    /// What a baseline says of it.
    pub(crate) fn baseline(&self) -> Told<'_> {
        Told { session_id: Some(self.session.as_str()), ..self.opened() }
    }

    fn is_approval(&self, approval: &str) -> bool {
        matches!(&self.kind, Kind::Approval(asked) if asked.id == approval)
    }
}

impl Router {
    /// Whether anybody would answer what this session asks (P-14).
    pub(crate) fn has_answerer(&self, session: &SessionId) -> bool {
        if self.host.always_answered {
            return true;
        }
        let Some(live) = self.sessions.get(session) else { return false };
        let Some((owner, peer)) = live.owner.and_then(|id| self.peers.get(&id).map(|p| (id, p)))
        else {
            return false;
        };
        peer.facts.answers != Answers::Never && peer.watches(owner, live, Topic::Asks)
    }

    /// Puts a call to whoever decides; without anybody, that is the answer.
    pub(crate) fn open_approval(
        &mut self,
        out: &mut Vec<Effect>,
        session: &SessionId,
        approval: Approval,
    ) -> Option<Happened> {
        if !self.has_answerer(session) {
            let outcome = Outcome::Unavailable;
            return Some(Happened::Decided { approval: approval.id, outcome });
        }
        self.open_ask(out, session, Kind::Approval(approval));
        None
    }

    pub(crate) fn open_ask(&mut self, out: &mut Vec<Effect>, session: &SessionId, kind: Kind) {
        let root =
            self.sessions.get(session).map(|live| &live.root).filter(|root| *root != session);
        let root = root.cloned();
        let id = self.chance.uuid();
        let ask = OpenAsk { id, session: session.clone(), root, kind, shown: false };
        let item = Item::AskOpened {
            session: session.clone(),
            ask: ask.id.clone(),
            body: row::text(&ask.opened()).into(),
        };
        self.open_asks.push(ask);
        self.push_item(out, session, item);
    }

    /// Removes an ask and tells peers how it came out.
    pub(crate) fn close_ask(&mut self, out: &mut Vec<Effect>, ask: &str, outcome: &str) {
        if let Some(item) = self.take_ask(ask, outcome) {
            let session = item.0;
            self.push_item(out, &session, item.1);
        }
    }

    /// Removes an ask. Gives what peers are told of it, if they have heard of it at all.
    fn take_ask(&mut self, ask: &str, outcome: &str) -> Option<(SessionId, Item)> {
        let at = self.open_asks.iter().position(|open| open.id == ask)?;
        let ask = self.open_asks.remove(at);
        let body = row::text(&ask.closed(outcome));
        let frame = Frame::notice("ask/closed", Some(ask.session.clone()), body);
        let item = Item::Notice { session: ask.session.clone(), topic: Topic::Asks, frame };
        ask.shown.then_some((ask.session, item))
    }

    /// The agent has its decision, by whomever.
    pub(crate) fn approval_decided(
        &mut self,
        out: &mut Vec<Effect>,
        approval: &str,
        outcome: Outcome,
    ) {
        let open = self.open_asks.iter().find(|ask| ask.is_approval(approval));
        let Some(id) = open.map(|ask| ask.id.clone()) else { return };
        let word = match outcome {
            Outcome::AllowedOnce => "allowed-once",
            Outcome::Rejected => "rejected",
            Outcome::Cancelled => "cancelled",
            Outcome::Unavailable => "unavailable",
        };
        self.close_ask(out, &id, word);
    }

    /// `ask/answer`: first whether anybody waits, then whether the answer fits (decision 10).
    pub(crate) fn answer_ask(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        asked: Asked,
        answer: AskAnswer,
    ) {
        let AskAnswer { ask_id, value, error } = answer;
        let Some(ask) = self.answerable(asked.connection, &ask_id) else {
            return self.receipt(out, None, asked, "not-pending");
        };
        let session = ask.session.clone();
        let settled = match (&ask.kind, value, error) {
            (_, Some(_), Some(_)) | (_, None, None) | (Kind::Approval(_), None, Some(_)) => None,
            (Kind::Approval(approval), Some(value), None) => {
                let outcome = decision(&session, approval, value);
                outcome.map(|outcome| {
                    let approval = approval.id.clone();
                    Either::Approval(Box::new(Happened::Decided { approval, outcome }))
                })
            }
            (Kind::Question { question, questions }, Some(value), None) => {
                questions::answer(&session, questions, value)
                    .map(|answer| Either::Question(*question, Closed::Answered(answer)))
            }
            (Kind::Question { question, .. }, None, Some(error)) => (error.code == "cancelled")
                .then_some(Either::Question(*question, Closed::Cancelled)),
        };
        match settled {
            None => self.receipt(out, Some(&session), asked, "invalid"),
            Some(Either::Approval(happened)) => {
                self.happened(out, now, &session, *happened);
                self.receipt(out, Some(&session), asked, "accepted");
            }
            Some(Either::Question(question, closed)) => {
                self.close_question(out, question, closed);
                self.receipt(out, Some(&session), asked, "accepted");
            }
        }
    }

    /// `ask/settle`: the owner ends an ask without an answer.
    pub(crate) fn settle_ask(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        asked: Asked,
        settle: &AskSettle,
    ) {
        let owned = |session: &SessionId| {
            self.sessions.get(session).is_some_and(|live| live.owner == Some(asked.connection))
        };
        let ask = self.open_asks.iter().find(|ask| ask.id == settle.ask_id && owned(&ask.session));
        let Some(ask) = ask else { return self.receipt(out, None, asked, "not-pending") };
        let session = ask.session.clone();
        match &ask.kind {
            Kind::Approval(approval) => {
                let outcome = match settle.outcome {
                    Settled::Cancelled => Outcome::Cancelled,
                    Settled::Unavailable => Outcome::Unavailable,
                };
                let happened = Happened::Decided { approval: approval.id.clone(), outcome };
                self.happened(out, now, &session, happened);
            }
            Kind::Question { question, .. } => {
                let question = *question;
                let closed = match settle.outcome {
                    Settled::Cancelled => Closed::Withdrawn,
                    Settled::Unavailable => Closed::Unavailable,
                };
                self.close_question(out, question, closed);
            }
        }
        self.receipt(out, Some(&session), asked, "accepted");
    }

    /// Ends asks that nobody is left to answer, after somebody has stopped listening.
    pub(crate) fn settle_unanswerable(&mut self, out: &mut Vec<Effect>, now: u64) {
        let orphaned: Vec<_> = self
            .open_asks
            .iter()
            .filter(|ask| !self.has_answerer(&ask.session))
            .map(|ask| (ask.session.clone(), ask.kind.id()))
            .collect();
        for (session, id) in orphaned {
            match id {
                AskOf::Approval(approval) => {
                    let outcome = Outcome::Unavailable;
                    self.happened(out, now, &session, Happened::Decided { approval, outcome });
                }
                AskOf::Question(question) => {
                    self.close_question(out, question, Closed::Unavailable);
                }
            }
        }
    }

    /// The ask, if this connection is shown asks of its session.
    fn answerable(&self, connection: ConnectionId, ask: &str) -> Option<&OpenAsk> {
        let ask = self.open_asks.iter().find(|open| open.id == ask)?;
        let live = self.sessions.get(&ask.session)?;
        let peer = self.peers.get(&connection)?;
        let owns = live.owner == Some(connection);
        let may = match peer.facts.answers {
            Answers::Always => true,
            Answers::Owned => owns,
            Answers::Never => false,
        };
        (may && (owns || peer.watches(connection, live, Topic::Asks))).then_some(ask)
    }

    /// Says what became of an answer, behind what it has led to.
    fn receipt(
        &mut self,
        out: &mut Vec<Effect>,
        session: Option<&SessionId>,
        asked: Asked,
        receipt: &str,
    ) {
        let body = json!({ "receipt": receipt }).to_string();
        match session {
            Some(session) => self.reply(out, session, asked, body),
            None => self.give(out, asked.connection, Frame::reply(&asked.frame, None, body)),
        }
    }

    /// Ends what a session that leaves still asks: its place in the release order is reached.
    pub(crate) fn close_asks_of(&mut self, out: &mut Vec<Effect>, session: &SessionId) {
        while let Some(open) = self.open_asks.iter().find(|ask| ask.session == *session) {
            let (ask, kind) = (open.id.clone(), &open.kind);
            if let Kind::Question { question, .. } = kind {
                out.push(Effect::Answer {
                    question: *question,
                    answer: Closed::Withdrawn.answer(),
                });
            }
            if let Some((_, item)) = self.take_ask(&ask, "cancelled") {
                self.show(out, item);
            }
        }
    }
}

/// What an answer decides, if it is about this ask and says what may be said (B-137).
fn decision(session: &SessionId, approval: &Approval, value: Value) -> Option<Outcome> {
    let decision: Decision = serde_json::from_value(value).ok()?;
    let fits = decision.session_id == session.as_str() && decision.approval_id == approval.id;
    fits.then_some(match decision.outcome {
        Decided::AllowedOnce => Outcome::AllowedOnce,
        Decided::Rejected => Outcome::Rejected,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Decision {
    session_id: String,
    approval_id: String,
    outcome: Decided,
}

/// What a peer may decide; the other outcomes are the host's.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Decided {
    AllowedOnce,
    Rejected,
}

/// What an answer settles.
enum Either {
    Approval(Box<Happened>),
    Question(QuestionId, Closed),
}
