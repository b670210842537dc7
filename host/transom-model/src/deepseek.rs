//! `deepseek-official`: chat completions over server-sent events (L-86 to L-94). Where endpoint and
//! key come from is the program's to say; when to try again is the loop's.

mod assembly;
mod body;
mod credentials;
mod failure;
mod lines;

use std::{future::Future, pin::Pin, sync::OnceLock, time::Duration};

use eventsource_stream::{EventStream, EventStreamError};
use futures_util::StreamExt;
use reqwest::{
    Client, Response, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, USER_AGENT},
    redirect,
};
use tokio::{task::consume_budget, time::timeout};
use transom_harness::{
    catalogue::Advertised,
    chunk::{Chunk, Finish, LlmFailure},
    ports::{ModelRequest, RetryPolicy},
};

pub use crate::deepseek::credentials::{Credentials, DEFAULT_BASE_URL, Endpoint, Key};
use crate::{
    answer::Chunks,
    deepseek::{
        assembly::Assembly,
        failure::{Bound, Upstream},
        lines::Broken,
    },
    providers::{Offer, Provider, no_effort},
};

/// The id under which clients ask for this provider (decision 57).
pub const ID: &str = "deepseek-official";

/// Output cap where nobody names one.
const MAX_TOKENS: u64 = 256_000;

/// Tokens that fit into one request and its answer.
const CONTEXT_WINDOW: u64 = 1_000_000;

/// Unused connections are closed after this time, below the idle limits common on servers, so that
/// a request seldom meets a connection that is just being closed.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// How much of the body of a refusal is read. Its message is a sentence; the rest is of no use.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// Product token; the user id of L-87 is never sent.
const PRODUCT: &str = concat!("transom/", env!("CARGO_PKG_VERSION"));

/// What an operator may set.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Longest silence within the body, longest wait for the response's head, and longest time for
    /// the body of a refusal.
    pub idle_ms_max: u64,
    /// Most bytes of one event of the stream. Real events hold a fragment of a few bytes.
    pub event_bytes_max: usize,
    /// Most bytes of one answer, reasoning and calls included. Several hundred thousand tokens are
    /// some megabytes of text; each piece of it counts 64 bytes more, which is what it costs at least.
    pub answer_bytes_max: usize,
    /// Tokens that fit into one request and its answer.
    pub context_window: u64,
    /// Output cap in tokens where a route names none.
    pub max_tokens: u64,
    /// How hard models think where a route names nothing; must be one of the efforts there are. `None`: `high`, or `off`
    /// without thinking.
    pub effort: Option<String>,
    /// Whether models may reason. If not, `off` is the only effort.
    pub thinking: bool,
    /// When a failed attempt is made again. `STREAM_CLOSED` is retried only where its codes name it
    /// (decision 67): the key of the policy in recorded logs fixes the default list.
    pub retry: RetryPolicy,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            idle_ms_max: 300_000,
            event_bytes_max: 4 * 1024 * 1024,
            answer_bytes_max: 64 * 1024 * 1024,
            context_window: CONTEXT_WINDOW,
            max_tokens: MAX_TOKENS,
            effort: None,
            thinking: true,
            retry: RetryPolicy::default(),
        }
    }
}

/// The provider. Making one costs nothing: the HTTP client is built at the first request.
pub struct DeepSeek {
    credentials: Box<dyn Credentials>,
    settings: Settings,
    client: OnceLock<Result<Client, String>>,
}

impl DeepSeek {
    /// A provider that asks `credentials` anew for every request.
    pub fn new(credentials: impl Credentials + 'static, settings: Settings) -> DeepSeek {
        DeepSeek { credentials: Box::new(credentials), settings, client: OnceLock::new() }
    }

    fn efforts(&self) -> &'static [&'static str] {
        if self.settings.thinking { &["off", "high", "max"] } else { &["off"] }
    }

    async fn attempt(&self, request: &ModelRequest, out: &Chunks) -> Result<Finish, LlmFailure> {
        let served = &request.served;
        if let Some(effort) = &served.reasoning_effort
            && !self.efforts().contains(&effort.as_str())
        {
            let message = no_effort(&served.provider, &served.model, effort);
            return Err(LlmFailure::new("UNSUPPORTED_REASONING_EFFORT", message));
        }
        // One snapshot: a key never travels to an endpoint it was not stored with.
        let endpoint = self.credentials.snapshot();
        let bearer = endpoint.bearer()?;
        let upstream = Upstream::new(&endpoint, self.settings.idle_ms_max);
        let body = body::render(request, self.settings.thinking)?;
        let response = self.send(request, &endpoint, bearer, body, &upstream).await?;
        let request_id = upstream.request_id(response.headers());
        let outcome = match response.status() {
            StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT => Err(upstream.no_body()),
            status if status.is_success() => self.read(response, &upstream, out).await,
            _ => Err(self.refusal(response, &upstream).await),
        };
        outcome.map_err(|mut failure| {
            failure.request_id = request_id;
            failure
        })
    }

    async fn send(
        &self,
        request: &ModelRequest,
        endpoint: &Endpoint,
        bearer: HeaderValue,
        body: Vec<u8>,
        upstream: &Upstream,
    ) -> Result<Response, LlmFailure> {
        let url = endpoint.url()?;
        let client = match self.client.get_or_init(build) {
            Ok(client) => client,
            Err(message) => return Err(LlmFailure::new("UNKNOWN", message.clone())),
        };
        let mut call = client
            .post(url)
            .header(AUTHORIZATION, bearer)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .header(USER_AGENT, PRODUCT);
        // An id may hold anything (S-57), a header may not.
        if let Ok(session) = HeaderValue::from_str(request.session.as_str()) {
            call = call.header("x-deepseek-harness-session-id", session);
        }
        match timeout(self.idle(), call.body(body).send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                let error = failure::causes(&error);
                tracing::debug!(error = %upstream.hide(&error), "model request failed");
                Err(upstream.unreachable())
            }
            Err(_) => Err(upstream.silent()),
        }
    }

    async fn read(
        &self,
        response: Response,
        upstream: &Upstream,
        out: &Chunks,
    ) -> Result<Finish, LlmFailure> {
        if response.content_length() == Some(0) {
            return Err(upstream.no_body());
        }
        let encoding = response.headers().get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
        if let Some(encoding) = encoding.filter(|encoding| !is_plain(encoding)) {
            return Err(upstream.encoded(&String::from_utf8_lossy(encoding)));
        }
        let reads = Box::pin(response.bytes_stream());
        self.play(reads, upstream, out).await
    }

    /// Turns the body of a response into chunks. Apart from [`DeepSeek::read`] so that tests can
    /// pass reads of their own, in virtual time.
    async fn play<S, B, E>(
        &self,
        reads: S,
        upstream: &Upstream,
        out: &Chunks,
    ) -> Result<Finish, LlmFailure>
    where
        S: futures_util::Stream<Item = Result<B, E>> + Unpin,
        B: AsRef<[u8]>,
        E: std::error::Error,
    {
        let lines = lines::whole(reads, self.idle(), self.settings.event_bytes_max);
        let mut events = Box::pin(EventStream::new(lines));
        let mut assembly = Assembly::new(upstream, self.settings.answer_bytes_max);
        let mut put = |chunk: Chunk| out.put(chunk);
        while let Some(event) = events.next().await {
            // One read can hold thousands of events: between them others run, and a stop is heard.
            consume_budget().await;
            match event {
                Ok(event) if event.data.trim() == "[DONE]" => return Ok(assembly.done(&mut put)),
                Ok(event) => assembly.payload(&mut put, &event.data)?,
                Err(EventStreamError::Transport(Broken::Silent)) => return Err(upstream.silent()),
                Err(EventStreamError::Transport(Broken::Event(max))) => {
                    return Err(upstream.crossed(Bound::Event(max)));
                }
                Err(EventStreamError::Transport(Broken::Read(error))) => {
                    let error = failure::causes(&error);
                    tracing::debug!(error = %upstream.hide(&error), "model stream failed");
                    return Err(upstream.broken());
                }
                // Lines arrive here as valid UTF-8 with single line feeds, which always parse.
                Err(EventStreamError::Utf8(_) | EventStreamError::Parser(_)) => {
                    return Err(upstream.malformed(""));
                }
            }
        }
        Err(LlmFailure::new("STREAM_CLOSED", "SSE stream ended without [DONE]"))
    }

    async fn refusal(&self, response: Response, upstream: &Upstream) -> LlmFailure {
        let status = response.status().as_u16();
        let retry_after_ms =
            failure::retry_after_ms(response.headers(), std::time::SystemTime::now());
        let mut body = Vec::new();
        let mut reads = response.bytes_stream();
        // What has arrived by the time the body breaks, reaches its bound or has used up its time will
        // do: the status alone makes a failure. The time is for the whole, lest it drips in for days.
        let read = async {
            while body.len() < REFUSAL_BYTES_MAX
                && let Some(Ok(bytes)) = reads.next().await
            {
                body.extend_from_slice(&bytes);
            }
        };
        let _ = timeout(self.idle(), read).await;
        upstream.refused(status, &body, retry_after_ms)
    }

    fn idle(&self) -> Duration {
        Duration::from_millis(self.settings.idle_ms_max)
    }
}

impl Provider for DeepSeek {
    fn offer(&self, _model: &str) -> Offer {
        let efforts = self.efforts();
        let usual = if self.settings.thinking { "high" } else { "off" };
        let default = self.settings.effort.as_deref().unwrap_or(usual);
        Offer {
            model: None,
            max_tokens: Some(self.settings.max_tokens),
            efforts: efforts.iter().map(|effort| (*effort).to_owned()).collect(),
            effort: Some(default.to_owned()),
            context_window: Some(self.settings.context_window),
            images: false,
        }
    }

    /// L-86: any other name is passed on as well.
    fn advertised(&self) -> (String, Vec<Advertised>) {
        let model = |id: &str, name: &str| Advertised {
            id: id.to_owned(),
            name: name.to_owned(),
            ..Advertised::default()
        };
        let models = vec![
            model("deepseek-v4-flash", "DeepSeek-V4-Flash"),
            model("deepseek-v4-pro", "DeepSeek-V4-Pro"),
        ];
        ("DeepSeek".to_owned(), models)
    }

    fn retry_policy(&self) -> RetryPolicy {
        self.settings.retry.clone()
    }

    fn answer<'a>(
        &'a self,
        request: ModelRequest,
        out: &'a Chunks,
    ) -> Pin<Box<dyn Future<Output = Finish> + Send + 'a>> {
        Box::pin(async move {
            match self.attempt(&request, out).await {
                Ok(finish) => finish,
                Err(failure) => Finish::Error { failure },
            }
        })
    }
}

/// Whether a `content-encoding` leaves the body as it is.
fn is_plain(encoding: &[u8]) -> bool {
    let encoding = encoding.trim_ascii();
    encoding.is_empty() || encoding.eq_ignore_ascii_case(b"identity")
}

fn build() -> Result<Client, String> {
    // No redirects: a key goes to the endpoint it was stored for and nowhere else. No proxy from
    // the environment: reading that is the program's.
    Client::builder()
        .http1_only()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .pool_idle_timeout(POOL_IDLE)
        .build()
        .map_err(|error| format!("the HTTP client could not be built: {error}"))
}

#[cfg(test)]
mod tests;
