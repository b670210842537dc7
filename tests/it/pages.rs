//! Pages are true: the commands of a page run as they stand there, against the real program.

use std::{fs, path::PathBuf, process::Command};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::support::{
    place::{Place, text},
    process::{binary, workspace},
};

/// A fenced block of a page, with its language.
struct Block {
    language: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(_), Some(block)) => blocks.push(block),
            (Some(language), None) => {
                open = Some(Block { language: language.to_owned(), text: String::new() });
            }
            (None, Some(mut block)) => {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    blocks
}

/// Ends what a page that failed has left running: it keeps the process id in `host.pid`.
struct Left(PathBuf);

impl Drop for Left {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.0.join("host.pid")).ok();
        if let Some(pid) = pid.and_then(|pid| pid.trim().parse().ok()) {
            // It may be gone.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// Runs the `sh` blocks of a page one after the other in one place. A `text` block says how the output before it
/// begins.
fn run(page: &str) {
    let path = workspace().join(page);
    let page = fs::read_to_string(&path).expect("the page is there");
    let place = Place::new();
    let _left = Left(place.cwd.clone());
    let bin = place.root().join("bin");
    fs::create_dir_all(&bin).expect("a directory");
    std::os::unix::fs::symlink(binary(), bin.join("transom")).expect("a link");
    let inherited = std::env::var("PATH").expect("a path");
    let mut said = String::new();
    let mut ran = 0;
    for block in blocks(&page) {
        match block.language.as_str() {
            "sh" => {
                let output = Command::new("bash")
                    .args(["-euo", "pipefail", "-c", &block.text])
                    .env_clear()
                    .env("PATH", format!("{}:{inherited}", text(&bin)))
                    .env("HOME", place.root())
                    .current_dir(&place.cwd)
                    .output()
                    .expect("bash is there");
                said = String::from_utf8(output.stdout).expect("text");
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{}\n{said}{errors}", block.text);
                ran += 1;
            }
            "text" => {
                assert!(
                    said.starts_with(&block.text),
                    "the page says\n{}but it is\n{said}",
                    block.text
                );
            }
            _ => {}
        }
    }
    assert!(ran > 0, "the page has commands");
}

#[test]
fn the_page_on_sessions_is_true() {
    run("docs/agent-loop.md");
}

#[test]
fn the_page_on_operating_is_true() {
    run("docs/operate.md");
}

#[test]
fn the_page_on_agents_is_true() {
    run("docs/doors/acp-child.md");
}

#[test]
fn the_page_on_hooks_is_true() {
    run("docs/hooks.md");
}
