//! The guard: one small shell beside the host that kills every group the host leaves behind.
//!
//! The kernel's own help (`fork.rs`) reaches the child, not the child's children: of
//! `bash -c 'make; ls'` it kills the shell and leaves `make` running. The guard holds the reading
//! end of a pipe; however the host ends, the pipe closes, and what is still listed dies.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    os::fd::{AsRawFd, RawFd},
    process::{Child, Command, Stdio},
};

use tracing::warn;

use crate::{fork, host::bear};

/// Reads `+ <group>`, `- <group>` and `= 0` (forget all) until the pipe closes. Signals meant for the host, for
/// example those of a terminal or a service manager, must not take the guard first.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
groups=' '
while read -r sign group; do
    case $sign in
        +) case $groups in
            *" $group "*) ;;
            *) groups="$groups$group " ;;
        esac ;;
        =) groups=' ' ;;
        -) case $groups in
            *" $group "*) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
        esac ;;
    esac
done
for group in $groups; do
    kill -s KILL -- "-$group"
done
"#;

/// The host's end. Dropping it ends the guard and what it lists.
pub(crate) struct Guard {
    shell: Option<Child>,
    groups: BTreeSet<u32>,
}

impl Guard {
    pub(crate) fn new() -> Guard {
        Guard { shell: None, groups: BTreeSet::new() }
    }

    /// Where a child announces itself before it runs (`fork.rs`): only so is a host that is killed in the
    /// very moment of a birth outlived by nobody.
    pub(crate) fn ear(&mut self) -> Option<RawFd> {
        if self.shell.is_none() {
            self.start_over();
        }
        self.shell.as_ref().and_then(|shell| shell.stdin.as_ref()).map(AsRawFd::as_raw_fd)
    }

    /// A child announced itself and then did not come to be.
    pub(crate) fn recount(&mut self) {
        if self.shell.is_some() && self.tell(&format!("= 0\n{}", self.list())).is_err() {
            self.reap();
        }
    }

    /// From now on this group dies with the host.
    pub(crate) fn watch(&mut self, group: u32) {
        self.groups.insert(group);
        if self.shell.is_some() && self.tell(&format!("+ {group}\n")).is_ok() {
            return;
        }
        // Not started yet, or gone: somebody ended it.
        self.start_over();
    }

    fn start_over(&mut self) {
        if let Err(error) = self.restart() {
            warn!(%error, "no guard against orphans: grandchildren may outlive a killed host");
        }
    }

    /// The group is gone, and its number may soon be somebody else's.
    pub(crate) fn release(&mut self, group: u32) {
        // A guard that cannot be told has ended, so it will kill nobody either.
        if self.groups.remove(&group) && self.tell(&format!("- {group}\n")).is_err() {
            self.reap();
        }
    }

    fn restart(&mut self) -> io::Result<()> {
        self.reap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT]).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        fork::lead_session(&mut command);
        self.shell = Some(bear(|| command.spawn(), |shell| Some(shell.id()))?);
        self.tell(&self.list())
    }

    fn list(&self) -> String {
        self.groups.iter().map(|group| format!("+ {group}\n")).collect()
    }

    fn tell(&mut self, lines: &str) -> io::Result<()> {
        match self.shell.as_mut().and_then(|shell| shell.stdin.as_mut()) {
            Some(stdin) => stdin.write_all(lines.as_bytes()),
            None => Ok(()),
        }
    }

    fn reap(&mut self) {
        if let Some(mut shell) = self.shell.take() {
            drop(shell.stdin.take());
            // It ends as soon as its input has ended.
            let _ = shell.wait();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.reap();
    }
}
