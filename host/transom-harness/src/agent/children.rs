//! What is particular to a delegated session and to one that delegates: what it is, how its model is told, what it
//! has said, and the children that it keeps (L-66, L-67, L-72). Orders between sessions are the router's.

use std::borrow::Cow;

use serde_json::Value;
use transom_frame::SessionId;

use super::{Agent, Effect, InboxFate};
use crate::{
    block::Block,
    event::{Data, SubagentMode, Target, TurnEnd},
    message::Source,
    ports::Route,
    subagents::{Catalogued, Descriptor, ToolFilter},
    system_prompt::{PromptSection, Text},
};

/// Where the persona stands in the system prompt (L-95).
const PERSONA_ORDER: i32 = 0;

impl Agent {
    /// What a delegated session is, also before its log says so.
    pub fn descriptor(&self) -> Option<&Descriptor> {
        self.undescribed.as_ref().or(self.log.descriptor())
    }

    /// Whether the session outlives its task and takes further messages (L-72).
    pub fn is_continuable(&self) -> bool {
        self.descriptor().is_some_and(|descriptor| descriptor.mode == SubagentMode::Continuable)
    }

    /// Goes on with `route`, where the log of a delegated session does not name another: what it was served with last is
    /// its own, whatever its parent asks for by now (L-67).
    pub fn keep_own_route(&mut self, route: Route) {
        self.route = route;
        let Some((provider, model, _)) = &self.log.request_context else { return };
        self.route = Route {
            provider: Some(provider.clone()),
            model: Some(model.clone()),
            max_tokens: self.log.max_tokens,
            reasoning_effort: None,
        };
        self.keep_effort();
    }

    /// The filters that tools of the host have to pass for the session, also after it was opened by itself, and in a fork
    /// of it (L-67).
    pub fn tool_filters(&self) -> Vec<ToolFilter> {
        let own = self.undescribed.iter().flat_map(Descriptor::filters);
        self.log.tool_filters.iter().chain(own).cloned().collect()
    }

    /// Tells a delegated session what its last words must be.
    pub fn expect_output(&mut self, schema: Option<Value>) {
        self.output_schema = schema;
    }

    /// What the model of a delegated session has said since it was last woken: its last answer, else what it streamed,
    /// else nothing (L-66).
    pub fn output(&self) -> Vec<Block> {
        match self.log.last_answer(self.active_from) {
            Some(message) => message.content.clone(),
            None if self.streamed.is_empty() => Vec::new(),
            None => vec![Block::text(self.streamed.clone())],
        }
    }

    /// Whether the session has stopped, and nothing of its own will wake it by itself (P-80). What waits in its inbox wakes
    /// nobody (L-27, L-33), and the end of a job only where it may (P-77). A turn that has failed, or was blocked, is an end
    /// whatever may follow.
    pub fn is_at_rest(&self) -> bool {
        !self.is_running() && (self.has_failed() || !self.a_job_will_wake())
    }

    /// Whether its last turn has come to an end of which its parent hears at once, whoever still works below it.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
            || matches!(self.last_end, Some(TurnEnd::Error { .. } | TurnEnd::Blocked))
    }

    /// Messages of people and of its parent that wait: those that a child has not begun with.
    pub fn waiting(&self) -> usize {
        let lists = [Target::NextStep, Target::NextTurn].map(|target| self.inbox.list(target));
        let all = lists.into_iter().flatten();
        all.filter(|it| matches!(it.source, Source::Coordinator { .. } | Source::User { .. }))
            .count()
    }

    /// From here on a disposal leaves what waits in the inbox for the next life.
    pub fn keep_inbox(&mut self) {
        self.inbox_fate = InboxFate::Keep;
    }

    /// Whether the session takes messages at all: it is not going away, and its log can be written.
    pub fn takes_messages(&self) -> bool {
        self.takes_changes().is_ok()
    }

    /// Keeps in the log that the session has a child that outlives its task.
    pub fn catalogue(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        child: &SessionId,
        created_at: u64,
        label: &str,
    ) {
        let data = Data::SubagentCatalog {
            version: 0,
            child_id: child.as_str(),
            child_created_at: created_at,
            mode: SubagentMode::Continuable,
            label,
        };
        out.push(Effect::Append(self.log.append(now, &data)));
        self.log.children.push(Catalogued { child: child.clone(), label: label.to_owned() });
    }

    /// Leaves a message for the next life of a session that is going away: it enters the log behind whatever the
    /// disposal has thrown out, and wakes nobody (P-80).
    pub fn leave_word(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        content: Vec<Block>,
        source: Source,
    ) {
        // Nothing is written behind what was lost (decision 1g).
        if self.failure.is_some() {
            return;
        }
        let message = self.told(content, source);
        let end = self.inbox.list(Target::NextStep).len();
        self.splice(out, now, Target::NextStep, end, 0, vec![message.into()], None);
        self.show_queue(out);
    }

    /// Says once what a delegated session is, ahead of its first step (L-67).
    pub(super) fn describe_once(&mut self, out: &mut Vec<Effect>, now: u64) {
        let Some(descriptor) = self.undescribed.take() else { return };
        let data = Data::SubagentDescriptor {
            version: 2,
            mode: descriptor.mode,
            provider: &descriptor.provider,
            label: descriptor.label.as_deref(),
            agent_provider: descriptor.agent_provider.as_deref(),
            agent_model: descriptor.agent_model.as_deref(),
            persona: descriptor.persona.as_deref(),
            tool_filter: descriptor.tool_filter.as_ref(),
            inherited_tool_filters: &descriptor.inherited_tool_filters,
        };
        out.push(Effect::Append(self.log.append(now, &data)));
        self.log.filter_tools(&descriptor);
        self.log.descriptor = Some(descriptor);
    }

    /// The sections of the system prompt. A persona of the session's own takes the place of the host's (L-67).
    pub(super) fn prompt_sections(&self) -> Cow<'_, [PromptSection]> {
        let sections = &self.config.prompt;
        let Some(persona) = self.descriptor().and_then(|own| own.persona.as_ref()) else {
            return Cow::Borrowed(sections);
        };
        let others = sections.iter().filter(|section| section.order != PERSONA_ORDER).cloned();
        let own = PromptSection {
            name: "persona".to_owned(),
            order: PERSONA_ORDER,
            text: Text::Verbatim(persona.clone()),
        };
        Cow::Owned(others.chain([own]).collect())
    }

    /// What the model of a delegated session is told of that.
    pub(super) fn delegation_text(&self) -> String {
        let mut text = DELEGATION.to_owned();
        if self.is_continuable() {
            text.push_str(CONTINUABLE);
        }
        if let Some(schema) = &self.output_schema {
            text.push_str(&format!(
                " That last message must be a single JSON value and nothing else, valid against this JSON Schema: {schema}"
            ));
        }
        text
    }
}

const DELEGATION: &str = "You work on a task that another agent has handed to you. Its scope, and what you may do, are fixed \
                          and cannot be widened. Finish with a message that says what you did, and what you could not do \
                          and why.";

const CONTINUABLE: &str = " Whoever has handed it to you is told when you have finished, and may write to you again. With \
                           report you can tell them something before that.";
