//! Sessions on their way to a client: the checks of `session/new` and `session/resume`, the subscription in front of the
//! first of them, and what is asked of the host before either is answered (A-33 to A-39, A-111, A-118).

use std::mem;

use transom_guest::{Outputs, jsonrpc::RequestId};

use crate::{
    choices::Selection,
    conversation::{Conversation, OPENING_MAX, SESSIONS_MAX},
    desk::{Desk, Opening},
    message::Request,
    options::Surface,
    params::{self, Workspace},
    servers,
    state::{Pending, Session, Subscription, Wanted},
    translate::{self, ID_BYTES_MAX, PATH_BYTES_MAX, Refusal, members, number},
};

impl Conversation {
    /// The checks of A-33 and A-111, in their order.
    pub(crate) fn new_session(
        &mut self,
        out: &mut Outputs,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        let surface = self.memory.surface;
        let wanted = params::new_session(request.params, surface)
            .map_err(|issues| Refusal::schema(&issues))?;
        self.may_work(&wanted)?;
        self.want(out, request, &wanted, None)
    }

    /// `session/resume`: history is gone on with and not shown again (A-118).
    pub(crate) fn resume_session(
        &mut self,
        out: &mut Outputs,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        let wanted = params::resume(request.params).map_err(|issues| Refusal::schema(&issues))?;
        self.may_work(&wanted)?;
        let id = &*wanted.session;
        if self.is_active(id) {
            return Err(Refusal::params(format!("session is already active: {id}")));
        }
        // No host has such an id, and a bound keeps what is remembered small.
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            let id = translate::shown(id);
            return Err(Refusal::params(format!("session is not resumable: {id}")));
        }
        self.want(out, request, &wanted, Some(id.into()))
    }

    /// Whether the connection has the session, or will.
    fn is_active(&self, id: &str) -> bool {
        let resumes = |wanted: &Option<Box<str>>| wanted.as_deref() == Some(id);
        let waiting = match &self.memory.subscription {
            Subscription::Asked(waiting) => waiting.as_slice(),
            Subscription::None | Subscription::Made => &[],
        };
        let is_here = |session: &Session| {
            !session.removed || session.desk.as_ref().is_some_and(|desk| !desk.closing.is_empty())
        };
        self.memory.sessions.get(id).is_some_and(is_here)
            || waiting.iter().any(|wanted| resumes(&wanted.resumes))
            || self.memory.pending.values().any(
                |pending| matches!(pending, Pending::Open { resumes: wanted, .. } if resumes(wanted)),
            )
    }

    fn may_work(&self, wanted: &Workspace<'_>) -> Result<(), Refusal> {
        may_be_cwd(&wanted.cwd)?;
        if wanted.directories {
            return Err(Refusal::params("additionalDirectories is not supported"));
        }
        match self.memory.surface {
            Surface::Automation if wanted.servers.is_some() => {
                Err(Refusal::params("mcpServers is not supported"))
            }
            Surface::Automation => Ok(()),
            Surface::Standard => servers::check(wanted.servers),
        }
    }

    fn want(
        &mut self,
        out: &mut Outputs,
        request: &Request<'_>,
        wanted: &Workspace<'_>,
        resumes: Option<Box<str>>,
    ) -> Result<(), Refusal> {
        let opening = self.unsettled();
        if opening >= OPENING_MAX || self.memory.sessions.len() + opening >= SESSIONS_MAX {
            return Err(Refusal::unexpected("this connection has all the sessions that it may"));
        }

        let cwd = (&*wanted.cwd).into();
        let wanted = Wanted { request: request.id.clone(), cwd, resumes };
        match &mut self.memory.subscription {
            Subscription::Made => self.open_session(out, wanted),
            Subscription::Asked(waiting) => waiting.push(wanted),
            // Made first, so that nothing of a session is missed.
            Subscription::None => {
                self.memory.subscription = Subscription::Asked(vec![wanted]);
                let models = match self.memory.surface {
                    Surface::Automation => "",
                    Surface::Standard => r#","models""#,
                };
                let body = format!(
                    r#"{{"scope":"owned","topics":["events","status","inbox","asks","errors","sessions"{models}]}}"#
                );
                self.ask(out, "events/subscribe", None, body, Some(Pending::Subscribe));
            }
        }
        Ok(())
    }

    fn open_session(&mut self, out: &mut Outputs, wanted: Wanted) {
        let Wanted { request, cwd, resumes } = wanted;
        let body = match &resumes {
            None => translate::open(&cwd, &self.options),
            Some(_) => translate::reopen(&cwd, &self.options),
        };
        let id = resumes.clone();
        let pending = Pending::Open { request: Some(request), resumes };
        self.ask(out, "session/open", id.as_deref(), body, Some(pending));
    }

    pub(crate) fn subscribed(&mut self, out: &mut Outputs, answer: Result<&str, &str>) {
        let next = if answer.is_ok() { Subscription::Made } else { Subscription::None };
        let Subscription::Asked(waiting) = mem::replace(&mut self.memory.subscription, next) else {
            return;
        };
        for wanted in waiting {
            match answer {
                Ok(_) => self.open_session(out, wanted),
                Err(failure) => {
                    let resumes = wanted.resumes.as_deref();
                    refuse_opening(out, &wanted.request, resumes, failure);
                }
            }
        }
    }

    pub(crate) fn opened(
        &mut self,
        out: &mut Outputs,
        request: Option<RequestId>,
        resumes: Option<Box<str>>,
        session: Option<&str>,
        body: &str,
    ) {
        match (request, session) {
            (Some(request), Some(id)) => {
                let mut session = Session::default();
                match self.memory.surface {
                    Surface::Automation => {
                        out.unit(translate::result(&request, &translate::session(id)));
                    }
                    Surface::Standard => {
                        session.desk =
                            Some(Box::new(self.lay_out(out, request, resumes, id, body)));
                    }
                }
                self.memory.sessions.insert(id.into(), session);
            }
            // Nobody wants it any more.
            (None, Some(id)) => self.ask(out, "session/close", Some(id), "{}".to_owned(), None),
            (Some(request), None) => {
                let refusal = Refusal::unexpected("the host's reply names no session");
                out.unit(translate::error(&request, &refusal));
            }
            (None, None) => {}
        }
    }

    /// What may be chosen of a session is learnt before its client learns of it (A-111).
    fn lay_out(
        &mut self,
        out: &mut Outputs,
        request: RequestId,
        resumes: Option<Box<str>>,
        id: &str,
        body: &str,
    ) -> Desk {
        let pending = Pending::Models { session: Some(id.into()) };
        self.ask(out, "models/list", None, "{}".to_owned(), Some(pending));
        let route = members(body, ["route"]).and_then(|[route]| route).unwrap_or("{}");
        Desk {
            cwd: translate::text_of(body, "cwd").unwrap_or_default().into(),
            opening: Some(Opening {
                request: Some(request),
                resumes: resumes.is_some(),
                route: route.into(),
            }),
            ..Desk::default()
        }
    }

    /// The models are listed; now what the session's route comes to.
    pub(crate) fn models_listed(
        &mut self,
        out: &mut Outputs,
        id: &str,
        answer: Result<&str, &str>,
    ) {
        let desk = self.memory.sessions.get_mut(id).and_then(|session| session.desk.as_mut());
        let Some(Opening { route, .. }) = desk.and_then(|desk| desk.opening.as_ref()) else {
            return;
        };
        match answer {
            Ok(catalogue) => {
                let body = route.to_string();
                self.memory.catalogue = Some(catalogue.into());
                let pending = Pending::Route { session: id.into() };
                self.ask(out, "models/check", None, body, Some(pending));
            }
            Err(failure) => {
                let (_, message) = translate::failure(failure);
                self.abandon(out, id, &Refusal::unexpected(&message));
            }
        }
    }

    /// Everything about a session is known: its client learns of it.
    pub(crate) fn routed(&mut self, out: &mut Outputs, id: &str, answer: Result<&str, &str>) {
        let desk = self.memory.sessions.get_mut(id).and_then(|session| session.desk.as_mut());
        let Some(desk) = desk else { return };
        let Some(Opening { request, resumes, route }) = desk.opening.take() else { return };
        desk.selection = Selection::of(answer.ok(), &route);
        let window = answer.ok().and_then(|reply| members(reply, ["contextWindow"]));
        desk.window = window.and_then(|[window]| number(window));
        let Some(request) = request else {
            self.memory.sessions.remove(id);
            return self.ask(out, "session/close", Some(id), "{}".to_owned(), None);
        };
        let options = self.config_options(id);
        let result = match resumes {
            true => format!("{{\"configOptions\":{options}}}"),
            false => {
                let session = translate::session(id);
                let session = session.strip_suffix('}').unwrap_or_default();
                format!("{session},\"configOptions\":{options}}}")
            }
        };
        out.unit(translate::result(&request, &result));
    }

    /// A session that nobody has been told of comes to nothing.
    fn abandon(&mut self, out: &mut Outputs, id: &str, refusal: &Refusal) {
        let session = self.memory.sessions.remove(id);
        let opening = session.and_then(|session| session.desk?.opening);
        if let Some(request) = opening.and_then(|opening| opening.request) {
            out.unit(translate::error(&request, refusal));
        }
        self.ask(out, "session/close", Some(id), "{}".to_owned(), None);
    }
}

/// A directory that a client names.
pub(crate) fn may_be_cwd(cwd: &str) -> Result<(), Refusal> {
    if !cwd.starts_with('/') {
        let cwd = translate::shown(cwd);
        return Err(Refusal::params(format!("cwd must be an absolute path: {cwd}")));
    }
    if cwd.len() > PATH_BYTES_MAX {
        return Err(Refusal::params(format!("cwd is longer than {PATH_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// What the host has against a session. One that cannot be gone on with is the client's mistake (A-118).
pub(crate) fn refuse_opening(
    out: &mut Outputs,
    request: &RequestId,
    resumes: Option<&str>,
    failure: &str,
) {
    let (code, message) = translate::failure(failure);
    let refusal = match (resumes, &*code) {
        (Some(id), "session-live" | "session-exists") => {
            Refusal::params(format!("session is already active: {id}"))
        }
        (Some(id), "session-not-found" | "not-resumable") => {
            Refusal::params(format!("session is not resumable: {id}"))
        }
        (Some(_), "session-conflict") => {
            let details = members(failure, ["details"]).and_then(|[details]| details);
            let cwd = details.and_then(|details| translate::text_of(details, "requestedCwd"));
            Refusal::params(format!("session cwd does not match: {}", cwd.unwrap_or_default()))
        }
        _ => Refusal::unexpected(&message),
    };
    let method = if resumes.is_some() { "session/resume" } else { "session/new" };
    translate::note_refused(out, method, request, refusal.code);
    out.unit(translate::error(request, &refusal));
}
