//! Real children, real signals, real files. Nothing here waits for a time to pass: whatever has to
//! have happened is read from a pipe.

mod ending;
mod environment;
mod leftover;
mod output;
mod spawning;

use std::{fs, path::Path, time::Duration};

use tokio::{io::AsyncReadExt, runtime::Handle};

use crate::{Command, Process, Spawner};

/// Longer than any machine needs; only a failure lasts so long.
const LONG: Duration = Duration::from_secs(60);

fn bash(script: &str) -> Command {
    Command {
        arguments: vec!["-c".to_owned(), script.to_owned()],
        environment: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
        ..Command::new("bash")
    }
}

async fn spawn(script: &str) -> Process {
    Spawner::new(Handle::current()).unwrap().spawn(bash(script)).await.unwrap()
}

/// Reads up to the next newline.
async fn line(process: &mut Process) -> String {
    let stdout = process.stdout.as_mut().unwrap();
    let mut text = String::new();
    loop {
        match stdout.read_u8().await.unwrap() {
            b'\n' => return text,
            byte => text.push(char::from(byte)),
        }
    }
}

async fn all(process: &mut Process) -> String {
    let mut text = String::new();
    process.stdout.take().unwrap().read_to_string(&mut text).await.unwrap();
    text
}

fn fifo(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
}

/// Returns when every process that writes to the pipe has ended.
async fn writers_ended(path: &Path) -> String {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || fs::read_to_string(path).unwrap()).await.unwrap()
}
