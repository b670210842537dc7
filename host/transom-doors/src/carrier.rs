//! How units travel. Driving a carrier is left to `transom-io`.

/// A kind of wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// Standard input and output of this process.
    Stdio,
    /// A Unix socket of the user's own.
    Unix,
    /// An HTTP server.
    Http,
    /// WebSocket connections of an HTTP server.
    Websocket,
    /// Standard input and output of a process that the host started.
    Child,
    /// HTTP calls that the codec begins.
    HttpClient,
}

impl Carrier {
    /// Every carrier.
    pub const ALL: &'static [Carrier] = &[
        Carrier::Stdio,
        Carrier::Unix,
        Carrier::Http,
        Carrier::Websocket,
        Carrier::Child,
        Carrier::HttpClient,
    ];

    /// The name, as it stands in manifests and in the fact `carrier`.
    pub fn as_str(self) -> &'static str {
        match self {
            Carrier::Stdio => "stdio",
            Carrier::Unix => "unix",
            Carrier::Http => "http",
            Carrier::Websocket => "websocket",
            Carrier::Child => "child",
            Carrier::HttpClient => "http-client",
        }
    }

    /// The carrier of this name.
    pub fn parse(name: &str) -> Option<Carrier> {
        Carrier::ALL.iter().copied().find(|carrier| carrier.as_str() == name)
    }
}
