//! The operator's permission rules: which one decides about a call, and what there is to say of them (P-25 to P-32).
//! Reading the manifest is `transom-config`'s, resolving paths the caller's, asking the loop's.

mod pattern;

use std::fmt;

use serde_json::{Map, Value};

use super::{ApprovalPolicy, Mode, Outcome};

pub use pattern::Pattern;

/// Arguments that are compared as resolved, absolute paths (P-27).
pub const PATH_ARGUMENTS: [&str; 3] = ["file_path", "path", "workdir"];

/// What a rule says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// `allow`: it runs.
    Allow,
    /// `ask`: a person decides.
    Ask,
    /// `deny`: it does not run.
    Deny,
}

impl Decision {
    /// The word in manifests and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        }
    }

    /// The decision of that word.
    pub fn parse(word: &str) -> Option<Decision> {
        match word {
            "allow" => Some(Decision::Allow),
            "ask" => Some(Decision::Ask),
            "deny" => Some(Decision::Deny),
            _ => None,
        }
    }
}

/// Where a rule is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// As the operator has named it.
    pub file: String,
    /// From 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One `[[permissions.rule]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Matched against the tool's whole public name.
    pub tool: Pattern,
    /// Top-level arguments; all of them have to match.
    pub when: Vec<(String, Pattern)>,
    /// Holds only under this effective mode.
    pub mode: Option<Mode>,
    /// What it says.
    pub decision: Decision,
    /// For whoever is asked or refused.
    pub reason: Option<String>,
    /// Where it is written.
    pub place: Place,
}

/// A rule that cannot be obeyed; the texts follow the rule's place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// P-25: it would never match.
    #[error("{place}: the rule's `tool` is empty; name a tool, or `*` for all of them")]
    NoTool {
        /// The rule.
        place: Place,
    },
    /// P-25: the second one would never be looked at.
    #[error(
        "{place}: the rule is equal to that of {earlier} up to its decision; leave one of them out"
    )]
    Twin {
        /// The later rule.
        place: Place,
        /// The one before it.
        earlier: Place,
    },
    /// P-28.
    #[error(
        "{place}: an allow rule cannot recognise shell commands by pattern; use the exact command, or confine instead"
    )]
    AllowsByPattern {
        /// The rule.
        place: Place,
    },
}

/// Checked rules, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    default: Option<Decision>,
}

/// Who carries a tool out (P-29).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// This host, delegation to its own sessions included.
    BuiltIn,
    /// An MCP server or an adapter.
    Bridged {
        /// The tool says that it only reads, and the operator trusts its server with such words.
        trusted_read_only: bool,
    },
    /// An agent in another process.
    Delegation,
}

impl ToolKind {
    /// What holds where no rule matches and the operator has set no default (P-29).
    pub fn decision(self, mode: Mode) -> Decision {
        let vouched = match self {
            ToolKind::BuiltIn => true,
            ToolKind::Bridged { trusted_read_only } => trusted_read_only,
            ToolKind::Delegation => false,
        };
        match mode {
            Mode::ReadOnly if !vouched => Decision::Ask,
            Mode::ReadOnly | Mode::WorkspaceWrite | Mode::DangerFullAccess => Decision::Allow,
        }
    }
}

/// What rules are held against.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The public name.
    pub tool: &'a str,
    /// The effective mode, without a grant of this call.
    pub mode: Mode,
    /// Checked against the tool's schema.
    pub arguments: &'a Map<String, Value>,
    /// The absolute path that an argument leads to (P-48). Asked only for arguments that are there, and only where
    /// [`Rules::needs_paths`] says so. `None`: it cannot be resolved.
    pub resolved: &'a dyn Fn(&str) -> Option<String>,
    /// The workspace root; relative patterns stand below it.
    pub root: &'a str,
    /// Who carries it out.
    pub kind: ToolKind,
}

/// What becomes of a call, and by which rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict<'r> {
    /// What is decided.
    pub decision: Decision,
    /// `None`: by default.
    pub rule: Option<&'r Rule>,
}

impl Verdict<'_> {
    /// What stands in `approval/asked` if this is an ask (P-31).
    pub fn ask_reason(&self) -> &str {
        self.own_reason().unwrap_or("permission rule")
    }

    /// What the operator has written.
    pub fn own_reason(&self) -> Option<&str> {
        self.rule.and_then(|rule| rule.reason.as_deref())
    }

    /// What the model is told if this is a denial, without `Error: ` (P-31).
    pub fn denial(&self, tool: &str) -> String {
        let denied = format!("tool \"{tool}\" is denied by this host's permission rules");
        match self.own_reason() {
            Some(reason) => format!("{denied}: {reason}"),
            None => denied,
        }
    }

    /// What the model is told if this is an ask, and the host has no approvals at all (L-62).
    pub fn unsupported(&self, tool: &str) -> String {
        match self.own_reason() {
            Some(reason) => reason.to_owned(),
            None => format!("tool \"{tool}\" requires approval (not yet supported)"),
        }
    }
}

/// What the model is told of an ask by rule that was not granted (L-62). `None`: it was.
pub fn refusal(tool: &str, outcome: Outcome) -> Option<String> {
    match outcome {
        Outcome::AllowedOnce => None,
        Outcome::Rejected => Some(format!("the user rejected tool \"{tool}\"")),
        Outcome::Cancelled => Some(format!("approval for tool \"{tool}\" was cancelled")),
        Outcome::Unavailable => {
            Some(format!("tool \"{tool}\" requires approval, but no approval channel is available"))
        }
    }
}

impl Rules {
    /// Checks rules (P-25, P-28). All complaints come at once, in their order.
    pub fn new(rules: Vec<Rule>, default: Option<Decision>) -> Result<Rules, Vec<RuleError>> {
        let mut errors = Vec::new();
        let mut earlier: Vec<&Rule> = Vec::new();
        for rule in &rules {
            let place = rule.place.clone();
            if rule.tool.as_str().is_empty() {
                errors.push(RuleError::NoTool { place: place.clone() });
            }
            if let Some(twin) = earlier.iter().find(|earlier| rule.is_twin(earlier)) {
                errors.push(RuleError::Twin { place: place.clone(), earlier: twin.place.clone() });
            }
            if rule.allows_commands_by_pattern() {
                errors.push(RuleError::AllowsByPattern { place });
            }
            earlier.push(rule);
        }
        if errors.is_empty() { Ok(Rules { rules, default }) } else { Err(errors) }
    }

    /// The rules, the first one first.
    pub fn as_slice(&self) -> &[Rule] {
        &self.rules
    }

    /// What the operator has set for calls that no rule matches.
    pub fn default_decision(&self) -> Option<Decision> {
        self.default
    }

    /// What becomes of a call: the first rule that matches decides (P-26).
    pub fn decide(&self, call: &Facts<'_>) -> Verdict<'_> {
        let rule = self.rules.iter().find(|rule| rule.matches(call));
        let decision = match rule {
            Some(rule) => rule.decision,
            None => self.default.unwrap_or_else(|| call.kind.decision(call.mode)),
        };
        Verdict { decision, rule }
    }

    /// Whether a rule looks at a path of this tool, so that the caller has to resolve some.
    pub fn needs_paths(&self, tool: &str) -> bool {
        self.rules
            .iter()
            .filter(|rule| rule.tool.matches(tool))
            .any(|rule| rule.when.iter().any(|(argument, _)| is_path(argument)))
    }

    /// Rules without an effect, in their order (P-26, P-31).
    pub fn warnings(&self, known: &Known<'_>) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut earlier: Vec<&Rule> = Vec::new();
        for rule in &self.rules {
            let mut warn = |message: String| {
                warnings.push(Warning { place: Some(rule.place.clone()), message });
            };
            if !known.can_match(&rule.tool) {
                warn(format!(
                    "no tool is called {:?}: neither a built-in one nor one of a configured server or adapter",
                    rule.tool.as_str()
                ));
            }
            if let Some(hiding) = rule.hidden_by(&earlier) {
                warn(format!(
                    "the rule never decides, because that of {} always comes first; move it up, or leave it out",
                    hiding.place
                ));
            }
            if rule.decision == Decision::Ask && known.policy == ApprovalPolicy::Never {
                warn("the rule asks, which the approval policy `never` refuses; write `deny`, or set the policy to `ask`".to_owned());
            }
            earlier.push(rule);
        }
        if self.default == Some(Decision::Ask) && known.policy == ApprovalPolicy::Never {
            let message = "the default asks, which the approval policy `never` refuses; write `deny`, or set the policy to `ask`";
            warnings.push(Warning { place: None, message: message.to_owned() });
        }
        warnings
    }
}

/// What [`Rules::warnings`] needs to know of the deployment.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Names of built-in tools.
    pub names: &'a [&'a str],
    /// How the names of bridged tools begin, one for each server and adapter: `mcp__github__`.
    pub prefixes: &'a [&'a str],
    /// The approval policy of new sessions.
    pub policy: ApprovalPolicy,
}

impl Known<'_> {
    fn can_match(&self, tool: &Pattern) -> bool {
        self.names.iter().any(|name| tool.matches(name))
            || self.prefixes.iter().any(|prefix| tool.can_begin(prefix))
    }
}

/// Something that an operator probably did not mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The rule; `None`: the default.
    pub place: Option<Place>,
    /// What was found, and what would be right.
    pub message: String,
}

impl Rule {
    fn matches(&self, call: &Facts<'_>) -> bool {
        self.mode.is_none_or(|mode| mode == call.mode)
            && self.tool.matches(call.tool)
            && self.when.iter().all(|(argument, pattern)| self.compares(call, argument, pattern))
    }

    fn compares(&self, call: &Facts<'_>, argument: &str, pattern: &Pattern) -> bool {
        let Some(text) = call.arguments.get(argument).and_then(Value::as_str) else { return false };
        if !is_path(argument) {
            return pattern.matches(text);
        }
        match (call.resolved)(argument) {
            Some(path) => matches_path(pattern, &path, call.root),
            // Nobody knows where it leads: that is no reason to allow, and none to let it past a rule that forbids.
            None => self.decision != Decision::Allow,
        }
    }

    fn is_twin(&self, earlier: &Rule) -> bool {
        let includes = |left: &Rule, right: &Rule| left.when.iter().all(|w| right.when.contains(w));
        self.tool == earlier.tool
            && self.mode == earlier.mode
            && includes(self, earlier)
            && includes(earlier, self)
    }

    fn allows_commands_by_pattern(&self) -> bool {
        self.decision == Decision::Allow
            && self.tool.matches("bash")
            && self
                .when
                .iter()
                .any(|(argument, pattern)| argument == "command" && !pattern.is_exact())
    }

    /// The first of the rules that together match whatever this one matches.
    fn hidden_by<'r>(&self, earlier: &[&'r Rule]) -> Option<&'r Rule> {
        let modes = [Mode::ReadOnly, Mode::WorkspaceWrite, Mode::DangerFullAccess];
        let mut first = None;
        for mode in modes.into_iter().filter(|mode| self.mode.is_none_or(|own| own == *mode)) {
            let hiding = earlier.iter().find(|earlier| {
                earlier.mode.is_none_or(|theirs| theirs == mode) && earlier.covers(self)
            })?;
            first.get_or_insert(*hiding);
        }
        first
    }

    /// Whether every call that `later` matches is matched, modes aside.
    fn covers(&self, later: &Rule) -> bool {
        self.tool.covers(&later.tool)
            && self.when.iter().all(|(argument, pattern)| {
                later.when.iter().any(|(theirs, narrower)| {
                    theirs == argument && covers_argument(self, pattern, later, narrower, argument)
                })
            })
    }
}

fn covers_argument(
    rule: &Rule,
    pattern: &Pattern,
    later: &Rule,
    narrower: &Pattern,
    argument: &str,
) -> bool {
    if !is_path(argument) {
        return pattern.covers(narrower);
    }
    // A path that cannot be resolved passes an allow rule by and meets the others.
    if rule.decision == Decision::Allow && later.decision != Decision::Allow {
        return false;
    }
    match (is_absolute(pattern), is_absolute(narrower)) {
        (true, true) | (false, false) => pattern.covers(narrower),
        // Below some root, wherever that is.
        (true, false) => pattern.covers(&Pattern::new("/*")),
        (false, true) => false,
    }
}

fn is_path(argument: &str) -> bool {
    PATH_ARGUMENTS.contains(&argument)
}

fn is_absolute(pattern: &Pattern) -> bool {
    pattern.as_str().starts_with('/')
}

/// Relative patterns are held against what follows the root, so that a `*` in a directory's name stays a letter.
fn matches_path(pattern: &Pattern, path: &str, root: &str) -> bool {
    if is_absolute(pattern) {
        return pattern.matches(path);
    }
    match path.strip_prefix(root.trim_end_matches('/')) {
        // The root itself, which `*` means too.
        Some("") => pattern.matches(""),
        Some(below) => below.strip_prefix('/').is_some_and(|below| pattern.matches(below)),
        None => false,
    }
}

#[cfg(test)]
mod tests;
