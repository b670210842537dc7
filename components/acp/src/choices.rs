//! What a client may choose of a session: its model and how hard that thinks, read from the host's
//! catalogue and written as config options. When a choice takes effect is left to `standard.rs`.

use transom_guest::{
    json::{Reader, push_text},
    jsonrpc::string,
};

use crate::translate::{Refusal, members, text_of};

const MODEL: &str = "model";
const EFFORT: &str = "reasoning_effort";

/// Who answers the prompts of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) provider: String,
    pub(crate) model: String,
    /// `None`: the provider's own.
    pub(crate) effort: Option<String>,
    /// By the client: then each prompt brings it along.
    pub(crate) chosen: bool,
}

#[derive(Debug, Default)]
struct Group {
    id: String,
    name: String,
    models: Vec<Model>,
}

#[derive(Debug, Default)]
struct Model {
    id: String,
    name: String,
    description: Option<String>,
    efforts: Vec<Effort>,
    default_effort: Option<String>,
}

#[derive(Debug)]
struct Effort {
    id: String,
    name: String,
    description: Option<String>,
}

impl Selection {
    /// What `models/check` says of a session's route, else what the route itself says.
    pub(crate) fn of(checked: Option<&str>, route: &str) -> Option<Selection> {
        let checked = checked.and_then(|reply| members(reply, ["route"])).and_then(|[route]| route);
        let route = checked.unwrap_or(route);
        Some(Selection {
            provider: text_of(route, "provider")?.into_owned(),
            model: text_of(route, "model")?.into_owned(),
            effort: text_of(route, "reasoningEffort").map(Into::into),
            chosen: false,
        })
    }

    /// `Route` of the frames, as JSON text.
    pub(crate) fn route(&self) -> String {
        let mut route = String::from("{\"provider\":");
        push_text(&mut route, &self.provider);
        route.push_str(",\"model\":");
        push_text(&mut route, &self.model);
        if let Some(effort) = &self.effort {
            route.push_str(",\"reasoningEffort\":");
            push_text(&mut route, effort);
        }
        route.push('}');
        route
    }

    /// Changes one option. What is refused changes nothing.
    pub(crate) fn choose(&mut self, catalogue: &str, id: &str, value: &str) -> Result<(), Refusal> {
        let groups = groups(catalogue, self);
        match id {
            MODEL => {
                let found = groups.iter().find_map(|group| {
                    let mut models = group.models.iter();
                    let model = models.find(|model| key(&group.id, &model.id) == value)?;
                    Some((group, model))
                });
                let Some((group, model)) = found else {
                    return Err(Refusal::params(format!("unknown model option: {value}")));
                };
                // Its own default, whatever was chosen for another.
                *self = Selection {
                    provider: group.id.clone(),
                    model: model.id.clone(),
                    effort: model.default_effort.clone(),
                    chosen: true,
                };
            }
            EFFORT if current(&groups, self).is_some_and(|model| !model.efforts.is_empty()) => {
                let model = current(&groups, self);
                let offers = |model: &Model| match value {
                    "" => model.default_effort.is_none(),
                    value => model.efforts.iter().any(|effort| effort.id == value),
                };
                if !model.is_some_and(offers) {
                    let (provider, model) = (&self.provider, &self.model);
                    return Err(Refusal::params(format!(
                        "unknown reasoning effort for {provider}/{model}: {value}"
                    )));
                }
                self.effort = (!value.is_empty()).then(|| value.to_owned());
                self.chosen = true;
            }
            unknown => {
                return Err(Refusal::params(format!("unknown session config option: {unknown}")));
            }
        }
        Ok(())
    }
}

/// The whole list of options, as JSON text.
pub(crate) fn options(catalogue: &str, selection: Option<&Selection>) -> String {
    let Some(selection) = selection else { return "[]".to_owned() };
    let groups = groups(catalogue, selection);
    let mut out = String::from(
        "[{\"id\":\"model\",\"name\":\"Model\",\"category\":\"model\",\"type\":\"select\",\"currentValue\":",
    );
    push_text(&mut out, &key(&selection.provider, &selection.model));
    out.push_str(",\"options\":[");
    for (at, group) in groups.iter().enumerate() {
        out.push_str(if at > 0 { ",{\"group\":" } else { "{\"group\":" });
        push_text(&mut out, &group.id);
        out.push_str(",\"name\":");
        push_text(&mut out, &group.name);
        out.push_str(",\"options\":[");
        for (at, model) in group.models.iter().enumerate() {
            let value = key(&group.id, &model.id);
            push_option(&mut out, at, &value, &model.name, model.description.as_deref());
        }
        out.push_str("]}");
    }
    out.push_str("]}");
    if let Some(model) = current(&groups, selection).filter(|model| !model.efforts.is_empty()) {
        out.push_str(
            ",{\"id\":\"reasoning_effort\",\"name\":\"Reasoning effort\",\"category\":\"thought_level\",\"type\":\"select\",\"currentValue\":",
        );
        push_text(&mut out, selection.effort.as_deref().unwrap_or_default());
        out.push_str(",\"options\":[");
        let mut at = 0;
        if model.default_effort.is_none() {
            push_option(&mut out, at, "", "Provider default", None);
            at += 1;
        }
        for effort in &model.efforts {
            push_option(&mut out, at, &effort.id, &effort.name, effort.description.as_deref());
            at += 1;
        }
        out.push_str("]}");
    }
    out.push(']');
    out
}

fn push_option(out: &mut String, at: usize, value: &str, name: &str, description: Option<&str>) {
    out.push_str(if at > 0 { ",{\"value\":" } else { "{\"value\":" });
    push_text(out, value);
    out.push_str(",\"name\":");
    push_text(out, name);
    if let Some(description) = description {
        out.push_str(",\"description\":");
        push_text(out, description);
    }
    out.push('}');
}

/// The value of a model, which means nothing to clients.
fn key(provider: &str, model: &str) -> String {
    let mut key = String::from("[");
    push_text(&mut key, provider);
    key.push(',');
    push_text(&mut key, model);
    key.push(']');
    key
}

fn current<'a>(groups: &'a [Group], selection: &Selection) -> Option<&'a Model> {
    let group = groups.iter().find(|group| group.id == selection.provider)?;
    group.models.iter().find(|model| model.id == selection.model)
}

/// The groups of the catalogue, with the current model in them: it may be served without being advertised (B-133).
fn groups(catalogue: &str, selection: &Selection) -> Vec<Group> {
    let mut groups = Vec::new();
    let listed = members(catalogue, ["groups"]).and_then(|[groups]| groups);
    each(listed, |group| groups.extend(read_group(group)));
    if current(&groups, selection).is_none() {
        let id = &selection.provider;
        let at = match groups.iter().position(|group| group.id == *id) {
            Some(at) => at,
            None => {
                let group = Group { id: id.clone(), name: id.clone(), models: Vec::new() };
                groups.insert(0, group);
                0
            }
        };
        let (id, name) = (selection.model.clone(), selection.model.clone());
        if let Some(group) = groups.get_mut(at) {
            // How hard it may think is the provider's to say of its models, and this one is none of those.
            group.models.insert(0, Model { id, name, ..Model::default() });
        }
    }
    groups
}

fn read_group(group: &str) -> Option<Group> {
    let [id, name, listed] = members(group, ["id", "name", "models"])?;
    let mut models = Vec::new();
    each(listed, |model| models.extend(read_model(model)));
    Some(Group { id: string(id)?.into(), name: string(name)?.into(), models })
}

fn read_model(model: &str) -> Option<Model> {
    let [id, name, description, reasoning] =
        members(model, ["id", "name", "description", "reasoning"])?;
    let reasoning =
        reasoning.and_then(|reasoning| members(reasoning, ["efforts", "defaultEffort"]));
    let [efforts, default] = reasoning.unwrap_or_default();
    let mut read = Vec::new();
    each(efforts, |effort| read.extend(read_effort(effort)));
    Some(Model {
        id: string(id)?.into(),
        name: string(name)?.into(),
        description: string(description).map(Into::into),
        efforts: read,
        default_effort: string(default).map(Into::into),
    })
}

fn read_effort(effort: &str) -> Option<Effort> {
    let [id, name, description] = members(effort, ["id", "name", "description"])?;
    Some(Effort {
        id: string(id)?.into(),
        name: string(name)?.into(),
        description: string(description).map(Into::into),
    })
}

fn each<'a>(list: Option<&'a str>, mut entry: impl FnMut(&'a str)) {
    Reader::new(list.unwrap_or_default()).array(|reader| {
        entry(reader.value()?);
        Some(())
    });
}
