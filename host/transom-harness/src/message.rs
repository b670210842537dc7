//! Messages and where they come from (L-12).

use serde::{Deserialize, Serialize};
use transom_frame::MessageId;

use crate::block::Block;

/// One entry of the conversation that a model sees.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub id: MessageId,
    pub role: Role,
    pub content: Vec<Block>,
    pub source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    User,
    Assistant,
    System,
}

/// Who produced a message (S-87); further kinds come with the features that make them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Source {
    #[serde(rename_all = "camelCase")]
    User {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rpc_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client_time_zone: Option<String>,
    },
    Plugin {
        plugin: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<Form>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sections: Option<Vec<Section>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
    },
    Model {
        provider: String,
        model: String,
    },
    #[serde(rename_all = "camelCase")]
    Tool {
        call_id: String,
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
}

/// A named part of the system prompt or of the runtime context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    pub name: String,
    pub text: String,
}

impl Source {
    pub fn user() -> Source {
        Source::User { rpc_id: None, client_time_zone: None }
    }
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
