//! What the driver adds around what others do: a bug of theirs takes nothing with it, whoever waits is answered, and a
//! tool's last touch comes behind the hooks that could replace its outcome. Who is asked, and when, is the machine's to
//! say.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use transom_frame::{Code, Failure, SessionId};
use transom_harness::{
    hooks::{HookAbout, HookAnswer, HookAsk, Verdict},
    ports::{Asker, Served, StoreError, ToolOutcome, ToolSpec, Tools},
};

const UNEXPECTED: &str = "an error in this host kept it from looking";

/// What others make, unless they panic: then nobody may wait for them. The panic itself has been reported.
pub(super) fn begun<T>(make: impl FnOnce() -> T) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(make)).ok()
}

/// The result of a call that a bug has ended (L-55).
pub(super) fn failed(tool: &str) -> ToolOutcome {
    let text = format!("tool \"{tool}\" failed because of an error in this host");
    ToolOutcome::error(&text, None)
}

/// What went wrong is in the host's own log.
pub(super) fn unexpected() -> Failure {
    Failure::new(Code::Unexpected, UNEXPECTED)
}

/// The same of what was looked for in the store.
pub(super) fn unlooked() -> StoreError {
    StoreError::Io(UNEXPECTED.to_owned())
}

/// What the model is told of tools. Where that cannot be found out, the step fails as one without a model does.
pub(super) fn described(
    tools: &dyn Tools,
    asker: &Asker,
    served: Result<Served, Failure>,
) -> (Arc<[ToolSpec]>, Result<Served, Failure>) {
    match begun(|| tools.specs_for(asker)) {
        Some(specs) => (specs, served),
        None => (Arc::default(), served.and_then(|_| Err(unexpected()))),
    }
}

/// An outcome with its tool's last touch (L-55).
pub(super) fn touched(
    tools: &dyn Tools,
    session: &SessionId,
    tool: &str,
    outcome: ToolOutcome,
) -> ToolOutcome {
    let job = outcome.job.clone();
    // A job that has begun is one all the same (P-69).
    begun(|| tools.finish(session, tool, outcome))
        .unwrap_or_else(|| ToolOutcome { job, ..failed(tool) })
}

/// What a scheduler says. One that fails must not take the host with it (L-58); the panic itself has been reported.
pub(super) fn scheduled<T>(ask: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(ask)).map_err(|_| {
        "tool calls could not be scheduled because of an error in this host".to_owned()
    })
}

/// The tool whose outcome hooks are shown.
pub(super) fn called(ask: &HookAsk) -> Option<String> {
    match &ask.about {
        HookAbout::PostExecute { call, .. } => Some(call.name.clone()),
        HookAbout::PreStep { .. }
        | HookAbout::PreExecute { .. }
        | HookAbout::TurnStopping { .. }
        | HookAbout::Result { .. } => None,
    }
}

/// The answer with the tool's last touch to what hooks have left of its outcome (L-55).
pub(super) fn finished(
    tools: &dyn Tools,
    session: &SessionId,
    called: Option<&str>,
    answer: HookAnswer,
) -> HookAnswer {
    match (called, answer.verdict) {
        (Some(name), Verdict::Outcome(outcome)) => {
            let outcome = Box::new(touched(tools, session, name, *outcome));
            HookAnswer { verdict: Verdict::Outcome(outcome), ..answer }
        }
        (_, verdict) => HookAnswer { verdict, ..answer },
    }
}
