//! The launcher that the tests of confined tools run in place of the host's own program.

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    // After the program's name and the subcommand.
    ExitCode::from(transom_process::launch(env::args_os().skip(2)))
}
