//! What only the standard surface does: it lists, closes and configures sessions, shows what happens in them in the order
//! of their logs, and settles prompts when all that work for a session rest (A-110 to A-127). How sessions begin is left
//! to `openings.rs`, texts to `output.rs`, `choices.rs` and `cursor.rs`.

use std::collections::VecDeque;

use transom_guest::{Outputs, jsonrpc::string};

use crate::{
    choices,
    conversation::{Conversation, OPENING_MAX},
    cursor,
    desk::{Held, Image, Tail},
    message::Request,
    openings::may_be_cwd,
    output::{Place, Shown},
    params,
    slot::{Ending, Fact, Outcome, Stop},
    state::Pending,
    translate::{self, Refusal, members, number, text_of, update_head},
};

/// Bytes that may come behind an event whose images have not come. The host reads them at once, so that more than this
/// means that it does not.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Requests that may wait for the end of one session.
const CLOSING_MAX: usize = 64;

/// What the client asks.
impl Conversation {
    pub(crate) fn standard_request(
        &mut self,
        out: &mut Outputs,
        method: &str,
        request: &Request<'_>,
    ) -> Result<Option<String>, Refusal> {
        match method {
            "session/list" => self.list(out, request).map(|()| None),
            "session/resume" => self.resume_session(out, request).map(|()| None),
            "session/close" => self.close_session(out, request).map(|()| None),
            "session/set_config_option" => self.choose(request).map(Some),
            unknown => Err(Refusal::unknown_method(unknown)),
        }
    }

    fn list(&mut self, out: &mut Outputs, request: &Request<'_>) -> Result<(), Refusal> {
        let (cwd, cursor) =
            params::list_sessions(request.params).map_err(|issues| Refusal::schema(&issues))?;
        if let Some(cwd) = &cwd {
            may_be_cwd(cwd)?;
        }
        let place = match cursor.map(|cursor| cursor::place(&cursor)) {
            Some(None) => return Err(Refusal::params("session/list cursor is invalid")),
            Some(place) => place,
            None => None,
        };
        if self.unsettled() >= OPENING_MAX {
            return Err(Refusal::unexpected("this connection has all the requests that it may"));
        }
        let body = translate::list(self.options.page_size, cwd.as_deref(), place);
        let pending = Pending::List { request: Some(request.id.clone()) };
        self.ask(out, "session/list", None, body, Some(pending));
        Ok(())
    }

    /// Cancelled first, then waited for, then closed (A-119).
    fn close_session(&mut self, out: &mut Outputs, request: &Request<'_>) -> Result<(), Refusal> {
        let id = params::close(request.params).map_err(|issues| Refusal::schema(&issues))?;
        let known = self.memory.known(&id).filter(|session| !session.removed);
        let Some(desk) = known.and_then(|session| session.desk.as_mut()) else {
            return Err(Refusal::not_found(&id));
        };
        if desk.closing.len() >= CLOSING_MAX {
            return Err(Refusal::params(format!("session is closing: {id}")));
        }
        desk.closing.push(request.id.clone());
        if desk.closing.len() == 1 {
            self.cancel(out, &id);
            self.wait_for_rest(out, &id, None);
        }
        Ok(())
    }

    /// At once, for prompts from here on (A-113).
    fn choose(&mut self, request: &Request<'_>) -> Result<String, Refusal> {
        let choice = params::choice(request.params).map_err(|issues| Refusal::schema(&issues))?;
        let catalogue = self.memory.catalogue.clone().unwrap_or_default();
        let id = &*choice.session;
        let known = self.memory.known(id).filter(|session| !session.removed);
        let Some(desk) = known.and_then(|session| session.desk.as_mut()) else {
            return Err(Refusal::unknown_session(id));
        };
        if !desk.closing.is_empty() {
            return Err(Refusal::params(format!("session is closing: {id}")));
        }
        let option = translate::shown(&choice.option);
        let Some(value) = &choice.value else {
            return Err(Refusal::params(format!("{option} requires a select value")));
        };
        let Some(selection) = &mut desk.selection else {
            return Err(Refusal::params("this session has no model selection"));
        };
        selection.choose(&catalogue, &option, &translate::shown(value))?;
        let options = choices::options(&catalogue, Some(selection));
        Ok(format!("{{\"configOptions\":{options}}}"))
    }

    /// The whole list of what may be chosen of a session.
    pub(crate) fn config_options(&self, id: &str) -> String {
        let desk = self.memory.sessions.get(id).and_then(|session| session.desk.as_ref());
        let selection = desk.and_then(|desk| desk.selection.as_ref());
        choices::options(self.memory.catalogue.as_deref().unwrap_or_default(), selection)
    }
}

/// What the host says.
impl Conversation {
    pub(crate) fn standard_answered(
        &mut self,
        out: &mut Outputs,
        pending: Pending,
        answer: Result<&str, &str>,
    ) {
        match pending {
            Pending::Models { session: Some(id) } => self.models_listed(out, &id, answer),
            Pending::Models { session: None } => self.models_listed_anew(out, answer),
            Pending::Route { session } => self.routed(out, &session, answer),
            Pending::List { request: Some(request) } => out.unit(match answer {
                Ok(reply) => translate::result(&request, &translate::sessions(reply)),
                Err(failure) => {
                    let (_, message) = translate::failure(failure);
                    translate::error(&request, &Refusal::unexpected(&message))
                }
            }),
            Pending::List { request: None } => {}
            // A session that cannot be waited for is gone, or its log is: nothing more of it comes.
            Pending::Settle { session, prompt } => self.all_rest(out, &session, prompt),
            Pending::Close { session } => self.closed(out, &session, answer),
            Pending::Image { session, attachment } => {
                self.image_read(out, &session, attachment, answer);
            }
            // Answered by whoever else listens.
            Pending::Subscribe
            | Pending::Open { .. }
            | Pending::Prompt { .. }
            | Pending::Rest { .. }
            | Pending::Check { .. } => {}
        }
    }

    /// Keeps whether the agent of a session runs.
    pub(crate) fn runs(&mut self, id: &str, name: &str, body: &str) {
        let desk = self.memory.sessions.get_mut(id).and_then(|session| session.desk.as_mut());
        if let Some(desk) = desk.filter(|_| name == "session/status") {
            desk.running = text_of(body, "status").is_some_and(|status| status == "running");
        }
    }

    /// Waits for the agent, and for a prompt's answer also for all that work for the session (A-124). A close ends those
    /// by itself, however long they would go on (A-119).
    pub(crate) fn wait_for_rest(&mut self, out: &mut Outputs, id: &str, prompt: Option<u64>) {
        let body = format!(r#"{{"descendants":{}}}"#, prompt.is_some());
        let pending = Pending::Settle { session: id.into(), prompt };
        self.ask(out, "session/wait", Some(id), body, Some(pending));
    }

    /// All rest, or did a moment ago: if a further turn has begun since, its end is waited for.
    fn all_rest(&mut self, out: &mut Outputs, id: &str, prompt: Option<u64>) {
        let Some(session) = self.memory.sessions.get_mut(id) else { return };
        let Some(desk) = session.desk.as_mut() else { return };
        if let Some(tail) = &mut desk.tail {
            return tail.held.push_back(Held::Settle { prompt });
        }
        let Some(prompt) = prompt else {
            // Whatever has begun meanwhile ends with the session.
            let outcome = Outcome::Stopped(Stop::Cancelled);
            self.settle(out, id, &outcome);
            let pending = Pending::Close { session: id.into() };
            return self.ask(out, "session/close", Some(id), "{}".to_owned(), Some(pending));
        };
        let Some(slot) = session.slot.as_ref().filter(|slot| slot.number == prompt) else { return };
        if slot.cancelled || !desk.running {
            let outcome = slot.rested();
            self.settle(out, id, &outcome);
        }
    }

    /// The session is gone, or was. Where the host keeps it, whoever wanted it closed is told so, and it goes on.
    fn closed(&mut self, out: &mut Outputs, id: &str, answer: Result<&str, &str>) {
        let why = answer.err().map(translate::failure).filter(|(code, _)| !is_gone(code));
        if let Some((_, why)) = why {
            let desk = self.memory.sessions.get_mut(id).and_then(|session| session.desk.as_mut());
            for request in desk.map(|desk| std::mem::take(&mut desk.closing)).unwrap_or_default() {
                let refusal = Refusal::unexpected(&why);
                translate::note_refused(out, "session/close", &request, refusal.code);
                out.unit(translate::error(&request, &refusal));
            }
            return;
        }
        let Some(session) = self.memory.sessions.remove(id) else { return };
        self.memory.permissions.retain(|_, permission| &*permission.session != id);
        for request in session.desk.into_iter().flat_map(|desk| desk.closing) {
            out.unit(translate::result(&request, "{}"));
        }
    }

    /// There may be other models now (A-114).
    pub(crate) fn models_changed(&mut self, out: &mut Outputs) {
        if self.memory.sessions.values().any(|session| session.desk.is_some()) {
            let pending = Pending::Models { session: None };
            self.ask(out, "models/list", None, "{}".to_owned(), Some(pending));
        }
    }

    fn models_listed_anew(&mut self, out: &mut Outputs, answer: Result<&str, &str>) {
        // What there was stays, until somebody says what there is.
        let Ok(catalogue) = answer else { return };
        self.memory.catalogue = Some(catalogue.into());
        for (id, session) in &self.memory.sessions {
            let Some(desk) = session.desk.as_ref().filter(|_| !session.removed) else { continue };
            if desk.opening.is_some() || !desk.closing.is_empty() {
                continue;
            }
            let mut unit = update_head(id);
            unit.push_str("{\"sessionUpdate\":\"config_option_update\",\"configOptions\":");
            unit.push_str(&choices::options(catalogue, desk.selection.as_ref()));
            unit.push_str("}}}");
            out.unit(unit);
        }
    }
}

/// What is shown, in the order of the log.
impl Conversation {
    /// Whether what is told of a session has to wait behind an event whose images have not come (A-120).
    pub(crate) fn holds_back(
        &mut self,
        out: &mut Outputs,
        id: &str,
        name: &str,
        body: &str,
    ) -> bool {
        let desk = self.memory.sessions.get_mut(id).and_then(|session| session.desk.as_mut());
        let Some(tail) = desk.and_then(|desk| desk.tail.as_mut()) else { return false };
        // Fragments are many, and never shown.
        if name == "session/event" && event(body).is_none() {
            return true;
        }
        tail.held.push_back(Held::Notice { name: name.into(), body: body.into() });
        if tail.bytes() > HELD_BYTES_MAX {
            self.end(out, true, "images do not come");
        }
        true
    }

    pub(crate) fn standard_event(&mut self, out: &mut Outputs, id: &str, body: &str) {
        match event(body) {
            None => {}
            Some(Event::Fact(fact)) => self.hear(out, id, fact),
            Some(Event::Window(window)) => {
                let session = self.memory.sessions.get_mut(id);
                if let Some(desk) = session.and_then(|session| session.desk.as_mut()) {
                    desk.window = window;
                }
            }
            Some(Event::Shown(shown)) => {
                let names = shown.attachments();
                if names.is_empty() {
                    return self.show(out, id, shown, &Tail::default());
                }
                let session = self.memory.sessions.get_mut(id);
                if let Some(desk) = session.and_then(|session| session.desk.as_mut()) {
                    let missing = names.len() as u64;
                    desk.tail = Some(Tail { event: body.into(), missing, ..Tail::default() });
                }
                for name in names {
                    let body = translate::attachment(&name);
                    let pending = Pending::Image { session: id.into(), attachment: name.into() };
                    self.ask(out, "attachment/read", Some(id), body, Some(pending));
                }
            }
        }
    }

    fn show(&mut self, out: &mut Outputs, id: &str, shown: Shown<'_>, tail: &Tail) {
        let Some(session) = self.memory.sessions.get_mut(id) else { return };
        let Some(desk) = &session.desk else { return };
        let (cwd, window, prompt_turn) = (&*desk.cwd, desk.window, session.prompt_turn);
        let place = Place { session: id, cwd, prompt_turn, window };
        let (updates, undelivered) = shown.updates(place, &tail.images);
        for update in updates {
            out.unit(update);
        }
        if let (Some(why), Some(slot)) = (undelivered, &mut session.slot) {
            slot.undelivered.get_or_insert(why);
        }
    }

    fn image_read(
        &mut self,
        out: &mut Outputs,
        id: &str,
        attachment: Box<str>,
        answer: Result<&str, &str>,
    ) {
        let desk = self.memory.sessions.get_mut(id).and_then(|session| session.desk.as_mut());
        let Some(desk) = desk else { return };
        let Some(tail) = &mut desk.tail else { return };
        let image = match answer {
            Ok(reply) => read_image(reply)
                .unwrap_or_else(|| Image::Failed("the host's reply holds no image".into())),
            Err(failure) => Image::Failed(translate::failure(failure).1.into()),
        };
        tail.images.insert(attachment, image);
        tail.missing = tail.missing.saturating_sub(1);
        if tail.missing > 0 {
            return;
        }
        let Some(mut tail) = desk.tail.take() else { return };
        let held = std::mem::take(&mut tail.held);
        if let Some(Event::Shown(shown)) = event(&tail.event) {
            self.show(out, id, shown, &tail);
        }
        self.go_on(out, id, held);
    }

    /// What was held back is told, as far as nothing of it has to wait again.
    fn go_on(&mut self, out: &mut Outputs, id: &str, mut held: VecDeque<Held>) {
        while let Some(next) = held.pop_front() {
            match next {
                Held::Notice { name, body } => self.told(out, id, &name, &body),
                Held::Settle { prompt } => self.all_rest(out, id, prompt),
            }
            let desk = self.memory.sessions.get_mut(id).and_then(|session| session.desk.as_mut());
            if let Some(tail) = desk.and_then(|desk| desk.tail.as_mut()) {
                return tail.held.append(&mut held);
            }
        }
    }
}

/// An event, as far as this surface looks at it.
enum Event<'a> {
    Shown(Shown<'a>),
    Fact(Fact),
    /// `request/context`.
    Window(Option<u64>),
}

fn event(body: &str) -> Option<Event<'_>> {
    let [kind, data] = members(body, ["type", "data"])?;
    let (kind, data) = (string(kind)?, data?);
    match &*kind {
        "turn/start" => {
            let [turn] = members(data, ["turn"])?;
            Some(Event::Fact(Fact::Began { turn: number(turn)? }))
        }
        "turn/end" => {
            let [turn, reason] = members(data, ["turn", "reason"])?;
            Some(Event::Fact(Fact::Ended { turn: number(turn)?, ending: ending(reason?)? }))
        }
        "request/context" => {
            let [window] = members(data, ["contextWindow"])?;
            Some(Event::Window(number(window)))
        }
        kind => Shown::of(kind, data).map(Event::Shown),
    }
}

/// Whether a failure says that there is no such session any more.
fn is_gone(code: &str) -> bool {
    matches!(code, "session-not-found" | "session-disposed")
}

/// The codec's column of A-67: what the other surface lowers is said here.
fn ending(reason: &str) -> Option<Ending> {
    match text_of(reason, "kind")? == "max-tokens" {
        true => Some(Ending::Stopped(Stop::MaxTokens)),
        false => translate::ending(reason),
    }
}

fn read_image(reply: &str) -> Option<Image> {
    let [attachment, data] = members(reply, ["attachment", "data"])?;
    let [media_type] = members(attachment?, ["mediaType"])?;
    Some(Image::Read { data: data?.into(), media_type: media_type?.into() })
}
