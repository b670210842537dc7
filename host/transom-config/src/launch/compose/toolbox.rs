//! The built-in tools that a composition asks for: which of them can be offered, whether they work in the
//! background, and what is said of the others.

use std::collections::{BTreeMap, BTreeSet};

use crate::{launch::Launch, manifest::CHILD_TOOLS};

/// The tools that need background jobs.
const JOB_TOOLS: [&str; 3] = ["job_kill", "job_list", "job_output"];

/// What has been collected of tools so far.
#[derive(Default)]
pub(super) struct Toolbox {
    /// Asked for, and built in.
    wanted: BTreeSet<&'static str>,
    /// Asked for, and not part of this host.
    missing: BTreeSet<String>,
    /// Of the tools that can work in the background: whether they may.
    pub(super) background: BTreeMap<&'static str, bool>,
    /// What the tool `subagent` says of children: whether they take further messages.
    pub(super) continuable: Option<bool>,
    /// The provider that the tool `subagent` asks for.
    pub(super) provider: Option<String>,
    /// Something executes commands.
    pub(super) shell: bool,
    /// Something reaches files.
    pub(super) files: bool,
    /// Something keeps background jobs.
    pub(super) jobs: bool,
    /// What runs subagents, by name.
    pub(super) providers: BTreeSet<String>,
    /// There are attachments.
    pub(super) attachments: bool,
    /// What the file tools say of `read_image`; by default it comes with attachments.
    pub(super) read_image: Option<bool>,
}

impl Toolbox {
    pub(super) fn want(&mut self, tool: &'static str) {
        self.wanted.insert(tool);
    }

    pub(super) fn want_job_tools(&mut self) {
        self.wanted.extend(JOB_TOOLS);
    }

    pub(super) fn miss(&mut self, tool: &str) {
        self.missing.insert(tool.to_owned());
    }

    /// Says which tools are offered and how they work, with notices of what is left out.
    /// `otherwise`: whether children take further messages where nothing is said.
    pub(super) fn fill(mut self, launch: &mut Launch, otherwise: bool) {
        if self.read_image == Some(true) && self.attachments {
            self.want("read_image");
        }
        launch.subagents_continuable = self.keeps_children(launch, otherwise);
        let mut offered: BTreeSet<_> =
            self.wanted.iter().copied().filter(|tool| self.lack(tool).is_none()).collect();
        if !launch.subagents_continuable {
            offered.retain(|tool| !CHILD_TOOLS.contains(tool));
        }
        launch.jobs = self.has_jobs(&offered, &mut launch.notices);
        if !launch.jobs {
            offered.retain(|tool| !JOB_TOOLS.contains(tool));
        }

        let mut left_out: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for tool in self.wanted.difference(&offered) {
            let otherwise = match CHILD_TOOLS.contains(tool) {
                true => "no subagent takes further messages",
                false => "no tool works in the background",
            };
            let why = self.lack(tool).unwrap_or(otherwise);
            left_out.entry(why).or_default().push(tool);
        }
        for (why, tools) in left_out {
            let notice = format!("tools left out, because {why}: {}", tools.join(", "));
            launch.notices.push(notice);
        }

        if !self.missing.is_empty() {
            let names: Vec<_> = self.missing.into_iter().collect();
            launch.notices.push(format!("tools not part of this host: {}", names.join(", ")));
        }
        launch.tools = offered.into_iter().collect();
    }

    /// Whether children take further messages: if the tool that starts them may go on without them, and sessions are
    /// kept at all (L-72).
    fn keeps_children(&self, launch: &mut Launch, otherwise: bool) -> bool {
        let may = self.background.get("subagent").copied().unwrap_or_default();
        let offered = self.wanted.contains("subagent") && self.lack("subagent").is_none();
        if !offered || !may || !self.continuable.unwrap_or(otherwise) {
            return false;
        }
        if launch.sessions.is_none() {
            let notice = "subagents are for one task each, because sessions are not kept";
            launch.notices.push(notice.to_owned());
            return false;
        }
        true
    }

    /// What a tool would need that no entry is. A tool without what carries it out is not offered, as in the
    /// reference.
    fn lack(&self, tool: &str) -> Option<&'static str> {
        let provided = || self.provider.as_ref().is_some_and(|name| self.providers.contains(name));
        match tool {
            "bash" if !self.shell => Some("no entry is an executor of commands"),
            "edit" | "glob" | "grep" | "read" | "read_image" | "str_replace_editor" | "write"
                if !self.files =>
            {
                Some("no entry is a provider of files")
            }
            "subagent" if !provided() => Some("no entry is the provider of subagents it names"),
            "job_kill" | "job_list" | "job_output" if !self.jobs => {
                Some("no entry keeps background jobs")
            }
            _ => None,
        }
    }

    /// Whether the offered tools work in the background. They all do or none does, and whoever switches it off
    /// for one means to keep work in the foreground.
    fn has_jobs(&self, offered: &BTreeSet<&str>, notices: &mut Vec<String>) -> bool {
        let with = |allowed: bool| -> Vec<&str> {
            let tools = self.background.iter().filter(|(_, may)| **may == allowed);
            tools.map(|(tool, _)| *tool).filter(|tool| offered.contains(tool)).collect()
        };
        let (may, may_not) = (with(true), with(false));
        if may.is_empty() {
            return false;
        }
        let why = match (self.jobs, may_not.is_empty()) {
            (true, true) => return true,
            (true, false) => format!("it is switched off for {}", may_not.join(", ")),
            (false, _) => "no entry keeps background jobs".to_owned(),
        };
        notices.push(format!("no background work of {}, because {why}", may.join(", ")));
        false
    }
}
