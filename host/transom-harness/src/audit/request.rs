//! What the log says of requests besides their messages: header and context, each written when it says
//! something new (L-37), and the answers that name their route.

use std::collections::HashSet;

use super::{Checked, bad, ensure, envelope::Envelope};
use crate::vocabulary::Members;

/// The last header and context.
#[derive(Debug, Default)]
pub(super) struct Request {
    /// JSON text.
    pub(super) header: Option<String>,
    route: Option<(String, String)>,
    /// This driver has written a header.
    told: bool,
    pub(super) context: Option<(String, String, Option<u64>)>,
    /// Ids of all series of retries so far.
    series: HashSet<String>,
}

impl Request {
    pub(super) fn driver_begins(&mut self) {
        self.told = false;
    }

    pub(super) fn header(&mut self, event: &Envelope<'_>) -> Checked {
        let right = match (&self.header, self.told) {
            (None, _) => "initial",
            (Some(_), false) => "resume",
            (Some(_), true) => "change",
        };
        let reason = event.text("reason");
        ensure(reason == right, "L-37", || {
            format!("the reason of this request/header must be {right}, got {reason}")
        })?;
        let Some(header) = event.data.raw("header") else { return Ok(()) };
        let same = self.header.as_deref() == Some(header.get());
        ensure(!same || !self.told, "L-37", || {
            "request/header, although it is the same as the last one".to_owned()
        })?;
        let config = event.data.object("header").and_then(|header| header.object("config"));
        self.route = config.map(|config| route(&config));
        self.header = Some(header.get().to_owned());
        self.told = true;
        Ok(())
    }

    pub(super) fn context(&mut self, event: &Envelope<'_>) -> Checked {
        let (provider, model) = route(&event.data);
        let named = Some((provider.clone(), model.clone()));
        ensure(named == self.route, "L-37", || {
            format!(
                "request/context must be of the route of the request/header before it, got {provider} {model}"
            )
        })?;
        let context = Some((provider, model, event.data.count("contextWindow")));
        ensure(context != self.context, "L-37", || {
            "request/context, although it is the same as the last one".to_owned()
        })?;
        self.context = context;
        Ok(())
    }

    /// Something of an attempt: what was asked stands before it.
    pub(super) fn is_known(&self, kind: &str) -> Checked {
        ensure(self.told, "L-37", || format!("{kind} before the request/header of its driver"))?;
        let of = self.context.as_ref().map(|(provider, model, _)| (provider, model));
        let route = self.route.as_ref().map(|(provider, model)| (provider, model));
        ensure(of == route, "L-37", || format!("{kind} before the request/context of its route"))
    }

    pub(super) fn is_route_of(&self, provider: &str) -> Checked {
        match &self.route {
            Some((asked, _)) if asked != provider => {
                bad("L-41", format!("llm/retry of provider {provider}, where {asked} was asked"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// An answer's source is the route that was asked (L-12).
    pub(super) fn answers(&self, message: &Members<'_>) -> Checked {
        let source = message.object("source").map(|source| route(&source));
        ensure(source == self.route, "L-12", || {
            let (provider, model) = self.route.clone().unwrap_or_default();
            format!("the message's source must be the route that was asked, {provider} {model}")
        })
    }

    /// A series of retries begins: it has an id of its own (L-41).
    pub(super) fn retry_series(&mut self, id: &str) -> Checked {
        ensure(self.series.insert(id.to_owned()), "L-41", || {
            format!("retryId \"{id}\" is that of another series")
        })
    }
}

fn route(of: &Members<'_>) -> (String, String) {
    let word = |name| of.text(name).unwrap_or_default().into_owned();
    (word("provider"), word("model"))
}
