//! The manifest's kinds of children, in the words of the tool that starts them (L-67): personas read, schemas looked
//! at. Nothing is started here.

use anyhow::{Context as _, bail};
use serde_json::Value;
use transom_config::manifest::{Manifest, Subagent, SubagentMode};
use transom_harness::{
    ports::Route,
    subagents::{Nature, ToolFilter},
};
use transom_tools::{Delegating, IN_PROCESS, SubagentKind, unsupported};

use crate::environment::read_text;

/// What the tool `subagent` offers.
pub(crate) fn delegating(manifest: &Manifest) -> anyhow::Result<Delegating> {
    let mode = manifest.tools.subagent_mode;
    let kinds = manifest.subagents.iter().map(|(name, kind)| {
        let nature = nature(kind, mode).with_context(|| format!("[subagents.{name}]"))?;
        Ok(SubagentKind {
            name: name.clone(),
            description: kind.description.clone(),
            provider: kind.agent.clone().unwrap_or_else(|| IN_PROCESS.to_owned()),
            nature,
        })
    });
    Ok(Delegating {
        continuable: mode == SubagentMode::Continuable,
        kinds: kinds.collect::<anyhow::Result<_>>()?,
    })
}

fn nature(kind: &Subagent, mode: SubagentMode) -> anyhow::Result<Nature> {
    let persona = match &kind.persona_file {
        None => kind.persona.clone(),
        Some(file) => {
            let text = read_text(file)
                .with_context(|| format!("cannot read the persona {}", file.display()))?;
            Some(text.trim().to_owned())
        }
    };
    let output_schema = kind.output_schema.clone().map(Value::Object);
    if let Some(found) = output_schema.as_ref().and_then(unsupported) {
        bail!("`output-schema` uses \"{found}\", which is not checked; leave it out");
    }
    let filter = ToolFilter { allow: kind.tools.clone(), deny: kind.without_tools.clone() };
    Ok(Nature {
        persona,
        tools: Some(filter).filter(|filter| *filter != ToolFilter::default()),
        output_schema,
        depth_max: kind.depth_max,
        route: Route {
            provider: kind.provider.clone(),
            model: kind.model.clone(),
            ..Route::default()
        },
        continuable: kind.is_continuable(mode),
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use transom_config::manifest::Manifest;

    use super::delegating;

    fn kinds(kind: &str) -> anyhow::Result<transom_tools::Delegating> {
        let text = format!(
            "[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n[subagents.a]\ndescription = 'd'\n{kind}"
        );
        delegating(&Manifest::parse(Path::new("/transom.toml"), text.as_bytes()).unwrap())
    }

    #[test]
    fn a_kind_comes_to_a_nature() {
        let home = tempfile::tempdir().unwrap();
        let persona = home.path().join("persona.md");
        fs::write(&persona, "You judge.\n").unwrap();
        let file = persona.display();
        let made = kinds(&format!("persona-file = '{file}'\nwithout-tools = ['bash']")).unwrap();
        let nature = &made.kinds[0].nature;
        assert_eq!(nature.persona.as_deref(), Some("You judge."));
        let filter = nature.tools.as_ref().unwrap();
        assert!(filter.admits("read") && !filter.admits("bash"));
        assert!(!nature.continuable && !made.continuable);
    }

    #[test]
    fn a_kind_of_an_agent_goes_to_the_agent_and_asks_nothing_of_it() {
        let made = kinds("agent = 'other'\n[agent.other]\ncommand = ['other']").unwrap();
        assert_eq!(made.kinds[0].provider, "other");
        assert_eq!(made.kinds[0].nature, transom_harness::subagents::Nature::default());
    }

    #[test]
    fn what_cannot_be_obeyed_is_refused() {
        for (kind, why) in [
            ("persona-file = '/nowhere/persona.md'", "cannot read the persona"),
            ("output-schema = { pattern = 'x' }", "uses \"pattern\", which is not checked"),
        ] {
            let refused = format!("{:#}", kinds(kind).unwrap_err());
            assert!(refused.contains("[subagents.a]") && refused.contains(why), "{refused}");
        }
    }
}
