//! Messages and where they come from (L-12).

use serde::{Deserialize, Serialize};
use transom_frame::MessageId;

use crate::block::Block;

/// One entry of the conversation that a model sees.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Minted by the host, UUID v4 text (S-52).
    pub id: MessageId,
    /// Whom the model takes for its author.
    pub role: Role,
    /// In order; an assistant message may have none.
    pub content: Vec<Block>,
    /// Who produced it, whatever the role says (S-87).
    pub source: Source,
}

/// Whom a model takes for the author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// `user`: people, plugins, and the results of tools (L-13).
    User,
    /// `assistant`: the model itself.
    Assistant,
    /// `system`: known on the wire, not used on the surface (L-12).
    System,
}

/// The part of the host that tells models of the runtime context (L-96).
pub(crate) const CONTEXT_PLUGIN: &str = "@deepseek-ai/dsh-system-prompt";

/// Who produced a message (S-87); further kinds come with the features that make them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Source {
    /// `user`: a person, through a door.
    #[serde(rename_all = "camelCase")]
    User {
        /// Id of the browser's request; only the browser door gives it (S-87).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rpc_id: Option<String>,
        /// The browser's time zone; only the browser door gives it (S-87).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client_time_zone: Option<String>,
    },
    /// `plugin`: a part of the host, not a person.
    Plugin {
        /// Name of that part.
        plugin: String,
        /// Says how the content is to be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<Form>,
        /// What a snapshot consists of (L-12).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sections: Option<Vec<Section>>,
        /// For people: the content in short.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
    },
    /// `model`: on every assistant message (L-12).
    Model {
        /// Name under which the provider is registered.
        provider: String,
        /// The provider's name for it.
        model: String,
        /// `true`: a cancel has cut the answer, and this is what had come of it (L-48). Absent otherwise.
        #[serde(default, skip_serializing_if = "is_false")]
        partial: bool,
    },
    /// `tool`: on every tool result.
    #[serde(rename_all = "camelCase")]
    Tool {
        /// Equals `toolCallId` of the only block (L-13).
        call_id: String,
    },
    /// `coordinator`: the session that has delegated to this one (L-72).
    #[serde(rename_all = "camelCase")]
    Coordinator {
        /// `relay`.
        form: Form,
        /// That session.
        sender_session_id: String,
    },
    /// `subagent-report`: a child, in words of its own (L-72).
    #[serde(rename_all = "camelCase")]
    SubagentReport {
        /// `relay`.
        form: Form,
        /// The child.
        sender_session_id: String,
    },
    /// `subagent-settled`: the host, of a child that has come to rest (P-80).
    #[serde(rename_all = "camelCase")]
    SubagentSettled {
        /// `notice`.
        form: Form,
        /// For people: the content in short.
        summary: String,
        /// The child.
        sender_session_id: String,
    },
}

/// How a message that no person wrote is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// The whole of the runtime context; replaces earlier ones (L-96).
    Snapshot,
    /// One thing that has happened.
    Notice,
    /// The words of another session.
    Relay,
}

/// A named part of the system prompt or of the runtime context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Tells the sections of one message apart.
    pub name: String,
    /// Its words, as they stand in the message.
    pub text: String,
}

impl Source {
    /// A person's message from a door that tells no more about it.
    pub fn user() -> Source {
        Source::User { rpc_id: None, client_time_zone: None }
    }

    /// A message of a part of the host, without more about it.
    pub fn plugin(plugin: &str) -> Source {
        Source::Plugin { plugin: plugin.to_owned(), form: None, sections: None, summary: None }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Serialize, Deserialize)]
struct Wire {
    role: Role,
    content: Vec<Block>,
    source: Source,
    id: String,
}

impl Serialize for Message {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Borrowed<'a> {
            role: Role,
            content: &'a [Block],
            source: &'a Source,
            id: &'a str,
        }
        Borrowed {
            role: self.role,
            content: &self.content,
            source: &self.source,
            id: self.id.as_str(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Message, D::Error> {
        let wire = Wire::deserialize(deserializer)?;
        Ok(Message {
            id: wire.id.into(),
            role: wire.role,
            content: wire.content,
            source: wire.source,
        })
    }
}
