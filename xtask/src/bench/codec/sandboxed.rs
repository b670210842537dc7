//! The SDK codec as the host runs it: through the contract of `transom-connection`.

use std::collections::VecDeque;

use anyhow::{Result, anyhow};
use transom_connection::codec::{Codec, CodecSource, Form, Framing, Input, Output, Setup, Unit};
use transom_frame::{Frame, FrameKind};

use super::{Subject, reply};

pub(super) struct Sandboxed(Box<dyn Codec>);

impl Sandboxed {
    pub(super) fn open(source: &dyn CodecSource) -> Result<Sandboxed> {
        let setup = Setup {
            framing: Framing::Lines,
            seed: (1, 2),
            options: "{}".to_owned(),
            facts: Vec::new(),
        };
        let (codec, _) = source.open(&setup).map_err(|error| anyhow!("{error}"))?;
        Ok(Sandboxed(codec))
    }

    fn tell(&mut self, input: Input) -> Result<Vec<Output>> {
        self.0.handle(1, input).map_err(|error| anyhow!("{error}"))
    }
}

impl Subject for Sandboxed {
    type Event = Frame;

    fn wrap(body: String) -> Frame {
        Frame::notice("session/event", Some("main".into()), body)
    }

    fn line(&mut self, line: Vec<u8>) -> Result<usize> {
        Ok(self.tell(unit(line))?.len())
    }

    fn event(&mut self, event: Frame) -> Result<usize> {
        Ok(self.tell(Input::Frame(event))?.len())
    }

    fn settle(&mut self, line: &str) -> Result<()> {
        let mut inputs = VecDeque::from([unit(line.into())]);
        while let Some(input) = inputs.pop_front() {
            for output in self.tell(input)? {
                if let Output::Frame(frame) = output
                    && frame.kind == FrameKind::Request
                {
                    inputs.push_back(Input::Frame(Frame::reply(&frame, None, reply(&frame.name))));
                }
            }
        }
        Ok(())
    }
}

fn unit(bytes: Vec<u8>) -> Input {
    Input::Unit(Unit { lane: 0, form: Form::Text, bytes })
}
