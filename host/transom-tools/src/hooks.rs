//! Hooks of the operator: which programs are asked at a point, one after the other, and what their answers come to
//! together. One program and its answer are `hooks/program.rs` and `hooks/words.rs`; when anybody is asked is the loop's.

mod program;
mod words;

use std::{
    collections::HashMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{Semaphore, watch},
};
use tracing::{error, warn};
use transom_frame::SessionId;
use transom_harness::{
    block::Block,
    hooks::{
        CallVerdict, Context, HookAbout, HookAnswer, HookAsk, HookPoints, HookReport, HookedCall,
        ResultVerdict, StepVerdict, Verdict,
    },
    permissions::{Mode, rules::Pattern},
    ports::{Hooks, Sink, Stop, ToolOutcome},
};
use transom_process::{Command, Confined, Mark, Spawner, Stdin};

use self::{
    program::{Ended, Program},
    words::{Said, document, read},
};
use crate::{
    abort::{Abort, AbortSource},
    registry::{Registry, Stopper},
    shell::Held,
};

/// Programs that watch results, running at once on the whole host. They are nobody's answer, so they can wait.
const WATCHERS_MAX: usize = 16;

/// The same with those that wait for their turn. Past this, results come faster than they can be watched.
const WATCHERS_WAITING_MAX: usize = 256;

/// One hook, as the operator has configured it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookProgram {
    /// Unique; stands in the log.
    pub name: String,
    /// The point at which it has its say.
    pub event: HookEvent,
    /// The tools it is asked about, where the event is about a call. `None`: all.
    pub tool: Option<Pattern>,
    /// The program, by absolute path or by a name that is looked up in `PATH`.
    pub program: String,
    /// What it is started with.
    pub arguments: Vec<String>,
    /// Where it runs; absolute, and the operator's.
    pub directory: PathBuf,
    /// How long one answer may take.
    pub timeout: Duration,
}

/// The points of a turn, as operators name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookEvent {
    /// Whether a step may begin.
    PreStep,
    /// Whether a call may begin.
    PreExecute,
    /// What becomes of a call's result.
    PostExecute,
    /// Whether a turn may end.
    TurnStopping,
    /// A result is there; nobody waits for an answer.
    Result,
}

/// The hooks of a host. Cheap to clone.
#[derive(Clone)]
pub struct ProgramHooks {
    shared: Arc<Shared>,
}

struct Shared {
    runtime: Handle,
    spawner: Spawner,
    environment: Vec<(String, String)>,
    /// What holds them back, whatever a session may do (P-38).
    mode: Mutex<Mode>,
    /// Whether it is known yet what confines.
    ready: watch::Receiver<bool>,
    hooks: Vec<HookProgram>,
    registry: Registry,
    watchers: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    live: Mutex<Live>,
}

/// What runs, by session, so that it ends with it.
#[derive(Default)]
struct Live {
    last: u64,
    running: HashMap<SessionId, Vec<(u64, AbortSource)>>,
}

impl ProgramHooks {
    /// Hooks that see and render what this registry's tools give. `environment` is scrubbed (L-83); they are asked in
    /// this order. They run under `mode`, that of new sessions, as the registry's shells do (P-38); none starts before
    /// `ready` says that it is known what confines.
    pub fn new(
        registry: Registry,
        spawner: Spawner,
        environment: Vec<(String, String)>,
        (mode, ready): (Mode, watch::Receiver<bool>),
        hooks: Vec<HookProgram>,
    ) -> ProgramHooks {
        let shared = Shared {
            runtime: registry.runtime(),
            spawner,
            environment,
            mode: Mutex::new(mode),
            ready,
            hooks,
            registry,
            watchers: Arc::new(Semaphore::new(WATCHERS_MAX)),
            waiting: Arc::new(Semaphore::new(WATCHERS_WAITING_MAX)),
            live: Mutex::default(),
        };
        ProgramHooks { shared: Arc::new(shared) }
    }

    /// Another mode holds back hooks that start from now on.
    pub fn set_mode(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// Where somebody is asked.
    pub fn points(&self) -> HookPoints {
        let any = |event: HookEvent| self.shared.hooks.iter().any(|hook| hook.event == event);
        HookPoints {
            pre_step: any(HookEvent::PreStep),
            pre_execute: any(HookEvent::PreExecute),
            post_execute: any(HookEvent::PostExecute),
            turn_stopping: any(HookEvent::TurnStopping),
            result: any(HookEvent::Result),
        }
    }
}

impl fmt::Debug for ProgramHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment may hold secrets.
        f.debug_struct("ProgramHooks").field("hooks", &self.shared.hooks).finish_non_exhaustive()
    }
}

impl Hooks for ProgramHooks {
    fn ask(&self, ask: HookAsk, sink: Sink<HookAnswer>) -> Box<dyn Stop> {
        let source = AbortSource::new();
        let stop = Box::new(Stopper::new(source.clone()));
        let abort = source.signal();
        let runs = self.shared.begin(&ask.session, source);
        let shared = Arc::clone(&self.shared);
        // A task of its own, so that a panic ends there.
        let answering = self.shared.runtime.spawn(async move { shared.answer(ask, &abort).await });
        self.shared.runtime.spawn(async move {
            let answer = answering.await.unwrap_or_else(|failure| {
                error!(%failure, "asking hooks has a bug");
                Some(HookAnswer::none())
            });
            drop(runs);
            // Whoever stops a hook waits for nothing.
            if let Some(answer) = answer {
                sink(answer);
            }
        });
        stop
    }

    fn observe(&self, seen: HookAsk) {
        let seen = Arc::new(seen);
        for hook in self.shared.asked(&seen) {
            let Ok(place) = Arc::clone(&self.shared.waiting).try_acquire_owned() else {
                warn!(
                    hook = hook.name,
                    "results come faster than they can be watched; one is left out"
                );
                continue;
            };
            let (shared, hook, seen) = (Arc::clone(&self.shared), hook.clone(), Arc::clone(&seen));
            let source = AbortSource::new();
            let abort = source.signal();
            let runs = shared.begin(&seen.session, source);
            self.shared.runtime.spawn(async move {
                let turn = tokio::select! {
                    biased;
                    () = abort.set() => None,
                    turn = shared.watchers.acquire() => turn.ok(),
                };
                if turn.is_some()
                    && let Some(Ended { result: Err(why), .. }) =
                        shared.run(&hook, &seen, &abort).await
                {
                    warn!(hook = hook.name, why, "a hook that watches results has failed");
                }
                drop((runs, place));
            });
        }
    }

    fn end(&self, session: &SessionId) {
        let live = self.shared.live.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, source) in live.running.get(session).into_iter().flatten() {
            source.abort();
        }
    }
}

/// A place in what runs; given back however it ends.
struct Runs {
    shared: Arc<Shared>,
    session: SessionId,
    number: u64,
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.shared.end(&self.session, self.number);
    }
}

impl Shared {
    fn begin(self: &Arc<Shared>, session: &SessionId, source: AbortSource) -> Runs {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.last += 1;
        let number = live.last;
        live.running.entry(session.clone()).or_default().push((number, source));
        Runs { shared: Arc::clone(self), session: session.clone(), number }
    }

    fn end(&self, session: &SessionId, number: u64) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = live.running.get_mut(session) {
            running.retain(|(one, _)| *one != number);
            if running.is_empty() {
                live.running.remove(session);
            }
        }
    }

    /// The hooks of the point, in their order.
    fn asked(&self, ask: &HookAsk) -> impl Iterator<Item = &HookProgram> {
        let (event, call) = point(&ask.about);
        let name = call.map(|call| call.name.clone());
        self.hooks.iter().filter(move |hook| {
            let about_it = match (&hook.tool, &name) {
                (Some(pattern), Some(name)) => pattern.matches(name),
                (Some(_), None) | (None, _) => true,
            };
            hook.event == event && about_it
        })
    }

    /// What a program says; `None` once nobody waits for it.
    async fn run(&self, hook: &HookProgram, ask: &HookAsk, abort: &Abort) -> Option<Ended> {
        let command = Command {
            program: hook.program.clone(),
            arguments: hook.arguments.clone(),
            directory: Some(hook.directory.clone()),
            environment: self.environment.clone(),
            stdin: Stdin::Piped,
            mark: Some(Mark::unique()),
            ..Command::default()
        };
        let held = tokio::select! {
            biased;
            () = abort.set() => return None,
            held = self.hold(hook, ask, command) => held,
        };
        match held {
            Ok((command, verdict)) => {
                let program = Program { command, verdict, timeout: hook.timeout };
                program.run(&self.spawner, document(&hook.name, ask), abort).await
            }
            Err(why) => Some(Ended::failed(why, Duration::ZERO)),
        }
    }

    /// The command as it is to run: confined where a shell of a new session would be. Where nothing can confine it, it
    /// runs all the same unless the operator demands otherwise: it is the operator's own, and there is nobody to ask
    /// (`docs/decisions/0012`).
    async fn hold(
        &self,
        hook: &HookProgram,
        ask: &HookAsk,
        command: Command,
    ) -> Result<(Command, Option<transom_process::Verdict>), String> {
        // If whoever finds out is gone, nothing confines.
        drop(self.ready.clone().wait_for(|ready| *ready).await);
        let whose = (ask.session.clone(), ask.cwd.clone(), ask.root.clone());
        let mode = *self.mode.lock().unwrap_or_else(PoisonError::into_inner);
        match self.registry.hold(mode, whose, command).await? {
            Held::Free(command) => Ok((command, None)),
            Held::Confined(Confined { command, verdict }) => Ok((command, Some(verdict))),
            Held::Unconfinable(command, why) => {
                warn!(hook = hook.name, why, "a hook runs unconfined");
                Ok((command, None))
            }
        }
    }

    async fn answer(&self, ask: HookAsk, abort: &Abort) -> Option<HookAnswer> {
        let mut reports = Vec::new();
        let verdict = match &ask.about {
            HookAbout::PreStep { .. } => self.of_step(&mut reports, &ask, abort).await?,
            HookAbout::PreExecute { .. } => self.of_call(&mut reports, &ask, abort).await?,
            HookAbout::PostExecute { call, outcome } => {
                let (call, outcome) = (call.clone(), ToolOutcome::clone(outcome));
                self.of_outcome(&mut reports, ask, call, outcome, abort).await?
            }
            HookAbout::TurnStopping { .. } => self.of_end(&mut reports, &ask, abort).await?,
            HookAbout::Result { .. } => Verdict::Stop(Vec::new()),
        };
        Some(HookAnswer { verdict, reports })
    }

    /// Runs a hook, notes what it did, and gives what it said, or the words for its failure.
    async fn hear(
        &self,
        reports: &mut Vec<HookReport>,
        hook: &HookProgram,
        ask: &HookAsk,
        abort: &Abort,
    ) -> Option<Result<Said, String>> {
        let Ended { result, exit_code, stderr, elapsed } = self.run(hook, ask, abort).await?;
        let said = result.and_then(|stdout| read(hook.event, &stdout));
        let mut report = HookReport {
            hook: hook.name.clone(),
            decision: "failed".to_owned(),
            reason: None,
            exit_code,
            stderr_summary: None,
            duration_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        };
        let said = match said {
            Ok(said) => {
                said.decision().clone_into(&mut report.decision);
                report.reason = said.reason().map(str::to_owned);
                Ok(said)
            }
            Err(why) => {
                warn!(hook = hook.name, why, "a hook has failed");
                report.reason = Some(why.clone());
                report.stderr_summary = Some(stderr).filter(|text| !text.is_empty());
                Err(format!("hook \"{}\" failed: {why}", hook.name))
            }
        };
        reports.push(report);
        Some(said)
    }

    /// The first that rejects ends it; a failure is a rejection.
    async fn of_step(
        &self,
        reports: &mut Vec<HookReport>,
        ask: &HookAsk,
        abort: &Abort,
    ) -> Option<Verdict> {
        let mut contexts = Vec::new();
        for hook in self.asked(ask) {
            match self.hear(reports, hook, ask, abort).await? {
                Ok(Said::Proceed { contexts: said }) => contexts.extend(told(hook, said)),
                Ok(_) | Err(_) => return Some(Verdict::Step(StepVerdict::Reject)),
            }
        }
        Some(Verdict::Step(StepVerdict::Proceed { contexts }))
    }

    /// The first that denies ends it; a failure is a denial. Who asks is heard together with the others.
    async fn of_call(
        &self,
        reports: &mut Vec<HookReport>,
        ask: &HookAsk,
        abort: &Abort,
    ) -> Option<Verdict> {
        let mut asks = false;
        let mut reasons = Vec::new();
        for hook in self.asked(ask) {
            match self.hear(reports, hook, ask, abort).await? {
                Ok(Said::Allow) => {}
                Ok(Said::Ask { reason }) => {
                    asks = true;
                    reasons.extend(reason);
                }
                Ok(Said::Deny { reason }) | Err(reason) => {
                    return Some(Verdict::Call(CallVerdict::Deny { reason }));
                }
                Ok(_) => {
                    let reason = format!("hook \"{}\" gave no answer about a call", hook.name);
                    return Some(Verdict::Call(CallVerdict::Deny { reason }));
                }
            }
        }
        let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        Some(Verdict::Call(if asks { CallVerdict::Ask { reason } } else { CallVerdict::Allow }))
    }

    /// Each sees what the one before it has left. One that blocks, or fails, ends it.
    async fn of_outcome(
        &self,
        reports: &mut Vec<HookReport>,
        mut ask: HookAsk,
        call: HookedCall,
        mut outcome: ToolOutcome,
        abort: &Abort,
    ) -> Option<Verdict> {
        let hooks: Vec<_> = self.asked(&ask).cloned().collect();
        for hook in &hooks {
            let (verdict, contexts) = match self.hear(reports, hook, &ask, abort).await? {
                Ok(Said::Result { verdict, contexts }) => (verdict, contexts),
                Ok(_) => (
                    blocked(format!("hook \"{}\" gave no answer about a result", hook.name)),
                    Vec::new(),
                ),
                Err(why) => (blocked(why), Vec::new()),
            };
            let verdict = match verdict {
                // There is no value whose place another could take.
                ResultVerdict::Value(_) if outcome.is_error => {
                    blocked(format!("hook \"{}\" replaced the value of a failed call", hook.name))
                }
                verdict => verdict,
            };
            let blocks = matches!(verdict, ResultVerdict::Block(_));
            outcome = verdict
                .apply(outcome, |value| self.registry.render(&ask.session, &call.name, value));
            outcome.contexts.extend(told(hook, contexts));
            if blocks {
                break;
            }
            let about =
                HookAbout::PostExecute { call: call.clone(), outcome: Box::new(outcome.clone()) };
            ask = HookAsk { about, ..ask };
        }
        Some(Verdict::Outcome(Box::new(outcome)))
    }

    /// All are heard. One that fails keeps no turn from its end.
    async fn of_end(
        &self,
        reports: &mut Vec<HookReport>,
        ask: &HookAsk,
        abort: &Abort,
    ) -> Option<Verdict> {
        let mut contexts = Vec::new();
        for hook in self.asked(ask) {
            if let Ok(Said::Continue { messages }) = self.hear(reports, hook, ask, abort).await? {
                contexts.extend(told(hook, messages));
            }
        }
        Some(Verdict::Stop(contexts))
    }
}

fn blocked(why: String) -> ResultVerdict {
    ResultVerdict::Block(vec![Block::text(format!("Error: {why}"))])
}

fn told(hook: &HookProgram, texts: Vec<String>) -> impl Iterator<Item = Context> {
    let from = format!("hook:{}", hook.name);
    texts.into_iter().map(move |text| Context { from: from.clone(), text })
}

/// The operator's word for a point, and the call it is about.
fn point(about: &HookAbout) -> (HookEvent, Option<&HookedCall>) {
    match about {
        HookAbout::PreStep { .. } => (HookEvent::PreStep, None),
        HookAbout::PreExecute { call, .. } => (HookEvent::PreExecute, Some(call)),
        HookAbout::PostExecute { call, .. } => (HookEvent::PostExecute, Some(call)),
        HookAbout::TurnStopping { .. } => (HookEvent::TurnStopping, None),
        HookAbout::Result { call, .. } => (HookEvent::Result, Some(call)),
    }
}
