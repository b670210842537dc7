//! Memory of an instance never shrinks: one that a large unit has blown up is exchanged for a fresh one behind the call, with
//! its state (decision 54). How large a unit may be is the policy's.

use serde_json::json;

use super::{Next, Open, log};
use crate::{
    codec::CodecError,
    effect::{Effect, Level},
    replace::resume,
};

/// From here on an instance is exchanged. An idle conversation takes 61 KiB; a unit of one MiB leaves four of them behind, and
/// moving costs less than parsing that unit did.
pub(super) const RENEW_ABOVE: u64 = 4 << 20;

impl Open {
    /// Exchanges the instance where it has become large. If it cannot be, it stays.
    pub(super) fn renew(&mut self, out: &mut Vec<Effect>) -> Result<Next, CodecError> {
        let before = self.codec.memory_bytes();
        if before <= self.renew_above {
            return Ok(Next::GoOn);
        }
        let (source, format) = (&self.serving.source, self.serving.source.manifest().state_format);
        let state = self.codec.suspend()?;
        match resume(source.as_ref(), None, &self.setup, format, &state) {
            Ok(codec) => self.codec = codec,
            Err(error) => {
                // It would be the same the next time.
                self.renew_above = u64::MAX;
                let fields = json!({"bytes": before, "why": error.to_string()});
                log(out, Level::Warn, "large instance kept", fields);
                return Ok(Next::GoOn);
            }
        }
        let after = self.codec.memory_bytes();
        // A state that needs all of that is not moved again for every call.
        self.renew_above = RENEW_ABOVE.max(after.saturating_mul(2));
        log(out, Level::Debug, "instance renewed", json!({"before": before, "after": after}));
        Ok(Next::GoOn)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use insta::assert_snapshot;

    use crate::{
        codec::{Framing, Manifest},
        script::{POLICY, Player, Script},
    };

    fn played(script: Script, commands: &[&str]) -> String {
        let mut player = Player::open(Arc::new(script), Framing::Lines, POLICY);
        for command in commands {
            player.play(command);
        }
        player.transcript
    }

    const GROWS: [&str; 4] = [
        "1 unit request 1 session/wait; deadline 30",
        "2 unit grow 4190207",
        "3 unit grow 2",
        "4 frame reply 1 session/wait",
    ];

    #[test]
    fn a_large_instance_goes_on_in_a_fresh_one() {
        assert_snapshot!(played(Script::default(), &GROWS), @r#"
        > 1 unit request 1 session/wait; deadline 30
        < request session/wait 1 {}
        < deadline 30
        > 2 unit grow 4190207
        < write 2 has 4194303
        > 3 unit grow 2
        < write 3 has 4194305
        < debug: instance renewed {"before":4194305,"after":4096}
        > 4 frame reply 1 session/wait
        < write 4 heard reply session/wait 1 {}
        "#);
    }

    #[test]
    fn an_instance_that_cannot_be_renewed_stays() {
        let manifest = Manifest { resumes: vec![2], ..Script::default().manifest };
        let commands = [&GROWS[..], &["5 unit grow 9000000"]].concat();
        assert_snapshot!(played(Script { manifest, ..Script::default() }, &commands), @r#"
        > 1 unit request 1 session/wait; deadline 30
        < request session/wait 1 {}
        < deadline 30
        > 2 unit grow 4190207
        < write 2 has 4194303
        > 3 unit grow 2
        < write 3 has 4194305
        < warn: large instance kept {"bytes":4194305,"why":"unsupported: state format 1, but [2] are resumed"}
        > 4 frame reply 1 session/wait
        < write 4 heard reply session/wait 1 {}
        > 5 unit grow 9000000
        < write 5 has 13194305
        "#);
    }

    #[test]
    fn an_instance_that_breaks_when_it_is_suspended_ends_its_connection() {
        assert_snapshot!(played(Script { suspends: false, ..Script::default() }, &GROWS), @r#"
        > 1 unit request 1 session/wait; deadline 30
        < request session/wait 1 {}
        < deadline 30
        > 2 unit grow 4190207
        < write 2 has 4194303
        > 3 unit grow 2
        < write 3 has 4194305
        < faulted script 1: trap: suspend
        < close Some(1011) "the door failed" failed
        > 4 frame reply 1 session/wait
        "#);
    }
}
