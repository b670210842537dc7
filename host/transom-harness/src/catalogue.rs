//! What model providers offer to choose from, as `models/list` tells it (B-132). Advisory: a route that is not in it may
//! be served all the same (B-133), and whether it is, is left to `ports::Models`.

use serde::Serialize;

/// The answer to `models/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Catalogue {
    /// Providers that advertise models, by id.
    pub groups: Vec<Group>,
    /// Providers that could not tell what they have.
    pub failures: Vec<Unlisted>,
}

/// One provider with its models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Name under which it is registered, for example `deepseek-official`.
    pub id: String,
    /// For people.
    pub name: String,
    /// At least one, in the provider's order.
    pub models: Vec<Advertised>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Advertised {
    /// The provider's name for it, as a route has it.
    pub id: String,
    /// For people.
    pub name: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `None`: there is no choice of how hard it thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
}

/// How hard a model may think.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reasoning {
    /// At least one.
    pub efforts: Vec<Effort>,
    /// Taken where a route names none; `None`: the provider's own choice, which it does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_effort: Option<String>,
}

/// One effort.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Effort {
    /// As a route has it, for example `high`.
    pub id: String,
    /// For people.
    pub name: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A provider that could not tell what it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unlisted {
    /// As of a group.
    pub id: String,
    /// For people.
    pub name: String,
    /// Why; for people.
    pub message: String,
}
