//! When a failed attempt is made again, and after how long (L-41).

use crate::{chance::Chance, chunk::LlmFailure, event::RetryMode, ports::RetryPolicy};

/// A decision to try again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Again {
    /// That of the policy.
    pub mode: RetryMode,
    /// Counts from 1.
    pub retry: u32,
    /// `None` where there is no bound.
    pub max_retries: Option<u32>,
    /// Until the next attempt, in milliseconds.
    pub delay_ms: u64,
}

/// Names a policy in the log: equal keys mean that counts may be added up.
pub fn policy_key(policy: &RetryPolicy) -> String {
    let RetryPolicy { initial_delay_ms, max_delay_ms, jitter_ratio, .. } = policy;
    match &policy.normal {
        Some(normal) => crate::json(&(
            "normal",
            normal.max_retries,
            &normal.codes,
            initial_delay_ms,
            max_delay_ms,
            jitter_ratio,
        )),
        None => crate::json(&("always", initial_delay_ms, max_delay_ms, jitter_ratio)),
    }
}

/// `before`: how many retries of this step there have been under the same policy.
pub fn decide(
    chance: &mut Chance,
    policy: &RetryPolicy,
    before: u32,
    failure: &LlmFailure,
) -> Option<Again> {
    let retry = before + 1;
    let (mode, max_retries) = match &policy.normal {
        Some(normal) => {
            if before >= normal.max_retries || !normal.codes.contains(&failure.code) {
                return None;
            }
            (RetryMode::Normal, Some(normal.max_retries))
        }
        None => (RetryMode::Always, None),
    };
    let delay_ms = match failure.provider_retry_after_ms {
        Some(wish) if wish > 0 && wish <= policy.max_delay_ms => wish,
        // Longer than this side is ready to wait: give up, unless the policy never does.
        Some(wish) if wish > 0 && mode == RetryMode::Normal => return None,
        _ => local_delay(chance, policy, retry),
    };
    Some(Again { mode, retry, max_retries, delay_ms })
}

fn local_delay(chance: &mut Chance, policy: &RetryPolicy, retry: u32) -> u64 {
    let doubled =
        policy.initial_delay_ms.saturating_mul(1_u64.checked_shl(retry - 1).unwrap_or(u64::MAX));
    let base = doubled.min(policy.max_delay_ms) as f64;
    let factor = 1.0 + policy.jitter_ratio * (2.0 * chance.unit() - 1.0);
    ((base * factor).round() as u64).min(policy.max_delay_ms)
}
