//! What `transom check` found, for people and as JSON.

use serde_json::{Value, json};
use transom_sandbox::Kind;

use super::{Checked, ComponentReport, DoorReport, Upgrade, WORLD};
use crate::agents;

impl Checked {
    pub(super) fn json(&self) -> Value {
        let components: Vec<Value> = self.components.iter().map(ComponentReport::json).collect();
        let doors: Vec<Value> = self.doors.iter().map(DoorReport::json).collect();
        json!({
            "manifests": self.manifests,
            "lock": self.lock,
            "components": components,
            "doors": doors,
            "agents": self.agents.iter().map(agents::Report::json).collect::<Vec<_>>(),
            "permissions": self.permissions.json,
            "confiner": self.permissions.report,
            "warnings": self.warnings,
            "errors": self.errors,
        })
    }

    pub(super) fn text(&self) -> String {
        let mut lines = Vec::new();
        for report in &self.components {
            report.lines(&mut lines);
        }
        for report in &self.doors {
            report.lines(&mut lines);
        }
        for report in &self.agents {
            report.lines(&mut lines);
        }
        lines.extend(self.permissions.lines.iter().cloned());
        self.permissions.confiner_lines(&mut lines);
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines.extend(self.errors.iter().map(|error| format!("error: {error}")));
        let count = |list: &[String], one: &str| match list.len() {
            1 => format!("1 {one}"),
            many => format!("{many} {one}s"),
        };
        lines.push(format!(
            "{}, {}",
            count(&self.errors, "error"),
            count(&self.warnings, "warning")
        ));
        lines.push(String::new());
        lines.join("\n")
    }
}

impl ComponentReport {
    /// The world, or why it has none.
    fn world(&self) -> Result<&'static str, String> {
        match self.candidate.as_ref().map(|candidate| &candidate.inspection) {
            Some(Ok(found)) => match &found.kind {
                Kind::Codec => Ok(WORLD),
                Kind::Other { why } => Err(why.clone()),
            },
            Some(Err(why)) => Err(why.clone()),
            None => Err("it cannot be read".to_owned()),
        }
    }

    fn imports(&self) -> &[String] {
        match self.candidate.as_ref().map(|candidate| &candidate.inspection) {
            Some(Ok(found)) => &found.imports,
            Some(Err(_)) | None => &[],
        }
    }

    fn json(&self) -> Value {
        let candidate = self.candidate.as_ref();
        let upgrade = self.upgrade.as_ref().map(|upgrade| match upgrade {
            Upgrade::From(pin) => {
                json!({ "version": pin.version, "digest": pin.digest.to_string() })
            }
            Upgrade::Against { version, digest, imports, frames, gains, lost, resumes } => json!({
                "version": version,
                "digest": digest,
                "addedImports": imports,
                "addedFrames": frames,
                "allowedFrames": gains,
                "removedFrames": lost,
                "resumes": resumes,
            }),
        });
        json!({
            "name": self.name,
            "source": self.source,
            "version": candidate.map(|candidate| candidate.version_text()),
            "digest": candidate.map(|candidate| candidate.digest.to_string()),
            "bytes": candidate.map(|candidate| candidate.bytes.len()),
            "pin": self.pin,
            "signature": self.signature,
            "world": self.world().ok(),
            "imports": self.imports(),
            "capabilities": Vec::<&str>::new(),
            "protocol": self.manifest.as_ref().map(|manifest| &manifest.protocol),
            "revisions": self.manifest.as_ref().map(|manifest| &manifest.revisions),
            "upgradeFrom": upgrade,
        })
    }

    fn lines(&self, lines: &mut Vec<String>) {
        lines.push(format!("component {}", self.name));
        let mut row = |name: &str, text: &str| lines.push(format!("  {name:<13}{text}"));
        row("source", &self.source);
        if let Some(candidate) = &self.candidate {
            row("version", candidate.version_text());
            row("digest", &candidate.digest.to_string());
        }
        row("pin", &self.pin);
        row("signature", &self.signature);
        match self.world() {
            Ok(world) => row("world", world),
            Err(why) => row("world", &format!("none that this host knows: {why}")),
        }
        row("imports", &list(self.imports(), "nothing"));
        if let Some(manifest) = &self.manifest {
            row("protocol", &format!("{} {}", manifest.protocol, manifest.revisions.join(", ")));
            row("capabilities", "none: a codec computes, and reaches nothing but its frames");
        }
        match &self.upgrade {
            None => {}
            Some(Upgrade::From(pin)) => row(
                "upgrade from",
                &format!(
                    "{} {}; what it adds is told where that file is given with `--against`",
                    pin.version, pin.digest
                ),
            ),
            Some(Upgrade::Against { version, digest, imports, frames, gains, lost, resumes }) => {
                row("upgrade from", &format!("{version} {digest}"));
                row("  imports", &format!("adds {}", list(imports, "none")));
                row("  frames", &format!("adds {}", list(frames, "none")));
                row("  of these", &format!("the policy allows {}", list(gains, "none")));
                row("  frames", &format!("drops {}", list(lost, "none")));
                row(
                    "  moves",
                    match resumes {
                        true => "live connections go on in it",
                        false => {
                            "live connections cannot go on in it and stay with the old version"
                        }
                    },
                );
            }
        }
    }
}

impl DoorReport {
    fn json(&self) -> Value {
        let reasons = |list: &[(String, String)]| -> Vec<Value> {
            list.iter().map(|(frame, why)| json!({ "frame": frame, "reason": why })).collect()
        };
        let frames = self.frames.as_ref().map(|frames| {
            json!({
                "allowed": reasons(&frames.allowed),
                "refused": reasons(&frames.refused),
                "unused": reasons(&frames.unused),
            })
        });
        let limits: serde_json::Map<String, Value> = self
            .limits
            .iter()
            .map(|limit| {
                (limit.name.to_owned(), json!({ "value": limit.value, "source": limit.source }))
            })
            .collect();
        json!({
            "name": self.name,
            "component": self.component,
            "carrier": self.carrier,
            "policy": self.policy,
            "frames": frames,
            "limits": limits,
        })
    }

    fn lines(&self, lines: &mut Vec<String>) {
        lines.push(format!("door {} ({}, {})", self.name, self.component, self.carrier));
        lines.push(format!("  policy       {}", self.policy));
        match &self.frames {
            None => lines.push("  frames       unknown: the component was not asked".to_owned()),
            Some(frames) => {
                for (word, entries) in [
                    ("may send", &frames.allowed),
                    ("refused", &frames.refused),
                    ("not used", &frames.unused),
                ] {
                    for (frame, why) in entries {
                        lines.push(format!("  {word:<12} {frame}  ({why})"));
                    }
                }
            }
        }
        for limit in &self.limits {
            lines.push(format!("  {:<26} {}  ({})", limit.name, limit.value, limit.source));
        }
    }
}

fn list(names: &[String], none: &str) -> String {
    if names.is_empty() { none.to_owned() } else { names.join(", ") }
}
