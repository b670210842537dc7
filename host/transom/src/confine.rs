//! The hidden subcommand with which the host starts itself to confine a command (P-51). What it does is in
//! `transom-process`; here it is only recognised, before anything else has begun.

use std::{env, process::ExitCode};

use transom_process::{SUBCOMMAND, launch};

/// Plays the launcher if this process was started as one. Then it returns only if there is no command to become.
pub(crate) fn play() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    let asked = arguments.next().is_some_and(|first| first == SUBCOMMAND);
    asked.then(|| ExitCode::from(launch(arguments)))
}
