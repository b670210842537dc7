//! A door's frames, as component and policy together leave them, and its limits with where each comes from.

use std::path::PathBuf;

use transom_config::manifest;
use transom_doors::Door;
use transom_policy::{
    Action, FrameRules, Policy, decide,
    limits::{LIMIT_KEYS, Limits},
    named_limits,
};

use crate::environment::read_text;

/// What becomes of frames. A component says what it sends, a policy what it allows; both must agree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frames {
    /// Frames or prefixes, with the reason.
    pub(super) allowed: Vec<(String, String)>,
    /// What the component says it sends, and the policy does not name.
    pub(super) refused: Vec<(String, String)>,
    /// What the policy names, and the component does not say it sends.
    pub(super) unused: Vec<(String, String)>,
}

impl Frames {
    pub(super) fn new(declared: &FrameRules, granted: &FrameRules) -> Frames {
        let mut frames = Frames::default();
        let policy = Policy { frames: granted.clone(), ..Policy::default() };
        for rule in declared.iter() {
            let decision = decide(&policy, Action::SendFrame(rule.as_str()));
            let entry = (rule.as_str().to_owned(), decision.reason.to_string());
            if decision.allowed {
                frames.allowed.push(entry);
                continue;
            }
            // Of a prefix the policy may name a part.
            for part in granted.iter().filter(|part| rule.means(part.as_str())) {
                let reason = format!("frames.allow names {}", part.as_str());
                frames.allowed.push((part.as_str().to_owned(), reason));
            }
            frames.refused.push(entry);
        }
        for rule in granted.iter() {
            let whole = declared.naming(rule.as_str()).is_some();
            let part = declared.iter().any(|declared| rule.means(declared.as_str()));
            if !whole && !part {
                let reason = format!("the component does not declare {}", rule.as_str());
                frames.unused.push((rule.as_str().to_owned(), reason));
            }
        }
        frames
    }
}

/// One limit of a door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) name: &'static str,
    pub(super) value: u64,
    pub(super) source: String,
}

/// Every limit of a door, after the manifest had its word.
pub(super) fn limits(
    name: &str,
    door: &manifest::Door,
    policy: &Policy,
    file: Option<&PathBuf>,
    built_in: Option<&Door>,
) -> Vec<Limit> {
    let (text, from) = match (file, built_in) {
        (Some(file), _) => (read_text(file).unwrap_or_default(), file.display().to_string()),
        (None, Some(built_in)) => (built_in.policy_text.to_owned(), "built-in policy".to_owned()),
        (None, None) => (String::new(), String::new()),
    };
    let named = named_limits(&text);
    let mut values: Limits = policy.limits.clone();
    let limit = |key: &transom_policy::limits::LimitKey| {
        let limit = key.key.name;
        let source = if door.limits.find(limit).is_some() {
            format!("[door.{name}.limits]")
        } else if named.iter().any(|known| known == limit) {
            from.clone()
        } else if matches!(limit, "memory-bytes-max" | "output-bytes-per-call-max") {
            "follows unit-bytes-max of the policy".to_owned()
        } else {
            "default".to_owned()
        };
        Limit { name: limit, value: *key.field(&mut values), source }
    };
    LIMIT_KEYS.iter().map(limit).collect()
}

#[cfg(test)]
mod tests {
    use transom_policy::FrameRules;

    use super::Frames;

    fn check(declared: &[&str], granted: &[&str], allowed: &str, refused: &str, unused: &str) {
        let rules = |texts: &[&str]| FrameRules::parse(texts.iter().copied()).expect("rules");
        let frames = Frames::new(&rules(declared), &rules(granted));
        let names = |list: &[(String, String)]| {
            list.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let found = [names(&frames.allowed), names(&frames.refused), names(&frames.unused)];
        assert_eq!(found, [allowed, refused, unused], "{declared:?} {granted:?}");
    }

    #[test]
    fn component_and_policy_must_agree() {
        check(&[], &[], "", "", "");
        check(&["a/b"], &["a/b"], "a/b", "", "");
        check(&["a/b"], &["a/*"], "a/b", "", "");
        check(&["a/*"], &["a/*"], "a/*", "", "");
        check(&["a/b/*"], &["a/*"], "a/b/*", "", "");
        check(&["a/b"], &[], "", "a/b", "");
        check(&[], &["a/b"], "", "", "a/b");
        // Of a prefix only what the policy names.
        check(&["a/*"], &["a/b", "a/c", "d"], "a/b a/c", "a/*", "d");
        check(&["a/b"], &["ab/*"], "", "a/b", "ab/*");
    }
}
