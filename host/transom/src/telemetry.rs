//! Where the program's own log goes: standard error, as text for people or JSON for programs.

use std::{io, sync::Arc};

use anyhow::{Context as _, bail};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, filter::LevelFilter, util::SubscriberInitExt};

use crate::environment::Environment;

/// Lines that wait for standard error: minutes of an ordinary log. The places are reserved at start.
const WAITING_LINES_MAX: usize = 1024;

/// Starts logging. `TRANSOM_LOG` chooses what (for example `info` or `transom_io=debug`), `TRANSOM_LOG_FORMAT`
/// how (`text` or `json`); without them warnings are shown as text.
///
/// A standard error that nobody reads costs log lines and nothing else: a thread writes them, and what it cannot
/// keep up with is dropped. The guard writes out what waits when it goes.
pub(crate) fn start(environment: &Environment) -> anyhow::Result<Log> {
    let wanted = environment.given("TRANSOM_LOG").unwrap_or("warn");
    let filter = filter(wanted).context("TRANSOM_LOG")?;
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(WAITING_LINES_MAX)
        .thread_name("transom-log")
        .finish(io::stderr());
    let log = tracing_subscriber::fmt()
        // A standard error that cannot be written must not take the program with it.
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(environment.wants_colour());
    let choose: Arc<Choose> = match environment.given("TRANSOM_LOG_FORMAT").unwrap_or("text") {
        "text" => {
            let log = log.with_filter_reloading();
            let handle = log.reload_handle();
            begin(log.finish(), environment)?;
            Arc::new(move |filter| Ok(handle.reload(filter)?))
        }
        "json" => {
            let log = log.json().with_filter_reloading();
            let handle = log.reload_handle();
            begin(log.finish(), environment)?;
            Arc::new(move |filter| Ok(handle.reload(filter)?))
        }
        other => {
            bail!("TRANSOM_LOG_FORMAT={other:?} is no format; right would be `text` or `json`")
        }
    };
    Ok(Log { choose, _guard: Arc::new(guard) })
}

#[cfg(not(feature = "otlp"))]
fn begin(log: impl SubscriberInitExt, _: &Environment) -> anyhow::Result<()> {
    log.init();
    Ok(())
}

/// Begins to log, and to send spans to a collector where one is named.
#[cfg(feature = "otlp")]
fn begin<S>(log: S, environment: &Environment) -> anyhow::Result<()>
where
    S: tracing::Subscriber + for<'s> tracing_subscriber::registry::LookupSpan<'s> + Send + Sync,
{
    use tracing_subscriber::layer::SubscriberExt as _;

    use crate::otlp::{Spans, VARIABLE};

    let spans = environment.given(VARIABLE).map(Spans::to).transpose()?;
    log.with(spans).init();
    Ok(())
}

type Choose = dyn Fn(EnvFilter) -> anyhow::Result<()> + Send + Sync;

/// The program's log. Whoever holds one keeps it open.
#[derive(Clone)]
pub(crate) struct Log {
    choose: Arc<Choose>,
    _guard: Arc<WorkerGuard>,
}

impl Log {
    /// Chooses what is logged from now on.
    pub(crate) fn choose(&self, wanted: &str) -> anyhow::Result<()> {
        (self.choose)(filter(wanted)?)
    }
}

/// What is logged. A bare word would be a target, all of whose lines are wanted and no others: where it is no level, it is
/// one misspelt.
fn filter(wanted: &str) -> anyhow::Result<EnvFilter> {
    let is_level = |word: &str| {
        let is_named = !word.is_empty() && word.parse::<LevelFilter>().is_ok();
        is_named || word.starts_with("transom")
    };
    let mut words = wanted.split(',').map(str::trim).filter(|word| !word.contains(['=', '[']));
    let filter = EnvFilter::try_new(wanted);
    match (words.find(|word| !is_level(word)), filter) {
        (None, Ok(filter)) => Ok(filter),
        (Some(word), _) => bail!(
            "{word:?} is no level; they are off, error, warn, info, debug and trace, and `transom_io=debug` is one of a part"
        ),
        (None, Err(error)) => Err(error).with_context(|| {
            format!("{wanted:?} chooses nothing; right would be `info` or `transom_io=debug`")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn a_level_that_is_none_is_refused() {
        for good in
            ["info", "WARN", "off", "transom_io=debug", "warn,transom_io=trace", "transom_io"]
        {
            assert!(filter(good).is_ok(), "{good}");
        }
        for wrong in ["inof", "warning", "warn,inof", "bogus!!", ""] {
            assert!(filter(wrong).is_err(), "{wrong}");
        }
        assert!(
            filter("warning")
                .unwrap_err()
                .to_string()
                .starts_with("\"warning\" is no level; they are off,")
        );
    }
}
