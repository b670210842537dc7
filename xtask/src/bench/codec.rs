//! What a codec call costs in the sandbox, over the same codec compiled natively. How guests run is left to `transom-sandbox`.

use std::{collections::VecDeque, time::Instant};

use anyhow::{Context, Result, anyhow, bail};
use transom_connection::codec::{Codec, CodecSource, Form, Framing, Input, Output, Setup, Unit};
use transom_frame::{Frame, FrameKind};

use super::{Row, statistics};

/// The sizes of a unit: a small message, a usual one, a large one, a file.
pub const SIZES: &[usize] = &[200, 1 << 10, 5 << 10, 50 << 10];

/// Calls that make one sample. One call is shorter than the clock is exact.
const CALLS: u32 = 64;
const SAMPLES: usize = 200;

/// One size, one codec.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub bytes: usize,
    /// The median of a call, in microseconds.
    pub micros: f64,
}

/// Measures a codec that speaks the SDK wire: a prompt of each size in, the frame out.
pub fn measure(source: &dyn CodecSource, sizes: &[usize]) -> Result<Vec<Sample>> {
    sizes.iter().map(|bytes| Ok(Sample { bytes: *bytes, micros: call(source, *bytes)? })).collect()
}

/// The figures of one codec beside those of another, size by size.
pub fn compared(sandboxed: &[Sample], native: &[Sample]) -> Vec<Row> {
    let pairs = sandboxed.iter().zip(native).filter(|(one, other)| one.bytes == other.bytes);
    pairs
        .map(|(one, other)| {
            Row::new(format!("codec: unit of {} B in, frame out", one.bytes), one.micros, "µs")
                .over("native", other.micros)
        })
        .collect()
}

fn call(source: &dyn CodecSource, bytes: usize) -> Result<f64> {
    let setup = Setup {
        framing: Framing::Lines,
        seed: (1, 2),
        options: "{}".to_owned(),
        facts: Vec::new(),
    };
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        // A fresh conversation for each sample: what is asked and never answered would pile up in one.
        let (mut codec, _) = source.open(&setup).map_err(|error| anyhow!("{error}"))?;
        let units: Vec<Input> = (0..CALLS).map(|id| unit(prompt(id, bytes))).collect();
        begin(codec.as_mut())?;
        let begun = Instant::now();
        for input in units {
            let out = codec.handle(1, input).map_err(|error| anyhow!("{error}"))?;
            if out.is_empty() {
                bail!("a prompt of {bytes} bytes gave no output, so there is nothing to measure");
            }
        }
        samples.push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS));
    }
    statistics::median(&samples).context("no sample was taken")
}

/// Brings the conversation to where a prompt becomes a frame at once: the handshake, and a session that is open.
fn begin(codec: &mut dyn Codec) -> Result<()> {
    let hello = r#"{"jsonrpc":"2.0","id":"begin","method":"initialize","params":{"cwd":"/tmp","provider":"p","model":"m"}}"#;
    for line in [hello.to_owned(), prompt(0, 0)] {
        let mut inputs = VecDeque::from([unit(line)]);
        let mut calls = 0;
        while let Some(input) = inputs.pop_front() {
            calls += 1;
            if calls > 16 {
                bail!("the codec asks the host without end");
            }
            for output in codec.handle(0, input).map_err(|error| anyhow!("{error}"))? {
                if let Output::Frame(frame) = output
                    && frame.kind == FrameKind::Request
                {
                    inputs.push_back(Input::Frame(Frame::reply(&frame, None, reply(&frame.name))));
                }
            }
        }
    }
    Ok(())
}

/// The shortest reply that lets the conversation go on.
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

fn unit(text: String) -> Input {
    Input::Unit(Unit { lane: 0, form: Form::Text, bytes: text.into_bytes() })
}

/// A prompt whose line has this many bytes, or a few more when even an empty one is longer.
fn prompt(id: u32, bytes: usize) -> String {
    let line = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"main","contentBlocks":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    };
    let bare = line("").len();
    line(&"x".repeat(bytes.saturating_sub(bare)))
}
