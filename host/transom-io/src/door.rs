//! A door as it is open now: everything that a connection at it needs.

use std::sync::Arc;

use transom_connection::{
    Serving,
    codec::{CodecError, Fields, Framing, Setup},
};
use transom_doors::Answers;
use transom_policy::Policy;
use transom_router::{Facts, Reach};

use crate::{redact::Redactor, slot::Slot};

/// A protocol offered at one address.
#[derive(Clone)]
pub struct OpenDoor {
    /// The door's name in the configuration; logs and facts carry it.
    pub name: Arc<str>,
    /// What serves its connections.
    pub slot: Arc<Slot>,
    /// How lane 0 of its connections is cut.
    pub framing: Framing,
    /// Which sessions its connections may act on.
    pub reach: Reach,
    /// Whose asks its peers answer.
    pub answers: Answers,
    /// The host's working directory; absolute.
    pub directory: Arc<str>,
    /// What of its bodies is not for the log.
    pub redactor: Arc<Redactor>,
}

/// What the carrier knows of a peer.
#[derive(Debug, Clone)]
pub struct PeerFacts {
    /// For example `stdio` or `unix`.
    pub carrier: &'static str,
    /// For people: who is at the other end.
    pub peer: String,
    /// The process ends with this connection.
    pub owns_process: bool,
}

impl OpenDoor {
    /// Opens one codec as a peer would have it and drops it again: options that the codec refuses are found
    /// before anybody connects.
    pub fn try_out(&self, serving: &Serving) -> Result<(), CodecError> {
        let peer = PeerFacts { carrier: "stdio", peer: String::new(), owns_process: false };
        let setup = Setup { options: serving.options.to_string(), ..self.setup(&peer, (0, 0), 0) };
        serving.source.open(&setup).map(drop)
    }

    /// All but the options, which are those of what serves.
    pub(crate) fn setup(&self, peer: &PeerFacts, seed: (u64, u64), opened: u64) -> Setup {
        let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let facts: Fields = vec![
            fact("door", &self.name),
            fact("carrier", peer.carrier),
            fact("peer", &peer.peer),
            fact("owns-process", if peer.owns_process { "true" } else { "false" }),
            fact("directory", &self.directory),
            fact("opened", &opened.to_string()),
        ];
        Setup { framing: self.framing, seed, options: String::new(), facts }
    }

    pub(crate) fn facts(&self, policy: &Policy, peer: &PeerFacts) -> Facts {
        let limits = &policy.limits;
        Facts {
            door: Arc::clone(&self.name),
            reach: self.reach,
            sees_stored: self.reach == Reach::All || peer.owns_process,
            answers: match self.answers {
                Answers::Never => transom_router::Answers::Never,
                Answers::Owned => transom_router::Answers::Owned,
                Answers::Always => transom_router::Answers::Always,
            },
            live_notices_max: usize::try_from(limits.live_notices_max).unwrap_or(usize::MAX),
            sessions_max: usize::try_from(limits.sessions_max).unwrap_or(usize::MAX),
        }
    }
}
