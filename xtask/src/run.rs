//! From a fresh checkout to a running host: build, say what to try, hand the terminal over. The host says the rest.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{
    build_components, machine,
    phases::Phases,
    workspace::{Profile, Workspace, perform},
};

/// Builds the components and the host, then becomes `transom run`.
pub fn run(workspace: &Workspace, profile: Profile, arguments: &[String]) -> Result<()> {
    let mut phases = Phases::default();
    phases.demand("what the build needs", || machine::ensure(&[machine::C_COMPILER]))?;
    phases.demand("components", || build_components(workspace))?;
    phases.demand("host (the first build takes several minutes)", || {
        build_host(workspace, profile)
    })?;
    phases.finish()?;

    let host = workspace.host(profile);
    println!("{}", next_steps(&workspace.shown(&host).to_string()));

    // The host takes this process's place, so that signals and the exit status need no passing on.
    let error = Command::new(&host).arg("run").args(arguments).current_dir(&workspace.root).exec();
    Err(error).with_context(|| format!("{} cannot be started", host.display()))
}

/// Builds the host program.
pub fn build_host(workspace: &Workspace, profile: Profile) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(["build", "--package", "transom"]);
    if profile == Profile::Release {
        command.arg("--release");
    }
    perform(&mut command)
}

fn next_steps(host: &str) -> String {
    format!(
        r#"
The host starts now; Ctrl-C ends it. Its model is a script, so no key is needed. From a second terminal:

    {host} prompt "hello"

The published Python client, which starts a host of its own:

    python3 -m venv target/venv && target/venv/bin/pip install -q 'pydantic>=2,<3'
    target/venv/bin/pip install -q --no-deps deepseek-harness-sdk==0.1.0rc6
    target/venv/bin/python -c 'from deepseek_harness import DeepSeekHarness; h = DeepSeekHarness(launch_args_override=("{host}", "stdio", "sdk")); print(h.run("hello").final_response); h.close()'

README.md has the same for TypeScript.
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_steps_name_the_host_that_was_built() {
        let text = next_steps("target/debug/transom");
        assert!(text.contains("    target/debug/transom prompt \"hello\"\n"), "{text}");
        assert!(text.contains("(\"target/debug/transom\", \"stdio\", \"sdk\")"), "{text}");
    }
}
