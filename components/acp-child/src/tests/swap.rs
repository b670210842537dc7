//! The packed state. That a swap is never noticed, every other test shows too: `said` swaps between all inputs.

use transom_guest::{FaultKind, Machine, Outputs};

use super::*;
use crate::{
    answer::Answer,
    failure::{self, Failure},
    permission::{Decision, Permission},
    state::{Asked, Memory, STATE_FORMAT, Stage, Start},
};

fn asked() -> Asked {
    Asked { id: Some("a".into()), session: Some("s/你".into()) }
}

fn stages() -> Vec<Stage> {
    let mut answer = Answer::default();
    answer.add("words", Some("m"));
    answer.part();
    let prompting = |permission, answer| Stage::Prompting {
        session: "c".into(),
        prompt: Asked { id: None, session: None },
        permission,
        answer,
    };
    vec![
        Stage::Greeting { start: None },
        Stage::Greeting { start: Some(Start { asked: asked(), cwd: "/w".into() }) },
        Stage::Greeted,
        Stage::Opening { start: asked() },
        Stage::Open { session: "c".into() },
        prompting(Permission::Allow, answer),
        prompting(Permission::Reject, Answer::default()),
        Stage::Over,
        Stage::Failed(Failure::late(failure::Stage::Initialize, 9)),
        Stage::Failed(Failure::limit()),
        Stage::Failed(Failure::aborted(failure::Stage::NewSession)),
        Stage::Failed(Failure::closed(failure::Stage::Prompt)),
        Stage::Closed,
    ]
}

fn decisions() -> [Option<Decision>; 5] {
    let [once, always] = [Decision::AllowedOnce, Decision::AllowedAlways];
    [None, Some(once), Some(always), Some(Decision::Rejected), Some(Decision::Cancelled)]
}

#[test]
fn everything_that_is_remembered_survives() {
    for (index, stage) in stages().into_iter().enumerate() {
        let decision = decisions()[index % 5];
        let memory = Memory { stage, decision, questions: 300, noise: u64::MAX };
        let packed = memory.pack();
        assert_eq!(Memory::unpack(&packed), Ok(memory));
        for end in 0..packed.len() {
            assert!(Memory::unpack(&packed[..end]).is_err(), "{end} of {packed:?}");
        }
    }
}

#[test]
fn a_state_that_is_none_is_refused() {
    for (format, state, kind) in [
        (STATE_FORMAT + 1, Memory::new().pack(), FaultKind::Unsupported),
        (STATE_FORMAT, vec![99], FaultKind::Internal),
        (STATE_FORMAT, [Memory::new().pack(), vec![0]].concat(), FaultKind::Internal),
    ] {
        let refused = Conversation::resume(setup(), format, &state).unwrap_err();
        assert_eq!(refused.kind, kind);
    }
    let open = Conversation::open(&mut Outputs::default(), setup()).unwrap();
    assert!(Conversation::resume(setup(), STATE_FORMAT, &open.suspend()).is_ok());
}
