//! Where the program's own log goes: standard error, as text for people or JSON for programs.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::environment::Environment;

/// Starts logging. `TRANSOM_LOG` chooses what (for example `info` or `transom_io=debug`), `TRANSOM_LOG_FORMAT=json`
/// how; without them warnings are shown as text.
pub(crate) fn start(environment: &Environment) {
    let filter = environment
        .get("TRANSOM_LOG")
        .and_then(|text| EnvFilter::try_new(text).ok())
        .unwrap_or_else(|| EnvFilter::new("warn"));
    let colour =
        io::stderr().is_terminal() && environment.get("NO_COLOR").is_none_or(str::is_empty);
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(colour);
    if environment.get("TRANSOM_LOG_FORMAT") == Some("json") {
        log.json().init();
    } else {
        log.init();
    }
}
