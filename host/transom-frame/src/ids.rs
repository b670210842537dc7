//! Newtypes for what is easily mixed up.

use std::{fmt, sync::Arc};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as it is; nothing is checked here.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                $name(text.into())
            }

            /// The text as it stands on the wire and in the log.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                $name(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                $name(text.into())
            }
        }
    };
}

text_id! {
    /// Names a durable session. Any non-empty text; storage encodes it (S-57).
    SessionId
}

text_id! {
    /// Names a message: UUID v4 text (S-52).
    MessageId
}

text_id! {
    /// Pairs a request with its answer, within one connection and direction.
    FrameId
}

/// One peer at one door, for as long as the process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
