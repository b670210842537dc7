//! Spans for a collector, as OTLP says them over HTTP in JSON. In the program with the feature `otlp` alone, and on where
//! `OTEL_EXPORTER_OTLP_ENDPOINT` names a collector. Which spans there are is decided by what is logged (`TRANSOM_LOG`).
//!
//! A collector that is slow or away costs spans and nothing else.

use std::{
    fmt,
    io::{self, Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    layer::Context,
    registry::{LookupSpan, SpanRef},
};

/// The variable that names the collector.
pub(crate) const VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Spans that wait to be sent: seconds of a busy host.
const WAITING_MAX: usize = 4096;

/// Spans of one request.
const BATCH_MAX: usize = 512;

/// How long a span waits for company.
const BATCH_WAIT: Duration = Duration::from_secs(1);

/// How long a collector may take for anything.
const PATIENCE: Duration = Duration::from_secs(5);

/// Attributes of one span, and characters of each.
const ATTRIBUTES_MAX: usize = 16;
const TEXT_MAX: usize = 256;

/// Gives spans that have ended to the thread that sends them.
pub(crate) struct Spans(SyncSender<Value>);

/// Where a collector is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Collector {
    /// Name or address with the port.
    host: String,
    path: String,
}

impl Collector {
    fn parse(endpoint: &str) -> anyhow::Result<Collector> {
        let wrong = || format!("{VARIABLE}={endpoint:?}; right would be http://127.0.0.1:4318");
        let Some(rest) = endpoint.strip_prefix("http://") else {
            // TLS is the collector's business: one on this machine passes on what it gets.
            bail!("{} is no address that begins with http://", wrong());
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let port = host.rsplit_once(':').map(|(_, port)| port.parse::<u16>().is_ok());
        let host = match port {
            Some(true) => host.to_owned(),
            Some(false) => bail!("{} has no port that is a number", wrong()),
            None => format!("{host}:4318"),
        };
        if host.starts_with(':') || host.contains('@') || host.contains(char::is_whitespace) {
            bail!("{} names no host", wrong());
        }
        let base = path.trim_end_matches('/');
        let slash = if base.is_empty() { "" } else { "/" };
        Ok(Collector { host, path: format!("/{base}{slash}v1/traces") })
    }

    fn send(&self, spans: &[Value]) -> io::Result<()> {
        let resource = json!([attribute("service.name", "transom".into())]);
        let body = json!({ "resourceSpans": [{
            "resource": { "attributes": resource },
            "scopeSpans": [{
                "scope": { "name": "transom", "version": env!("CARGO_PKG_VERSION") },
                "spans": spans,
            }],
        }]})
        .to_string();
        let address = self.host.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| io::Error::other("the host has no address"))?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.path,
            self.host,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        match status.get(9) {
            Some(b'2') => Ok(()),
            _ => Err(io::Error::other(format!(
                "the collector answers {}",
                String::from_utf8_lossy(&status)
            ))),
        }
    }
}

impl Spans {
    /// Begins to send spans to the collector at this address.
    pub(crate) fn to(endpoint: &str) -> anyhow::Result<Spans> {
        let collector = Collector::parse(endpoint)?;
        let (sender, waiting) = sync_channel(WAITING_MAX);
        thread::Builder::new()
            .name("transom-otlp".to_owned())
            .spawn(move || send_all(&collector, &waiting))
            .context("the thread that sends spans cannot be started")?;
        Ok(Spans(sender))
    }
}

fn send_all(collector: &Collector, waiting: &Receiver<Value>) {
    let mut told = false;
    while let Ok(first) = waiting.recv() {
        let mut batch = vec![first];
        let end = Instant::now() + BATCH_WAIT;
        while batch.len() < BATCH_MAX {
            let left = end.saturating_duration_since(Instant::now());
            match waiting.recv_timeout(left) {
                Ok(span) => batch.push(span),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        match collector.send(&batch) {
            Ok(()) => told = false,
            Err(_) if told => {}
            Err(error) => {
                told = true;
                // Not from within a span, so that it cannot lead to another one.
                tracing::warn!(collector = collector.host, spans = batch.len(), %error, "spans are lost");
            }
        }
    }
}

/// What is known of a span that has not ended.
struct Open {
    trace: [u8; 16],
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    started: SystemTime,
    attributes: Map<String, Value>,
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let fresh = uuid::Uuid::new_v4().into_bytes();
        let inherited = span
            .parent()
            .and_then(|parent| parent.extensions().get::<Open>().map(|open| (open.trace, open.id)));
        let mut open = Open {
            trace: inherited.map_or(fresh, |(trace, _)| trace),
            id: uuid::Uuid::new_v4().as_u64_pair().0.to_be_bytes(),
            parent: inherited.map(|(_, id)| id),
            started: SystemTime::now(),
            attributes: Map::new(),
        };
        attributes.record(&mut Fields(&mut open.attributes));
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>() {
            values.record(&mut Fields(&mut open.attributes));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        if let Some(ended) = ended(&span) {
            // Where too many wait, this one is lost: nobody waits for a collector.
            let _ = self.0.try_send(ended);
        }
    }
}

fn ended<'s, S: LookupSpan<'s>>(span: &SpanRef<'s, S>) -> Option<Value> {
    let mut extensions = span.extensions_mut();
    let Open { trace, id, parent, started, attributes } = extensions.remove::<Open>()?;
    let nanos = |time: SystemTime| {
        time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
    };
    let attributes: Vec<_> =
        attributes.into_iter().map(|(name, value)| attribute(&name, value)).collect();
    let mut ended = json!({
        "traceId": hex::encode(trace),
        "spanId": hex::encode(id),
        "name": span.name(),
        "kind": 1,
        "startTimeUnixNano": nanos(started),
        "endTimeUnixNano": nanos(SystemTime::now()),
        "attributes": attributes,
    });
    if let (Some(parent), Value::Object(ended)) = (parent, &mut ended) {
        ended.insert("parentSpanId".to_owned(), hex::encode(parent).into());
    }
    Some(ended)
}

fn attribute(name: &str, value: Value) -> Value {
    let value = match value {
        Value::Bool(value) => json!({ "boolValue": value }),
        // Whole numbers are texts in this format.
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    };
    json!({ "key": name, "value": value })
}

/// Takes in fields of a span.
struct Fields<'m>(&'m mut Map<String, Value>);

impl Fields<'_> {
    fn put(&mut self, field: &Field, value: Value) {
        if self.0.len() < ATTRIBUTES_MAX || self.0.contains_key(field.name()) {
            self.0.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for Fields<'_> {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.chars().take(TEXT_MAX).collect::<String>().into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        net::TcpListener,
    };

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn an_endpoint_is_an_address_of_a_collector() {
        let check = |endpoint: &str, host: &str, path: &str| {
            let expected = Collector { host: host.to_owned(), path: path.to_owned() };
            assert_eq!(Collector::parse(endpoint).unwrap(), expected, "{endpoint}");
        };
        check("http://127.0.0.1:4318", "127.0.0.1:4318", "/v1/traces");
        check("http://collector", "collector:4318", "/v1/traces");
        check("http://[::1]:9/a/b/", "[::1]:9", "/a/b/v1/traces");
        for wrong in
            ["", "127.0.0.1:4318", "https://127.0.0.1", "http://x:y", "http://:1", "http://u@h:1"]
        {
            let said = Collector::parse(wrong).unwrap_err().to_string();
            assert!(said.contains(VARIABLE) && said.contains("right would be"), "{said}");
        }
    }

    /// The next request: its head, and its body as JSON.
    fn request(listener: &TcpListener) -> (String, Value) {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        (head, serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn spans_that_have_ended_reach_the_collector_with_their_fields_and_parents() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let spans = Spans::to(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(spans), || {
            let outer = tracing::info_span!("transom.connection", door = "sdk", version = 1u64);
            let _entered = outer.enter();
            outer.record("version", 2u64);
            drop(tracing::info_span!("transom.codec.call", call = %"handle", late = false));
        });
        let (head, body) = request(&listener);
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        let resource = &body["resourceSpans"][0];
        assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "transom");
        let spans = &resource["scopeSpans"][0]["spans"];
        let [inner, outer] = [&spans[0], &spans[1]];
        assert_eq!(
            (&inner["name"], &outer["name"]),
            (&json!("transom.codec.call"), &json!("transom.connection"))
        );
        assert_eq!(
            (&inner["traceId"], &inner["parentSpanId"]),
            (&outer["traceId"], &outer["spanId"])
        );
        assert_eq!(outer.get("parentSpanId"), None);
        assert_eq!(
            outer["attributes"],
            json!([
                {"key": "door", "value": {"stringValue": "sdk"}},
                {"key": "version", "value": {"intValue": "2"}},
            ])
        );
        assert_eq!(inner["attributes"][1], json!({"key": "late", "value": {"boolValue": false}}));
        let time = |key: &str| outer[key].as_str().unwrap().parse::<u128>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
    }

    #[test]
    fn a_collector_that_is_away_holds_nobody_up() {
        let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let spans = Spans::to(&format!("http://{nowhere}")).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(spans), || {
            for _ in 0..2 * WAITING_MAX {
                drop(tracing::info_span!("transom.codec.call"));
            }
        });
    }
}
