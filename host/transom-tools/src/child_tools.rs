//! `send_message`, `interrupt_agent`, `list_agents` and `report`: words between a session and the children that it
//! keeps (L-72). Who may say what to whom is behind the `Children` port.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use transom_harness::{
    permissions::rules::ToolKind,
    ports::{Children, ToolOutcome, ToolSpec},
    subagents::{ChildOrder, Obeyed, WORDS_BYTES_MAX},
};

use crate::{
    providers::SUBAGENT_ERROR,
    tool::{Call, Running, Tool, ToolError, answer_once, filled},
};

/// One of the tools.
pub(crate) struct ChildTool {
    pub(crate) children: Arc<dyn Children>,
    pub(crate) what: What,
}

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    SendMessage,
    InterruptAgent,
    ListAgents,
    Report,
}

impl What {
    /// The one of this name, if parents have it.
    pub(crate) fn for_parent(name: &str) -> Option<What> {
        let all = [What::SendMessage, What::InterruptAgent, What::ListAgents];
        all.into_iter().find(|what| what.words().0 == name)
    }

    /// Name, what the model is told of it, and its arguments with what it is told of each; all are texts, and required.
    fn words(self) -> (&'static str, &'static str, &'static [(&'static str, &'static str)]) {
        match self {
            What::SendMessage => (
                "send_message",
                "Writes to a subagent of yours that takes further messages, also to one that has finished its task. \
                 Each message is a turn of its own there. You are told when it comes to rest.",
                &[
                    ("subagent_id", "The id that its start has given."),
                    ("message", "What it is to do or to know; it remembers what was said before."),
                ],
            ),
            What::InterruptAgent => (
                "interrupt_agent",
                "Ends the turn that an agent below you works on. What you have written to it meanwhile stays there and \
                 is taken up with your next message.",
                &[("agent_id", "The id that its start has given.")],
            ),
            What::ListAgents => (
                "list_agents",
                "Lists your subagents that take further messages, with what each does: running, idle, or stored, \
                 which means that a message brings it back.",
                &[],
            ),
            What::Report => (
                "report",
                "Tells something to whoever has given you your task, while you go on. Your last message reaches them \
                 without it.",
                &[("output", "What they are to know.")],
            ),
        }
    }
}

impl Tool for ChildTool {
    fn spec(&self) -> ToolSpec {
        let (name, description, arguments) = self.what.words();
        let properties = arguments.iter().map(|(argument, meaning)| {
            ((*argument).to_owned(), json!({ "type": "string", "description": meaning }))
        });
        let required: Vec<_> = arguments.iter().map(|(argument, _)| *argument).collect();
        let properties = properties.collect::<Map<_, _>>();
        let parameters = match required.as_slice() {
            [] => json!({ "type": "object", "properties": properties }),
            required => json!({ "type": "object", "properties": properties, "required": required }),
        };
        ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters }
    }

    fn kind(&self) -> ToolKind {
        ToolKind::BuiltIn
    }

    fn check(&self, arguments: &Map<String, Value>) -> Result<(), ToolError> {
        let (_, _, required) = self.what.words();
        required.iter().try_for_each(|(name, _)| {
            let bytes = filled(arguments, name)?.len();
            match bytes > WORDS_BYTES_MAX {
                true => Err(ToolError::new(format!(
                    "invalid {name}: it has {bytes} bytes, and may have at most {WORDS_BYTES_MAX}"
                ))),
                false => Ok(()),
            }
        })
    }

    fn run(&self, call: Call) -> Running {
        let (children, what) = (Arc::clone(&self.children), self.what);
        Box::pin(async move {
            let text = |name: &str| call.text(name).to_owned();
            let order = match what {
                What::SendMessage => {
                    ChildOrder::Message { child: text("subagent_id").into(), text: text("message") }
                }
                What::InterruptAgent => ChildOrder::Interrupt { agent: text("agent_id").into() },
                What::ListAgents => ChildOrder::List,
                What::Report => ChildOrder::Report { text: text("output") },
            };
            let (sink, answer) = answer_once();
            children.order(&call.session, order, Box::new(sink));
            let result = tokio::select! {
                biased;
                result = answer => result,
                () = call.abort.set() => return Err(ToolError::aborted()),
            };
            match result {
                Err(_) => Err(ToolError::new("this host is going away")),
                Ok(Err(refused)) => {
                    let code = refused.code.as_str();
                    Err(ToolError::coded(refused.message, SUBAGENT_ERROR, code))
                }
                Ok(Ok(obeyed)) => Ok(ToolOutcome::text(told(what, &call, &obeyed))),
            }
        })
    }
}

fn told(what: What, call: &Call, obeyed: &Obeyed) -> String {
    match (what, obeyed) {
        (_, Obeyed::Listed(children)) if children.is_empty() => "(no subagents)".to_owned(),
        (_, Obeyed::Listed(children)) => {
            let lines = children.iter().map(|listed| {
                let state = listed.state.as_str();
                let waiting = match listed.waiting {
                    0 => String::new(),
                    1 => ", 1 message waiting".to_owned(),
                    more => format!(", {more} messages waiting"),
                };
                format!("{} {state}{waiting} — {}", listed.child, listed.label)
            });
            lines.collect::<Vec<_>>().join("\n")
        }
        (What::SendMessage, Obeyed::Done) => {
            format!("message queued as the next turn for subagent {}", call.text("subagent_id"))
        }
        (What::InterruptAgent, Obeyed::Done) => {
            format!("interrupt requested for agent {}", call.text("agent_id"))
        }
        (What::Report, Obeyed::Done) => "report delivered".to_owned(),
        (What::ListAgents, Obeyed::Done) => "(no subagents)".to_owned(),
    }
}
