//! What a codec call costs in the sandbox, over the same codec compiled natively. How guests run is left to `transom-sandbox`.

mod native;
mod sandboxed;

use std::{fs, time::Instant};

use anyhow::{Context, Result, bail};
use transom_sandbox::{Limits, Sandbox, SandboxConfig};

use self::{native::Native, sandboxed::Sandboxed};
use super::{Row, statistics};
use crate::workspace::Workspace;

/// The sizes of a message: a small one, a usual one, a large one, a file.
const SIZES: &[usize] = &[200, 1 << 10, 5 << 10, 50 << 10];

/// Calls that make one sample. One call is shorter than the clock is exact.
const CALLS: u32 = 64;
const SAMPLES: usize = 200;

/// A conversation on the SDK wire, whichever way its codec runs.
trait Subject {
    /// A line of the peer's comes in. Gives how many outputs there were.
    fn line(&mut self, line: Vec<u8>) -> Result<usize>;

    /// An event of the session `main` comes from the host. Gives how many outputs there were.
    fn event(&mut self, event: Self::Event) -> Result<usize>;

    /// A line comes in, and every request that follows from it is answered.
    fn settle(&mut self, line: &str) -> Result<()>;

    /// What [`Subject::event`] takes, made before the clock runs.
    type Event;
    fn wrap(body: String) -> Self::Event;
}

/// Which way a message goes.
#[derive(Debug, Clone, Copy)]
enum Way {
    In,
    Out,
}

/// One row for each size and way.
pub fn rows(workspace: &Workspace) -> Result<Vec<Row>> {
    let path = workspace.components().join("sdk.wasm");
    let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
    let component =
        Sandbox::new(SandboxConfig::default())?.load("sdk", &bytes, Limits::default())?;
    let mut rows = Vec::new();
    for (way, name) in [(Way::In, "unit in, frame out"), (Way::Out, "frame in, unit out")] {
        for size in SIZES {
            let sandboxed = median_us(|| Sandboxed::open(component.as_ref()), way, *size)?;
            let native = median_us(Native::open, way, *size)?;
            rows.push(
                Row::new(format!("codec: {name}, {size} B"), sandboxed, "µs")
                    .over("native", native),
            );
        }
    }
    Ok(rows)
}

fn median_us<S: Subject>(open: impl Fn() -> Result<S>, way: Way, size: usize) -> Result<f64> {
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        // A fresh conversation for each sample: what is asked and never answered piles up in one.
        let mut subject = open()?;
        subject.settle(HELLO)?;
        subject.settle(&prompt(0, 0))?;
        // The first calls of an instance touch its memory for the first time; what is measured is the life after.
        let mut outputs = 0;
        for round in 0..2 {
            let before = samples.len();
            outputs = match way {
                Way::In => {
                    let ids = 1 + round * CALLS..=(round + 1) * CALLS;
                    let lines: Vec<Vec<u8>> = ids.map(|id| prompt(id, size).into_bytes()).collect();
                    timed(&mut samples, lines, |line| subject.line(line))?
                }
                Way::Out => {
                    let events: Vec<S::Event> = (0..CALLS).map(|_| S::wrap(event(size))).collect();
                    timed(&mut samples, events, |event| subject.event(event))?
                }
            };
            if round == 0 {
                samples.truncate(before);
            }
        }
        if outputs != CALLS as usize {
            bail!(
                "{CALLS} messages of {size} bytes gave {outputs} outputs, where each should give one"
            );
        }
    }
    statistics::median(&samples).context("no sample was taken")
}

/// Makes the calls and adds what one took, in microseconds. Gives how many outputs there were.
fn timed<T>(
    samples: &mut Vec<f64>,
    inputs: Vec<T>,
    mut call: impl FnMut(T) -> Result<usize>,
) -> Result<usize> {
    let mut outputs = 0;
    let begun = Instant::now();
    for input in inputs {
        outputs += call(input)?;
    }
    samples.push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS));
    Ok(outputs)
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"cwd":"/tmp","provider":"p","model":"m"}}"#;

/// A prompt whose line has this many bytes, or as many as an empty one has.
fn prompt(id: u32, bytes: usize) -> String {
    padded(bytes, |text| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"main","contentBlocks":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    })
}

/// An event of this many bytes.
fn event(bytes: usize) -> String {
    padded(bytes, |text| {
        format!(
            r#"{{"type":"assistant/chunk","seq":7,"time":1796026619244,"data":{{"turn":1,"step":1,"chunk":{{"type":"text-delta","index":0,"text":"{text}"}}}}}}"#
        )
    })
}

fn padded(bytes: usize, around: impl Fn(&str) -> String) -> String {
    let bare = around("").len();
    around(&"x".repeat(bytes.saturating_sub(bare)))
}

/// The shortest reply to a codec's request that lets the conversation go on.
fn reply(name: &str) -> &'static str {
    match name {
        "models/check" => r#"{"route":{"provider":"p","model":"m"},"images":false}"#,
        "events/subscribe" => {
            r#"{"subscription":"1","sessions":[],"asks":[],"queues":[],"jobs":[]}"#
        }
        "session/open" => {
            r#"{"created":true,"lastSeq":-1,"cwd":"/tmp","route":{"provider":"p","model":"m"}}"#
        }
        "session/prompt" => r#"{"messageId":"m"}"#,
        _ => "{}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_size_that_was_asked_for() {
        for size in SIZES {
            assert_eq!(prompt(1, *size).len(), *size);
            assert_eq!(event(*size).len(), *size);
        }
    }

    #[test]
    fn each_message_gives_one_output_natively() {
        let mut subject = Native::open().expect("it opens");
        subject.settle(HELLO).expect("it greets");
        subject.settle(&prompt(0, 0)).expect("it opens the session");
        assert_eq!(subject.line(prompt(1, 200).into_bytes()).expect("a prompt"), 1);
        assert_eq!(subject.event(Native::wrap(event(200))).expect("an event"), 1);
    }
}
