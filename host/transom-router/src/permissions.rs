//! What a door may change of a session's settings (P-35), and which directories sessions may use (P-5).

use serde_json::json;
use transom_frame::{Code, Failure, SessionId};
use transom_harness::{
    agent::Agent,
    permissions::{Mode, presets::PRESETS, rules::Pattern},
};

use crate::{Effect, peer::Asked, request::Permissions, router::Router};

impl Router {
    /// `session/permissions`: shows the preset, or switches to another that is not wider than the ceiling.
    pub(crate) fn permissions(
        &mut self,
        out: &mut Vec<Effect>,
        now: u64,
        id: &SessionId,
        asked: Asked,
        wanted: &Permissions,
    ) {
        if let Some(preset) = &wanted.set {
            let ceiling = self.ceiling_of(id);
            let now_at = self.sessions.get(id).map(|session| session.agent.access().mode);
            // Narrowing is always possible.
            let wide = PRESETS.iter().find(|known| {
                known.name == preset
                    && known.mode > ceiling
                    && now_at.is_none_or(|mode| known.mode >= mode)
            });
            if let Some(wide) = wide {
                let text = format!(
                    "preset \"{}\" is wider than \"{}\", the widest that a door may set",
                    wide.name,
                    ceiling.as_str()
                );
                let failure = Failure::new(Code::Denied, text).with("frame", "session/permissions");
                return self.refuse(out, &asked, &failure);
            }
            let switched =
                self.with_agent(out, now, id, |agent, effects| agent.switch(effects, now, preset));
            if let Some(Err(failure)) = switched {
                return self.refuse(out, &asked, &failure);
            }
            self.narrow_below(out, now, id);
        }
        let Some(session) = self.sessions.get(id) else { return };
        let shown = session.agent.permissions();
        let body = json!({
            "current": shown.current_value,
            "options": shown.options,
            "ceiling": self.ceiling_of(id).as_str(),
        });
        self.reply(out, id, asked, body.to_string());
    }

    /// The widest mode that a door may switch a session to. One that works for another is never wider than that one.
    fn ceiling_of(&self, id: &SessionId) -> Mode {
        let ceiling = self.host.ceiling;
        self.mode_above(id).map_or(ceiling, |above| above.min(ceiling))
    }

    /// What the live session may do that this one works for.
    fn mode_above(&self, id: &SessionId) -> Option<Mode> {
        let parent = self.sessions.get(id)?.parent()?;
        Some(self.sessions.get(parent)?.agent.access().mode)
    }

    /// After a switch: whatever works below a session may do no more than the one that it works for.
    fn narrow_below(&mut self, out: &mut Vec<Effect>, now: u64, id: &SessionId) {
        // Parents before their children.
        for below in self.with_descendants(id).iter().rev().filter(|below| *below != id) {
            if let Some(most) = self.mode_above(below) {
                self.with_agent(out, now, below, |agent, effects| agent.narrow(effects, now, most));
            }
        }
    }

    /// Holds a session that is about to be published to where its directory really stands, which is `found`, unless it
    /// may not work there. What is checked is what is held. A session whose directory is not there yet may be opened
    /// where all directories are allowed; it has no root until its first confined call finds one.
    pub(crate) fn pin_root(
        &self,
        frame: &str,
        agent: &mut Agent,
        found: Option<String>,
    ) -> Result<(), Failure> {
        let refusal = match &found {
            Some(found) => self.outside_workspaces(frame, found),
            None if self.host.workspaces.is_empty() => None,
            None => {
                let cwd = agent.cwd().unwrap_or(&self.host.directory);
                let text = format!(
                    "directory \"{cwd}\" is not there, so it cannot be one that sessions may use here"
                );
                Some(Failure::new(Code::Denied, text).with("frame", frame))
            }
        };
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        agent.pin_root(found);
        Ok(())
    }

    /// Why a session may not work in this directory, if it may not. `cwd` has no links.
    pub(crate) fn outside_workspaces(&self, frame: &str, cwd: &str) -> Option<Failure> {
        let workspaces = &self.host.workspaces;
        let inside =
            |pattern: &Pattern| pattern.matches(cwd) || pattern.matches(&format!("{cwd}/"));
        if workspaces.is_empty() || workspaces.iter().any(inside) {
            return None;
        }
        let listed: Vec<_> = workspaces.iter().map(|pattern| pattern.as_str()).collect();
        let text = format!(
            "directory \"{cwd}\" is not one that sessions may use here: {}",
            listed.join(", ")
        );
        Some(Failure::new(Code::Denied, text).with("frame", frame))
    }
}
