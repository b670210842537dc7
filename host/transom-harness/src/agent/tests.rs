//! Stories of one agent: what it is told, in order, and what it answers.

mod asks;
mod cancel;
mod hooks;
mod jobs;
mod lives;
mod model;
mod order;
mod permissions;
mod property;
mod queue;
mod sight;
mod tools;

use std::sync::Arc;

use serde_json::Value;

use super::{
    Agent, AgentConfig, Approval, Assembly, Delivery, Effect, Happened, InboxFate, Live, Status,
    Token,
};
use crate::{
    block::Block,
    chance::Chance,
    chunk::{BlockType, Chunk, Finish, LlmFailure, TokenUsage},
    event::Cause,
    header::Header,
    hooks::{HookAnswer, HookAsk, HookReport, Verdict},
    message::Source,
    ports::{Judgement, ModelRequest, RetryPolicy, Route, Served, ToolCall, ToolOutcome, ToolSpec},
};

/// An agent and everything it has answered, with what it still waits for.
pub(super) struct Play {
    pub(super) agent: Agent,
    now: u64,
    /// Events and live notices, a line each.
    pub(super) lines: Vec<String>,
    /// Whole envelopes.
    pub(super) events: Vec<Value>,
    /// The same as they would be stored.
    pub(super) texts: Vec<Arc<str>>,
    pub(super) assembling: Vec<Token>,
    pub(super) calling: Vec<Token>,
    /// What models were asked.
    pub(super) requests: Vec<ModelRequest>,
    pub(super) planning: Vec<(Token, usize)>,
    /// Calls that are to be judged; each may begin at once unless `strict`.
    pub(super) judging: Vec<(Token, ToolCall)>,
    pub(super) strict: bool,
    pub(super) asks: Vec<Approval>,
    /// What hooks are asked.
    pub(super) hooks: Vec<(Token, HookAsk)>,
    /// What those who watch were told.
    pub(super) observed: Vec<HookAsk>,
    pub(super) tools: Vec<(Token, ToolCall)>,
    pub(super) timers: Vec<(Token, u64)>,
    pub(super) stopped: Vec<Token>,
    pub(super) disposed: bool,
}

impl Play {
    pub(super) fn new() -> Play {
        Play::with(AgentConfig::default())
    }

    pub(super) fn with(config: AgentConfig) -> Play {
        let header = Header { created_at: 1000, ..Header::main() };
        let route = Route {
            provider: Some("p".to_owned()),
            model: Some("m".to_owned()),
            ..Route::default()
        };
        Play {
            agent: Agent::new(header, route, Arc::new(config), Chance::new([7; 32])),
            now: 1000,
            lines: Vec::new(),
            events: Vec::new(),
            texts: Vec::new(),
            assembling: Vec::new(),
            calling: Vec::new(),
            requests: Vec::new(),
            planning: Vec::new(),
            judging: Vec::new(),
            strict: false,
            asks: Vec::new(),
            hooks: Vec::new(),
            observed: Vec::new(),
            tools: Vec::new(),
            timers: Vec::new(),
            stopped: Vec::new(),
            disposed: false,
        }
    }

    pub(super) fn act<T>(&mut self, act: impl FnOnce(&mut Agent, &mut Vec<Effect>, u64) -> T) -> T {
        self.now += 1;
        let mut effects = Vec::new();
        let result = act(&mut self.agent, &mut effects, self.now);
        for effect in effects {
            self.take(effect);
        }
        while !self.strict && !self.judging.is_empty() {
            self.judge(Judgement::Run);
        }
        result
    }

    /// Answers the oldest call that is to be judged.
    pub(super) fn judge(&mut self, judgement: Judgement) -> &mut Play {
        let (token, _) = self.judging.remove(0);
        self.happen(Happened::Judged(token, judgement))
    }

    fn take(&mut self, effect: Effect) {
        match effect {
            Effect::Append(event) => {
                let value: Value = serde_json::from_str(&event.text).unwrap();
                assert_eq!(value["seq"], event.seq, "the text says what the event says");
                self.lines.push(line(&value));
                self.events.push(value);
                self.texts.push(event.text);
            }
            Effect::Live(live) => self.lines.push(match live {
                Live::Status(Status::Idle) => "idle".to_owned(),
                Live::Status(Status::Running) => "running".to_owned(),
                Live::Claimed { turn, messages } => {
                    format!("claimed by {turn}: {}", messages.len())
                }
                Live::Discarded { messages } => format!("discarded {}", messages.len()),
                Live::Decided { outcome, .. } => format!("decided {outcome:?}"),
                Live::Jobs => "jobs".to_owned(),
                Live::Permissions => "permissions".to_owned(),
                Live::Error { failure, .. } => format!("error {}", failure.code),
                Live::Queue => return,
            }),
            Effect::Assemble { token, .. } => self.assembling.push(token),
            Effect::CallModel { token, request } => {
                self.calling.push(token);
                self.requests.push(request);
            }
            Effect::StopModel(token) | Effect::StopTool(token) => self.stopped.push(token),
            Effect::PlanCalls { token, calls } => self.planning.push((token, calls.len())),
            Effect::Judge { token, call } => self.judging.push((token, call)),
            Effect::AskHooks { token, ask } => self.hooks.push((token, ask)),
            Effect::StopHooks(token) => {
                let asked = self.hooks.len();
                self.hooks.retain(|(asked, _)| *asked != token);
                assert_eq!(self.hooks.len() + 1, asked, "only what is asked is stopped");
            }
            Effect::Observe(seen) => self.observed.push(seen),
            Effect::Ask(approval) => self.asks.push(approval),
            Effect::RunTool { token, call } => self.tools.push((token, call)),
            Effect::Timer { token, after_ms } => self.timers.push((token, after_ms)),
            Effect::Disposed => self.disposed = true,
        }
    }

    pub(super) fn send(&mut self, text: &str, delivery: Delivery) -> Result<(), String> {
        self.act(|agent, out, now| {
            agent.prompt(out, now, vec![Block::text(text)], Source::user(), delivery)
        })
        .map(|_| ())
        .map_err(|failure| failure.message)
    }

    pub(super) fn prompt(&mut self, text: &str) -> &mut Play {
        self.send(text, Delivery::Followup).unwrap();
        self
    }

    pub(super) fn cancel(&mut self, fate: InboxFate) -> &mut Play {
        self.act(|agent, out, now| agent.cancel(out, now, Cause::User, fate));
        self
    }

    pub(super) fn dispose(&mut self) -> &mut Play {
        self.act(|agent, out, now| agent.dispose(out, now, 600));
        self
    }

    pub(super) fn happen(&mut self, happened: Happened) -> &mut Play {
        self.act(|agent, out, now| agent.handle(out, now, happened));
        self
    }

    /// Answers the oldest assembly that is waited for.
    pub(super) fn assemble(&mut self) -> &mut Play {
        let token = self.assembling.remove(0);
        self.happen(Happened::Assembled(token, assembly()))
    }

    pub(super) fn chunk(&mut self, chunk: Chunk) -> &mut Play {
        let token = *self.calling.last().unwrap();
        self.happen(Happened::Chunk(token, chunk))
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Play {
        self.chunk(Chunk::BlockStart { index: 0, block_type: BlockType::Text });
        self.chunk(Chunk::TextDelta { index: 0, text: text.to_owned() })
    }

    pub(super) fn call(&mut self, index: u32, id: &str, name: &str) -> &mut Play {
        self.chunk(Chunk::ToolCallDelta {
            index,
            id: id.to_owned(),
            name: Some(name.to_owned()),
            arguments_delta: "{}".to_owned(),
        })
    }

    pub(super) fn finish(&mut self, reason: Finish) -> &mut Play {
        self.chunk(Chunk::Finish { reason });
        self.calling.pop();
        self
    }

    pub(super) fn fail(&mut self, code: &str) -> &mut Play {
        self.finish(Finish::Error { failure: LlmFailure::new(code, "no") })
    }

    pub(super) fn answer(&mut self, text: &str) -> &mut Play {
        let usage = TokenUsage {
            input_tokens: 1,
            output_tokens: 2,
            cache_read_tokens: None,
            cache_write_tokens: None,
            reasoning_tokens: None,
        };
        self.text(text).chunk(Chunk::Usage { usage }).finish(Finish::Stop)
    }

    pub(super) fn plan(&mut self, parallel: &[bool]) -> &mut Play {
        let (token, _) = self.planning.remove(0);
        self.happen(Happened::Planned(token, parallel.to_vec()))
    }

    /// Ends the running call of this id.
    pub(super) fn tool(&mut self, id: &str, outcome: ToolOutcome) -> &mut Play {
        let at = self.tools.iter().position(|(_, call)| call.call_id == id).unwrap();
        let (token, _) = self.tools.remove(at);
        self.happen(Happened::ToolEnded(token, outcome))
    }

    /// Answers what hooks were asked first; `one` has its say.
    pub(super) fn hook(&mut self, verdict: Verdict) -> &mut Play {
        let (token, _) = self.hooks.remove(0);
        let report = HookReport {
            hook: "one".to_owned(),
            decision: "said".to_owned(),
            reason: None,
            exit_code: Some(0),
            stderr_summary: None,
            duration_ms: 3,
        };
        self.happen(Happened::Hooked(token, HookAnswer { verdict, reports: vec![report] }))
    }

    pub(super) fn ring(&mut self) -> &mut Play {
        let (token, _) = self.timers.remove(0);
        self.happen(Happened::Timer(token))
    }

    /// The lines since the last look.
    pub(super) fn told(&mut self) -> String {
        std::mem::take(&mut self.lines).join("\n")
    }
}

pub(super) fn assembly() -> Assembly {
    Assembly {
        served: Ok(Served {
            provider: "p".to_owned(),
            model: "m".to_owned(),
            max_tokens: Some(9),
            reasoning_effort: Some("high".to_owned()),
            max_tokens_is_default: true,
            reasoning_effort_is_default: true,
            context_window: Some(100),
            images: false,
        }),
        tools: Arc::from(Vec::<ToolSpec>::new()),
        retry: RetryPolicy::default(),
    }
}

/// The parts of an event that a story is about.
fn line(event: &Value) -> String {
    let data = &event["data"];
    let said = match event["type"].as_str().unwrap() {
        "agent/inbox/spliced" => {
            let (removed, inserted) =
                (&data["removedCount"], data["inserted"].as_array().unwrap().len());
            let outcome = data["outcome"].as_str().unwrap_or_default();
            format!("{} -{removed} +{inserted} {outcome}", data["target"].as_str().unwrap())
        }
        "turn/start" => data["turn"].to_string(),
        "turn/end" => format!("{} {}", data["turn"], data["reason"]),
        "step/start" | "step/end" => format!("{}.{}", data["turn"], data["step"]),
        "user/message" => data["content"][0]["text"].to_string(),
        "assistant/chunk" => data["chunk"]["type"].as_str().unwrap().to_owned(),
        "assistant/message" => {
            format!("{} from {}", data["message"]["content"], event["sourceEventSeqs"])
        }
        "tool/call" => data["callId"].to_string(),
        "tool/result" => {
            let block = &data["message"]["content"][0];
            format!(
                "{} {} {}",
                block["toolCallId"], block["content"][0]["text"], data["error"]["code"]
            )
        }
        "hook/result" => {
            let (point, hook) =
                (data["point"].as_str().unwrap(), data["handlerId"].as_str().unwrap());
            format!("{point} {hook} {}", data["decision"].as_str().unwrap())
        }
        "llm/retry" => format!("{} {}", data["retry"], data["delayMs"]),
        "llm/retry-started" => data["retry"].to_string(),
        "request/header" => data["reason"].to_string(),
        "approval/asked" => data["reason"].as_str().unwrap_or_default().to_owned(),
        "approval/decided" => data["outcome"].as_str().unwrap().to_owned(),
        "permission/preset" => data["preset"].as_str().unwrap().to_owned(),
        "sandbox/mode" => data["mode"].as_str().unwrap().to_owned(),
        "approval/policy" => data["policy"].as_str().unwrap().to_owned(),
        "job/registered" => data["jobId"].as_str().unwrap().to_owned(),
        "job/settled" => {
            format!("{} {} {}", data["jobId"].as_str().unwrap(), data["status"], data["cause"])
        }
        _ => String::new(),
    };
    let line = format!("{} {} {said}", event["seq"], event["type"].as_str().unwrap());
    line.trim_end().to_owned()
}
