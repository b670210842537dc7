//! One run of an agent, as a story: started whole or not at all, given its task, and ended with everything that it
//! has started.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{
    io::sink,
    process::ChildStdout,
    sync::{oneshot, watch},
    task::spawn_blocking,
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};
use transom_frame::FrameKind;
use transom_harness::ports::{Delegation, DelegationEvent, Sink};
use transom_process::{Command, Ending, Exit, Mark, Process, Stderr, Stdin, Tree};

use super::{
    Place, Shared, body,
    body::Outcome,
    directory,
    failure::{ABORTED, Failure, with_teardown},
    link::Link,
    output::Output,
};
use crate::connection::told_to_stop;

/// What a codec gets beyond the agent's own time to start, before it is not waited for any more.
const START_SLACK: Duration = Duration::from_secs(1);

/// How long a codec may take to answer a cancel. It needs microseconds; the caller is answered in any case.
const CANCEL: Duration = Duration::from_millis(250);

/// How long the end of a process is waited for whose wire has ended: the two come together, in either order.
const EXIT: Duration = Duration::from_millis(500);

/// Between `SIGTERM` and `SIGKILL` when the host comes to its end (decision 33).
const TEARDOWN_GRACE: Duration = Duration::from_millis(300);

/// The ids of the two requests of a run.
const START_ID: &str = "start";
const PROMPT_ID: &str = "prompt";

/// A process, with everything that it starts, until both are proven gone.
struct Body {
    tree: Tree,
    /// How the agent itself has ended, once it has.
    exit: watch::Receiver<Option<Exit>>,
    /// Dropping it lets the process go; whatever is left of it is killed.
    _held: oneshot::Sender<()>,
}

/// Why there is no agent.
enum NotStarted {
    /// Nobody wants it any more.
    Aborted,
    Failed(Failure),
}

pub(super) async fn run(
    shared: Arc<Shared>,
    delegation: Delegation,
    sink: Sink<DelegationEvent>,
    abort: watch::Receiver<bool>,
) {
    let name = shared.settings.name.clone();
    let refuse = |told: String| {
        info!(agent = %name, reason = told, "an agent was not started");
        sink(DelegationEvent::Refused(told));
    };
    let place = match Place::take(&shared) {
        Ok(place) => place,
        Err(most) => {
            let sentence =
                format!("{most} agents run at once, which is `connections-max`; try again later");
            return refuse(Failure::new(&sentence, "process", "process-start").told(None));
        }
    };
    let mut unwanted = Unwanted { abort, stopping: shared.stopping.subscribe() };
    if unwanted.is_now() {
        return refuse(ABORTED.to_owned());
    }
    let command = match command(&shared, &delegation).await {
        Ok(command) => command,
        Err(told) => return refuse(told),
    };

    // A birth that nobody waits for any more ends as it comes, by the spawner.
    let spawned = tokio::select! {
        biased;
        () = unwanted.wait() => return refuse(ABORTED.to_owned()),
        spawned = shared.spawner.spawn(command.clone()) => spawned,
    };
    let process = match spawned {
        Ok(process) => process,
        Err(error) => {
            return refuse(Failure::spawn(&shared.settings.program, &error).told(None));
        }
    };
    let id = process.id();
    let Some((body, link)) = embody(&shared, process, command.mark.as_ref()) else {
        return refuse(Failure::new("it has no pipes", "process", "process-start").told(None));
    };
    debug!(agent = %name, process = id, "agent started");

    if let Err(why) = started(&shared, &command, &link, &mut unwanted).await {
        // Nobody has heard of it, so nobody would end it: first it is gone, then it is told.
        let exit = exit_of(
            &body,
            |failure| match failure {
                NotStarted::Failed(failure) => failure.is_of_the_wire(),
                NotStarted::Aborted => false,
            },
            &why,
        )
        .await;
        let told = match &why {
            NotStarted::Aborted => ABORTED.to_owned(),
            NotStarted::Failed(failure) => failure.told(exit),
        };
        let gone = dispose(&shared, link, &body).await;
        refuse(if gone { told } else { with_teardown(&told) });
        return linger(gone, body, place).await;
    }
    // Its name is of this host's making: two agents may call their sessions the same.
    let child = uuid::Uuid::new_v4().to_string();
    info!(agent = %name, process = id, run = child, "agent published");
    sink(DelegationEvent::Started { child: child.as_str().into() });

    let prompt = body::prompt(&delegation.prompt, shared.settings.permission);
    let mut answer = link.ask("agent/prompt", PROMPT_ID, prompt);
    let outcome = tokio::select! {
        biased;
        reply = &mut answer => match reply {
            Ok(reply) => body::outcome(&reply),
            Err(_) => Outcome::failed(Failure::lost("prompt", &link.reason()), link.partial()),
        },
        () = unwanted.wait() => {
            link.cancel(PROMPT_ID);
            match timeout(CANCEL, answer).await {
                Ok(Ok(reply)) => body::outcome(&reply),
                Ok(Err(_)) | Err(_) => Outcome::aborted(link.partial()),
            }
        }
    };
    let end = |outcome: &Outcome, diagnostic: Option<String>| {
        info!(agent = %name, run = child, stop_reason = outcome.stop_reason, "agent's run is over");
        sink(DelegationEvent::Ended {
            stop_reason: outcome.stop_reason.to_owned(),
            output: outcome.output.clone(),
            diagnostic,
        });
    };
    // The caller is answered at once; that the agent is gone is proven behind its back (A-155, L-70).
    let aborted = unwanted.is_now();
    if aborted {
        let outcome = Outcome { stop_reason: "aborted", failure: None, ..outcome };
        end(&outcome, None);
        let gone = dispose(&shared, link, &body).await;
        return linger(gone, body, place).await;
    }
    let exit = exit_of(
        &body,
        |failure: &Option<Failure>| failure.as_ref().is_some_and(Failure::is_of_the_wire),
        &outcome.failure,
    )
    .await;
    let told = match &outcome.failure {
        Some(failure) => {
            let told = failure.told(exit);
            warn!("subagent-acp \"{name}\": child run failed (error): {told}");
            Some(told)
        }
        None => outcome.remark.clone(),
    };
    // Whoever does not want to wait for the proof need not.
    let gone = {
        let mut disposing = pin!(dispose(&shared, link, &body));
        tokio::select! {
            biased;
            gone = &mut disposing => {
                let told =
                    if gone { told } else { Some(with_teardown(&told.unwrap_or_default())) };
                end(&outcome, told);
                gone
            }
            () = unwanted.wait() => {
                end(&outcome, told);
                disposing.await
            }
        }
    };
    linger(gone, body, place).await;
}

/// What is run, where, and by what it is told. Refusals are whole sentences.
async fn command(shared: &Arc<Shared>, delegation: &Delegation) -> Result<Command, String> {
    if delegation.prompt.trim().is_empty() {
        return Err(Failure::new("the task holds no text", "prompt", "unknown").told(None));
    }
    let settings = &shared.settings;
    let (configured, session) = (settings.directory.clone(), delegation.directory.clone());
    let found = spawn_blocking(move || directory(configured.as_deref(), session.as_deref())).await;
    let directory = found.unwrap_or_else(|error| Err(format!("subagent-acp: {error}")))?;
    // A part of the session's: what it has started ends with it (P-41).
    let part = format!("agent-{}", uuid::Uuid::new_v4());
    let mark = (shared.marks)(&delegation.parent).unwrap_or_else(Mark::unique).part(&part);
    Ok(Command {
        program: settings.program.clone(),
        arguments: settings.arguments.clone(),
        directory: Some(directory),
        environment: settings.environment.clone(),
        stdin: Stdin::Piped,
        // What it says to people never mixes with what it says to this host.
        stderr: Stderr::Inherited,
        mark: Some(mark),
        ..Command::default()
    })
}

/// Takes a fresh process into care, and opens the connection to it.
fn embody(shared: &Arc<Shared>, mut process: Process, mark: Option<&Mark>) -> Option<(Body, Link)> {
    let (input, output) = (process.stdin.take()?, process.stdout.take()?);
    let tree = match mark {
        Some(mark) => process.tree().with_marked(mark.clone()),
        None => process.tree(),
    };
    let tree = tree.with_descendants();
    let peer = format!("process {}", process.id());
    let (ended, exit) = watch::channel(None);
    let (held, mut released) = oneshot::channel::<()>();
    tokio::spawn(async move {
        tokio::select! {
            biased;
            waited = process.wait() => {
                // One that cannot be waited for is gone, or was never there.
                ended.send_replace(Some(waited.unwrap_or(Exit::Code(-1))));
                // Its tree may outlive it.
                let _ = (&mut released).await;
            }
            _ = &mut released => {}
        }
        drop(process);
    });
    let mut gone = exit.clone();
    let gone = async move {
        // The sender is dropped with the process only.
        drop(gone.wait_for(Option::is_some).await);
    };
    let link = Link::open(shared, peer, input, Output::new(output, gone));
    Some((Body { tree, exit, _held: held }, link))
}

/// Until the agent has a session. Nothing of this is heard of outside.
async fn started(
    shared: &Shared,
    command: &Command,
    link: &Link,
    unwanted: &mut Unwanted,
) -> Result<(), NotStarted> {
    let directory = command.directory.as_deref().and_then(body::start);
    let Some(body) = directory else {
        let sentence = "the directory has a name that is no text";
        return Err(NotStarted::Failed(Failure::new(sentence, "new-session", "unknown")));
    };
    let answer = link.ask("agent/start", START_ID, body);
    let reply = tokio::select! {
        biased;
        () = unwanted.wait() => return Err(NotStarted::Aborted),
        reply = answer => reply,
        () = sleep(shared.settings.start + START_SLACK) => {
            return Err(NotStarted::Failed(Failure::late("initialize")));
        }
    };
    match reply {
        Ok(reply) if reply.kind == FrameKind::Reply => Ok(()),
        Ok(failure) => Err(NotStarted::Failed(body::refusal(&failure))),
        Err(_) => Err(NotStarted::Failed(Failure::lost("initialize", &link.reason()))),
    }
}

/// How the agent has ended by itself, where that may explain what happened.
async fn exit_of<T>(body: &Body, may_explain: impl Fn(&T) -> bool, what: &T) -> Option<Exit> {
    if !may_explain(what) {
        return None;
    }
    let mut exit = body.exit.clone();
    let ended = timeout(EXIT, exit.wait_for(Option::is_some)).await;
    ended.ok()?.ok().and_then(|exit| *exit)
}

/// The end of a run: the last unit is written, the input closed, and the ladder climbed until nothing of the tree
/// is left. Gives whether that is so.
async fn dispose(shared: &Shared, link: Link, body: &Body) -> bool {
    // Whoever of its descendants has gone far is seen while what lies between still lives.
    body.tree.gone_within(Duration::ZERO).await;
    let pipes = link.close().await;
    let drained = pipes.map(|(input, output)| {
        drop(input);
        tokio::spawn(drain(output))
    });
    let settings = &shared.settings;
    let mut stopping = shared.stopping.subscribe();
    let ending = tokio::select! {
        biased;
        () = told_to_stop(&mut stopping) => body.tree.end(TEARDOWN_GRACE).await,
        ending = body.tree.end_after(settings.eof_grace, settings.grace) => ending,
    };
    if let Some(drained) = drained {
        drained.abort();
    }
    debug!(agent = %settings.name, ?ending, "agent ended");
    ending != Ending::Survived
}

/// An agent that still tidies up may say so, and is not ended by a broken pipe.
async fn drain(mut output: ChildStdout) {
    let _ = tokio::io::copy(&mut output, &mut sink()).await;
}

/// What the kernel cannot end now is watched until it can; until then it takes a place.
async fn linger(gone: bool, body: Body, place: Place) {
    let name = &place.shared.settings.name;
    let mut gone = gone;
    if !gone {
        warn!(agent = %name, "processes of an agent could not be ended and are watched");
    }
    while !gone {
        gone = body.tree.end(TEARDOWN_GRACE).await != Ending::Survived;
    }
    drop(body);
    drop(place);
}

/// Who has no use for the run any more: its caller, or the host.
struct Unwanted {
    abort: watch::Receiver<bool>,
    stopping: watch::Receiver<bool>,
}

impl Unwanted {
    fn is_now(&self) -> bool {
        *self.abort.borrow() || *self.stopping.borrow()
    }

    async fn wait(&mut self) {
        let Unwanted { abort, stopping } = self;
        tokio::select! {
            () = set(abort) => {}
            () = set(stopping) => {}
        }
    }
}

/// Waits until it is said; for ever where nobody is left to say it.
async fn set(signal: &mut watch::Receiver<bool>) {
    if signal.wait_for(|set| *set).await.is_err() {
        std::future::pending::<()>().await;
    }
}
