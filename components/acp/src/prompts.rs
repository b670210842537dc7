//! The way of a prompt through a session: its admission, what is heard of it, how it is settled or cancelled, and the
//! questions that its calls put to the client (A-41 to A-45, A-59 to A-84). What a slot makes of what is heard is
//! `slot.rs`'s; what only the standard surface does is left to `standard.rs`.

use transom_guest::{Outputs, jsonrpc::RequestId};

use crate::{
    content::{self, Images},
    conversation::Conversation,
    message::Request,
    options::Surface,
    params,
    permission::{self, Decision},
    slot::{Fact, Heard, Outcome, Slot, Stop},
    state::{Pending, Permission, Subscription},
    translate::{self, CANCELLED, INTERNAL_ERROR, Refusal},
};

/// Permission requests that a client may leave open: one for each session that it could be looking at.
pub(crate) const PERMISSIONS_MAX: usize = 1024;

impl Conversation {
    /// The checks of A-41, in their order.
    pub(crate) fn prompt(
        &mut self,
        out: &mut Outputs,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        let prompt = params::prompt(request.params).map_err(|issues| Refusal::schema(&issues))?;
        let number = self.memory.asked + 1;
        let takes_images = self.options.images;
        let advertised = takes_images && self.memory.images;
        let Some(session) = self.memory.known(&prompt.session) else {
            return Err(Refusal::unknown_session(&prompt.session));
        };
        if session.desk.as_ref().is_some_and(|desk| !desk.closing.is_empty()) {
            return Err(Refusal::params(format!("session is closing: {}", prompt.session)));
        }
        if session.slot.is_some() {
            return Err(Refusal::new(translate::INVALID_PARAMS, translate::IN_FLIGHT));
        }
        let images = match (advertised, session.desk.is_some() || takes_images) {
            (true, _) => Images::Advertised,
            (false, true) => Images::Unsaid,
            (false, false) => Images::Refused,
        };
        let content = content::content(&prompt.blocks, images).map_err(Refusal::params)?;
        if session.removed {
            return Err(Refusal::new(INTERNAL_ERROR, translate::NOT_QUEUED_DISPOSED));
        }
        let patient = session.desk.is_some();
        let selection = session.desk.as_ref().and_then(|desk| desk.selection.as_ref());
        let body = translate::prompt(&content, selection);
        session.slot = Some(Slot { patient, ..Slot::new(request.id.clone(), number) });
        let pending = Pending::Prompt { session: (&*prompt.session).into() };
        self.ask(out, "session/prompt", Some(&prompt.session), body, Some(pending));
        Ok(())
    }

    /// Stops whatever the session does. What waits in its inbox goes as well, whoever put it there (decisions 5 and 82).
    /// Its prompt is settled at once (A-78 to A-83), or on the standard surface when all rest (A-126).
    pub(crate) fn cancel(&mut self, out: &mut Outputs, id: &str) {
        let Some(session) = self.memory.known(id).filter(|session| !session.removed) else {
            return;
        };
        let standard = session.desk.is_some();
        let slot = if standard { None } else { session.slot.take() };
        let waits = session.slot.as_mut().and_then(|slot| {
            let number = (!slot.cancelled).then_some(slot.number);
            slot.cancelled = true;
            number
        });
        self.ask(out, "session/cancel", Some(id), r#"{"inbox":"clear"}"#.to_owned(), None);
        self.withdraw_permissions(out, id);
        if let Some(slot) = slot {
            out.unit(translate::outcome(&slot.request, &Outcome::Stopped(Stop::Cancelled)));
        }
        if let Some(prompt) = waits {
            self.wait_for_rest(out, id, Some(prompt));
        }
    }

    /// What the client was asked of a session is not asked any more, without waiting for it (A-64).
    pub(crate) fn withdraw_permissions(&mut self, out: &mut Outputs, id: &str) {
        let open = |permission: &Permission| &*permission.session == id;
        let withdrawn: Vec<_> = self
            .memory
            .permissions
            .extract_if(.., |_, permission| open(permission))
            .map(|(_, permission)| permission)
            .collect();
        for permission in withdrawn {
            self.answer(out, &permission, Decision::Cancelled);
        }
        let desk = self.memory.sessions.get_mut(id).and_then(|session| session.desk.as_mut());
        if let Some(tail) = desk.and_then(|desk| desk.tail.as_mut()) {
            tail.held.retain(|held| !held.is_named("ask/opened"));
        }
    }

    /// A client that takes one request back (A-85).
    pub(crate) fn cancel_request(&mut self, out: &mut Outputs, wanted: &RequestId) {
        let in_flight =
            self.memory.sessions.iter().find(|(_, session)| {
                session.slot.as_ref().is_some_and(|slot| slot.request == *wanted)
            });
        if let Some(id) = in_flight.map(|(id, _)| id.clone()) {
            return self.cancel(out, &id);
        }
        let under_way = self.memory.pending.values_mut().find_map(|pending| match pending {
            Pending::Open { request, .. } | Pending::List { request }
                if request.as_ref() == Some(wanted) =>
            {
                Some(request)
            }
            _ => None,
        });
        let laid_out = self.memory.sessions.values_mut().find_map(|session| {
            let opening = session.desk.as_mut()?.opening.as_mut()?;
            (opening.request.as_ref() == Some(wanted)).then_some(&mut opening.request)
        });
        // What is being opened for it is closed again when it is there.
        let taken = match (under_way.or(laid_out), &mut self.memory.subscription) {
            (Some(request), _) => request.take().is_some(),
            (None, Subscription::Asked(waiting)) => {
                let before = waiting.len();
                waiting.retain(|waiting| waiting.request != *wanted);
                waiting.len() < before
            }
            (None, Subscription::None | Subscription::Made) => false,
        };
        if taken {
            let refusal = Refusal::new(CANCELLED, "Request cancelled");
            out.unit(translate::error(wanted, &refusal));
        }
    }

    pub(crate) fn answer(
        &mut self,
        out: &mut Outputs,
        permission: &Permission,
        decision: Decision,
    ) {
        let (name, body) = permission::answer(decision, permission);
        self.ask(out, name, None, body, None);
    }

    pub(crate) fn hear(&mut self, out: &mut Outputs, id: &str, fact: Fact) {
        let slot = self.memory.sessions.get_mut(id).and_then(|session| session.slot.as_mut());
        if let Some(slot) = slot {
            let heard = slot.hear(fact);
            self.heard(out, id, heard);
        }
    }

    fn heard(&mut self, out: &mut Outputs, id: &str, heard: Heard) {
        let Some(session) = self.memory.sessions.get_mut(id) else { return };
        let Some(slot) = &session.slot else { return };
        session.prompt_turn = slot.turn().or(session.prompt_turn);
        match heard {
            Heard::Nothing => {}
            Heard::Settled(outcome) => self.settle(out, id, &outcome),
            Heard::Rests => {
                let number = slot.number;
                self.wait_for_rest(out, id, Some(number));
            }
            Heard::Waits => {
                let pending = Pending::Rest { session: id.into(), prompt: slot.number };
                self.ask(out, "session/describe", Some(id), "{}".to_owned(), Some(pending));
            }
        }
    }

    /// Answers the prompt in flight and frees its place, exactly once.
    pub(crate) fn settle(&mut self, out: &mut Outputs, id: &str, outcome: &Outcome) {
        let slot = self.memory.sessions.get_mut(id).and_then(|session| session.slot.take());
        let Some(slot) = slot else { return };
        // A prompt that has its answer never runs later (A-83). A cancel has taken it back already.
        if let Some(message) = slot.waiting_message().filter(|_| !slot.cancelled) {
            self.ask(out, "session/queue", Some(id), translate::remove(message), None);
        }
        out.unit(translate::outcome(&slot.request, outcome));
    }

    /// Asks that are not about one call of a tool, or neither of a session of this connection nor of one that works for
    /// it, have nobody here to answer them (A-61, A-96).
    pub(crate) fn ask_opened(&mut self, out: &mut Outputs, id: &str, body: &str) {
        let approval = permission::approval(body);
        let root = approval.as_ref().and_then(|approval| approval.root.as_deref());
        let (session, child) = root.map_or((id, None), |root| (root, Some(id)));
        let known = self.memory.known(session).is_some()
            && (child.is_none() || self.options.child_permissions)
            && self.memory.permissions.len() < PERMISSIONS_MAX;
        match approval.as_ref().filter(|_| known) {
            Some(approval) => {
                let number = self.memory.requested;
                self.memory.requested += 1;
                // Calls of children are not shown.
                let announced = self.memory.surface == Surface::Standard && child.is_none();
                let asked = permission::Asked { id: number, session, child, announced };
                out.unit(permission::request_permission(&asked, approval));
                let permission = Permission {
                    session: session.into(),
                    child: child.map(Into::into),
                    ask: approval.ask.as_ref().into(),
                    approval: approval.approval.as_ref().into(),
                };
                self.memory.permissions.insert(number, permission);
            }
            None => {
                if let Some(ask) = translate::text_of(body, "askId") {
                    let body = permission::settle(&ask, "unavailable");
                    self.ask(out, "ask/settle", None, body, None);
                }
            }
        }
    }

    /// The session was disposed behind the connection's back: its prompt is over, later ones are refused (A-41.7).
    pub(crate) fn removed(&mut self, out: &mut Outputs, id: &str) {
        self.memory.permissions.retain(|_, permission| &*permission.session != id);
        let Some(session) = self.memory.sessions.get_mut(id) else { return };
        if let Some(opening) = session.desk.as_mut().and_then(|desk| desk.opening.take()) {
            self.memory.sessions.remove(id);
            if let Some(request) = opening.request {
                let message = "Internal error: the session was closed while it was opened";
                let refusal = Refusal::new(INTERNAL_ERROR, message);
                out.unit(translate::error(&request, &refusal));
            }
            return;
        }
        session.removed = true;
        if let Some(slot) = session.slot.take() {
            out.unit(translate::outcome(&slot.request, &Outcome::Stopped(Stop::Cancelled)));
        }
    }

    /// The host has taken a prompt, or refused it. A refused one leaves its place free (A-43).
    pub(crate) fn queued(
        &mut self,
        out: &mut Outputs,
        id: &str,
        number: u64,
        answer: Result<&str, &str>,
    ) {
        let Some(session) = self.memory.sessions.get_mut(id) else { return };
        // It may have been settled meanwhile, and another may be in its place (A-76).
        let Some(slot) = session.slot.as_mut().filter(|slot| slot.number == number) else { return };
        let (code, message) = match answer {
            Ok(body) => match translate::text_of(body, "messageId") {
                Some(message) => {
                    let heard = slot.queued(message.into());
                    return self.heard(out, id, heard);
                }
                None => ("".into(), "the host's reply names no message".into()),
            },
            Err(failure) => translate::failure(failure),
        };
        if slot.cancelled {
            // Nothing of it was queued (A-131).
            let outcome = Outcome::Stopped(Stop::Cancelled);
            return self.settle(out, id, &outcome);
        }
        let selection = session.desk.as_ref().and_then(|desk| desk.selection.as_ref());
        let refusal = match &*code {
            "attachment-error" => {
                translate::image_refusal(answer.err().unwrap_or_default(), &message, selection)
            }
            "session-disposed" => Refusal::new(INTERNAL_ERROR, translate::NOT_QUEUED_DISPOSED),
            _ => {
                let message = format!("Internal error: prompt was not queued: {message}");
                Refusal::new(INTERNAL_ERROR, message)
            }
        };
        if let Some(slot) = session.slot.take() {
            out.unit(translate::error(&slot.request, &refusal));
        }
    }

    /// Whether the agent stays at rest over a message that waits. If it does, no turn will ever claim it (decision 7).
    pub(crate) fn rests(
        &mut self,
        out: &mut Outputs,
        id: &str,
        prompt: u64,
        answer: Result<&str, &str>,
    ) {
        let slot = self.memory.sessions.get(id).and_then(|session| session.slot.as_ref());
        let Some(slot) = slot.filter(|slot| slot.number == prompt) else { return };
        let running = answer.is_ok_and(translate::is_running);
        if slot.waiting_message().is_some() && !running {
            let outcome = slot.unclaimed();
            self.settle(out, id, &outcome);
        }
    }
}
