//! What a task needs of the machine it runs on, and how to get it. Rust targets are left to `components.rs`.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::workspace::perform;

/// A thing a task cannot do without.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// What it is called in a complaint.
    pub name: &'static str,
    /// Who wants it.
    pub why: &'static str,
    /// A command that succeeds when the thing is there.
    pub probe: &'static [&'static str],
    /// The Debian packages that bring it.
    pub packages: &'static [&'static str],
}

/// The preprocessor finds a header only when compiler and C library are both there.
pub const C_COMPILER: Need = Need {
    name: "a C compiler with the C library's headers",
    why: "SQLite is compiled from source",
    probe: &["cc", "-E", "-x", "c", "-include", "stdio.h", "/dev/null"],
    packages: &["gcc", "libc6-dev"],
};

/// Debian ships `venv` without `ensurepip`, and only the second makes an environment that can install anything.
pub const PYTHON: Need = Need {
    name: "python3 with venv",
    why: "the published Python clients are tests",
    probe: &["python3", "-c", "import venv, ensurepip"],
    packages: &["python3", "python3-venv"],
};

pub const JQ: Need = Need {
    name: "jq",
    why: "the commands of the pages are tests",
    probe: &["jq", "--version"],
    packages: &["jq"],
};

pub const GIT: Need = Need {
    name: "git",
    why: "confined commands of the tests commit",
    probe: &["git", "--version"],
    packages: &["git"],
};

pub const NODE: Need = Need {
    name: "node",
    why: "the published TypeScript client is a test",
    probe: &["node", "--version"],
    packages: &["nodejs"],
};

pub const NPM: Need = Need {
    name: "npm",
    why: "it installs the published TypeScript client",
    probe: &["npm", "--version"],
    packages: &["npm"],
};

/// Makes sure that everything is there: installs what is missing where that is possible, and says how where it is not.
pub fn ensure(needs: &[Need]) -> Result<()> {
    let missing: Vec<Need> = needs.iter().filter(|need| !present(need)).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !(is_root() && Path::new("/usr/bin/apt-get").exists()) {
        bail!("{}", complaint(&missing));
    }
    for need in &missing {
        println!("{} is missing ({})", need.name, need.why);
    }
    println!("running `apt-get update` and `{}`", install_line(&missing));
    perform(apt().arg("update").arg("-q"))?;
    perform(
        apt().args(["install", "-y", "-q", "--no-install-recommends"]).args(packages(&missing)),
    )
    .with_context(|| complaint(&missing))?;

    let missing: Vec<Need> = missing.into_iter().filter(|need| !present(need)).collect();
    if !missing.is_empty() {
        bail!("the packages are installed, and still: {}", complaint(&missing));
    }
    Ok(())
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn present(need: &Need) -> bool {
    let [program, arguments @ ..] = need.probe else { return true };
    let probe = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    probe.is_ok_and(|status| status.success())
}

fn packages(missing: &[Need]) -> impl Iterator<Item = &'static str> + '_ {
    missing.iter().flat_map(|need| need.packages.iter().copied())
}

fn install_line(missing: &[Need]) -> String {
    format!("apt-get install -y {}", packages(missing).collect::<Vec<_>>().join(" "))
}

fn complaint(missing: &[Need]) -> String {
    let things: Vec<String> =
        missing.iter().map(|need| format!("{} is missing ({})", need.name, need.why)).collect();
    format!("{}; on Debian, as root: `{}`", things.join("; "), install_line(missing))
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| effective_user(&status) == Some(0))
}

/// The effective user id out of a `/proc/<pid>/status`.
fn effective_user(status: &str) -> Option<u32> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_user_decides_who_is_root() {
        assert_eq!(
            effective_user("Name:\tx\nUid:\t1000\t0\t1000\t1000\nGid:\t5\t5\t5\t5\n"),
            Some(0)
        );
        assert_eq!(effective_user("Name:\tx\nUid:\t0\t1000\t0\t0\n"), Some(1000));
        assert_eq!(effective_user("Name:\tx\n"), None);
    }

    #[test]
    fn a_complaint_says_what_why_and_how() {
        assert_eq!(
            complaint(&[C_COMPILER, NPM]),
            "a C compiler with the C library's headers is missing (SQLite is compiled from source); npm is missing (it installs \
             the published TypeScript client); on Debian, as root: `apt-get install -y gcc libc6-dev npm`"
        );
    }

    #[test]
    fn a_program_that_does_not_exist_is_missing() {
        let need = Need { name: "x", why: "y", probe: &["transom-no-such-program"], packages: &[] };
        assert!(!present(&need));
        assert!(present(&Need { probe: &["true"], ..need }));
        assert!(!present(&Need { probe: &["false"], ..need }));
    }
}
