//! What the driver adds around tool calls: a scheduler that fails takes nothing with it, and a tool's last touch comes
//! behind the hooks that could replace its outcome. Who is asked, and when, is the machine's to say.

use std::panic::{self, AssertUnwindSafe};

use transom_frame::SessionId;
use transom_harness::{
    hooks::{HookAbout, HookAnswer, HookAsk, Verdict},
    ports::Tools,
};

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
            let outcome = Box::new(tools.finish(session, name, *outcome));
            HookAnswer { verdict: Verdict::Outcome(outcome), ..answer }
        }
        (_, verdict) => HookAnswer { verdict, ..answer },
    }
}
