//! Endpoint and key of one request, and the rules of L-86 for both. Storing them is left to whoever
//! implements [`Credentials`].

use std::fmt;

use reqwest::{Url, header::HeaderValue};
use transom_harness::chunk::LlmFailure;

/// Where requests go unless configured otherwise.
pub const DEFAULT_BASE_URL: &str = "https://api.deepseek.com";

/// Endpoint and key as they are now. Asked once per request.
pub trait Credentials: Send + Sync {
    /// Both from the same moment and the same place.
    fn snapshot(&self) -> Endpoint;
}

impl<F: Fn() -> Endpoint + Send + Sync> Credentials for F {
    fn snapshot(&self) -> Endpoint {
        self()
    }
}

/// One snapshot.
#[derive(Clone, Default)]
pub struct Endpoint {
    /// Base URL; absent or blank means [`DEFAULT_BASE_URL`].
    pub base_url: Option<String>,
    /// The key as it was stored; blank means none.
    pub key: Option<Key>,
}

/// A secret. It can be sent, and it cannot be printed.
#[derive(Clone)]
pub struct Key(String);

impl Key {
    /// Takes the key as it was found; white space around it is not part of it.
    pub fn new(text: impl AsRef<str>) -> Key {
        Key(text.as_ref().trim().to_owned())
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(hidden)")
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("base_url", &self.shown()).field("key", &self.key).finish()
    }
}

impl Endpoint {
    /// The `authorization` header, marked so that no layer below prints it.
    pub(super) fn bearer(&self) -> Result<HeaderValue, LlmFailure> {
        let key = self.key.as_ref().map(Key::reveal).unwrap_or_default();
        if key.is_empty() {
            return Err(LlmFailure::new(
                "MISSING_CREDENTIAL",
                "no DeepSeek API key: set DEEPSEEK_API_KEY or store a key",
            ));
        }
        let invalid = || {
            LlmFailure::new(
                "INVALID_CREDENTIAL",
                "the DeepSeek API key has a character that no key has: only printable ASCII without blanks",
            )
        };
        if !key.bytes().all(|byte| matches!(byte, 0x21..=0x7e)) {
            return Err(invalid());
        }
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| invalid())?;
        value.set_sensitive(true);
        Ok(value)
    }

    pub(super) fn url(&self) -> Result<Url, LlmFailure> {
        self.address().ok_or_else(|| {
            let shown = self.shown();
            LlmFailure::new(
                "INVALID_REQUEST",
                format!(
                    "\"{shown}\" is no base URL: expected http:// or https://, a host, a path; no user, no query"
                ),
            )
        })
    }

    fn address(&self) -> Option<Url> {
        // The base is looked at by itself: with a path behind it, `http://` would name a host `chat`.
        let base = self.base();
        let (_, host) = base.split_once("://")?;
        let url = Url::parse(base).ok()?;
        // A user or a password would go into the header that the key needs.
        let plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if host.starts_with('/') || !plain || !matches!(url.scheme(), "http" | "https") {
            return None;
        }
        Url::parse(&format!("{base}/chat/completions")).ok()
    }

    /// The base URL as it may be shown: whoever put a password or a token into one did not mean to
    /// publish it.
    pub(super) fn shown(&self) -> String {
        let base = self.base();
        if self.address().is_some() {
            return base.to_owned();
        }
        let (plain, query) = match base.find(['?', '#']) {
            Some(at) => (base.get(..at).unwrap_or_default(), "?…"),
            None => (base, ""),
        };
        match plain.rsplit_once('@') {
            Some((_, rest)) => format!("…@{rest}{query}"),
            None => format!("{plain}{query}"),
        }
    }

    fn base(&self) -> &str {
        let base = self.base_url.as_deref().unwrap_or_default().trim().trim_end_matches('/');
        if base.is_empty() { DEFAULT_BASE_URL } else { base }
    }
}

#[cfg(test)]
mod tests;
