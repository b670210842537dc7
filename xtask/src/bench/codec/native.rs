//! The same SDK codec as a part of this program, spoken to in its own words.

use std::collections::VecDeque;

use anyhow::{Result, bail};
use transom_guest::{
    Fault, Form, Frame, FrameKind, Framing, Input, Machine, Output, Outputs, Setup, Unit,
};
use transom_sdk::Conversation;

use super::{Subject, reply};

pub(super) struct Native(Conversation);

impl Native {
    pub(super) fn open() -> Result<Native> {
        let setup = Setup {
            framing: Framing::Lines,
            seed: (1, 2),
            options: "{}".to_owned(),
            facts: Vec::new(),
        };
        match Conversation::open(&mut Outputs::default(), setup) {
            Ok(conversation) => Ok(Native(conversation)),
            Err(fault) => failed(fault),
        }
    }

    fn tell(&mut self, input: Input) -> Result<Vec<Output>> {
        let mut out = Outputs::default();
        match self.0.handle(&mut out, 1, input) {
            Ok(()) => Ok(out.into_vec()),
            Err(fault) => failed(fault),
        }
    }
}

impl Subject for Native {
    type Event = Frame;

    fn wrap(body: String) -> Frame {
        Frame::notice("session/event", Some("main"), body)
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
                    inputs.push_back(Input::Frame(Frame::reply(&frame, reply(&frame.name))));
                }
            }
        }
        Ok(())
    }
}

fn unit(bytes: Vec<u8>) -> Input {
    Input::Unit(Unit { lane: 0, form: Form::Text, bytes })
}

fn failed<T>(fault: Fault) -> Result<T> {
    bail!("{}: {}", fault.kind.as_str(), fault.detail)
}
