//! What the model is told when a wall stood in a command's way (P-21, P-22).

use crate::{places::Network, process::Exit};

/// What programs say when Landlock, a filter or a read-only mount refuses them a file.
const FILE_DENIALS: [&str; 2] = ["permission denied", "read-only file system"];

/// What they say when there is no network for them.
const NETWORK_DENIALS: [&str; 3] =
    ["network is unreachable", "temporary failure in name resolution", "could not resolve host"];

/// The lines for a confined command that ended so with this on its error output; `mode` is the name of its mode, and
/// `offered` says whether it may ask for a wider one.
pub fn denial(
    mode: &str,
    exit: Exit,
    stderr: &str,
    network: Network,
    offered: bool,
) -> Option<String> {
    match exit {
        Exit::Code(0) | Exit::Signal(_) => return None,
        Exit::Code(_) => {}
    }
    let said = stderr.to_ascii_lowercase();
    let says = |texts: &[&str]| texts.iter().any(|text| said.contains(text));
    let first = if says(&FILE_DENIALS) {
        file_denied(mode)
    } else if network == Network::Deny && says(&NETWORK_DENIALS) {
        network_denied(mode)
    } else {
        return None;
    };
    Some(if offered { format!("{first}\n{}", escalation("command")) } else { first })
}

/// The line about a file.
pub fn file_denied(mode: &str) -> String {
    format!("[sandbox: file access denied under {mode} mode]")
}

/// The line about a network.
pub fn network_denied(mode: &str) -> String {
    format!("[sandbox: network access denied under {mode} mode]")
}

/// The line that says how to ask for more; `subject` is `command` for shells and `operation` for file tools.
pub fn escalation(subject: &str) -> String {
    format!(
        "[sandbox: escalation available — retry this exact {subject} once with sandbox_permissions (the narrowest \
         wider mode that suffices) + justification; the approval prompt asks the user]"
    )
}
