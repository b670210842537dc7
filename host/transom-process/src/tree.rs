//! A child with all its descendants: signalling them, and proving that none is left.
//!
//! The tree is everything in the session that the child leads, and what carries the tree's mark, if it has one. A
//! descendant that starts a session of its own, as daemons do, is found by the mark alone, unless the tree remembers
//! its descendants: then also one that takes off the mark, if it was seen while its own parent lived.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    host::is_below,
    mark::Mark,
    stat::{Stat, processes},
};

/// The first pause between two looks at trees that are to end; it doubles up to [`PAUSE_MAX`].
/// Nothing tells when a group becomes empty, so it has to be looked at.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// How long the kernel may take to end a killed tree. Only a process stuck in a device driver or on
/// a dead network file system needs longer.
const KILLED_MS_MAX: Duration = Duration::from_millis(2_000);

/// A handle on a tree. It goes on working, without effect, when the tree is gone.
#[derive(Debug, Clone)]
pub struct Tree {
    leader: Option<Arc<Leader>>,
    mark: Option<Mark>,
    kin: Option<Arc<Mutex<Kin>>>,
}

/// Descendants that were seen, by number, with when each was started: the two name one process for good.
type Kin = BTreeMap<u32, u64>;

#[derive(Debug)]
struct Leader {
    process: Pid,
    /// Proven once, believed for ever: afterwards the number may be somebody else's.
    gone: AtomicBool,
}

/// How a tree ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Nothing was left to end.
    AlreadyGone,
    /// `SIGTERM` was enough.
    Terminated,
    /// It took `SIGKILL`.
    Killed,
    /// Something is still there: a process that the kernel cannot end now.
    Survived,
}

impl Tree {
    pub(crate) fn new(leader: Pid) -> Tree {
        let leader = Leader { process: leader, gone: AtomicBool::new(false) };
        Tree { leader: Some(Arc::new(leader)), mark: None, kin: None }
    }

    /// Everything that carries a mark, whoever has started it.
    pub fn marked(mark: Mark) -> Tree {
        Tree { leader: None, mark: Some(mark), kin: None }
    }

    /// The same tree, and whatever carries a mark belongs to it.
    pub fn with_marked(self, mark: Mark) -> Tree {
        Tree { mark: Some(mark), ..self }
    }

    /// The same tree, which remembers from now on every descendant that it sees, wherever that goes. It sees those of the
    /// moment whenever it is looked at.
    pub fn with_descendants(self) -> Tree {
        Tree { kin: Some(Arc::default()), ..self }
    }

    /// Whether nothing of the tree runs any more. What is dead but not yet reaped does not count:
    /// who reaps orphans, and when, is beyond this process. Blocks: it looks at all processes.
    pub fn is_gone(&self) -> bool {
        self.is_known_gone() || Census::take().is_without(self)
    }

    /// Sends a signal to everything in the tree. Blocks: it looks at all processes.
    pub fn signal(&self, signal: Signal) {
        signal_all(std::slice::from_ref(self), signal);
    }

    /// Asks politely, and wakes what is stopped so that it hears.
    pub fn terminate(&self) {
        terminate_all(std::slice::from_ref(self));
    }

    /// Waits until the tree is gone, at most this long; tells whether it is.
    pub async fn gone_within(&self, patience: Duration) -> bool {
        all_gone_within(&Arc::from([self.clone()]), patience).await
    }

    /// The ladder of L-85: `SIGTERM`, `grace`, `SIGKILL`, and the proof.
    pub async fn end(&self, grace: Duration) -> Ending {
        if away(&Arc::from([self.clone()]), are_gone).await {
            return Ending::AlreadyGone;
        }
        end_all(vec![self.clone()], grace).await
    }

    /// The same for a child that has been told to end already, for example by the end of its input: it has
    /// `patience` to end by itself.
    pub async fn end_after(&self, patience: Duration, grace: Duration) -> Ending {
        if self.gone_within(patience).await {
            return Ending::AlreadyGone;
        }
        self.end(grace).await
    }

    /// Nothing can come to it any more.
    fn is_known_gone(&self) -> bool {
        let leader = self.leader.as_ref();
        let may_grow = self.mark.is_some() || self.kin.is_some();
        !may_grow && leader.is_none_or(|leader| leader.gone.load(Ordering::Acquire))
    }
}

/// Asks everything in these trees politely, after one look at the processes. Blocks.
pub fn terminate_all(trees: &[Tree]) {
    let census = Census::take();
    census.signal(trees, Signal::SIGTERM);
    census.signal(trees, Signal::SIGCONT);
}

/// Sends a signal to everything in these trees, after one look at the processes. Blocks.
fn signal_all(trees: &[Tree], signal: Signal) {
    if trees.iter().any(|tree| !tree.is_known_gone()) {
        Census::take().signal(trees, signal);
    }
}

/// The ladder of L-85 for many at once, looked at together.
pub async fn end_all(trees: Vec<Tree>, grace: Duration) -> Ending {
    let trees: Arc<[Tree]> = trees.into();
    away(&trees, terminate_all).await;
    outlast(trees, grace).await
}

/// What is left of the ladder once trees have been asked politely: `grace`, `SIGKILL`, and the proof.
pub async fn end_asked(trees: Vec<Tree>, grace: Duration) -> Ending {
    outlast(trees.into(), grace).await
}

async fn outlast(trees: Arc<[Tree]>, grace: Duration) -> Ending {
    if all_gone_within(&trees, grace).await {
        return Ending::Terminated;
    }
    let deadline = Instant::now() + KILLED_MS_MAX;
    while Instant::now() < deadline {
        // Repeated, because a fork may have slipped past the look at the members.
        away(&trees, |trees| signal_all(trees, Signal::SIGKILL)).await;
        if all_gone_within(&trees, PAUSE_MAX).await {
            return Ending::Killed;
        }
    }
    Ending::Survived
}

/// Waits until all these trees are gone, at most so long; tells whether they are.
async fn all_gone_within(trees: &Arc<[Tree]>, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    let mut pause = PAUSE_MIN;
    while !away(trees, are_gone).await {
        if timeout_at(deadline, sleep(pause)).await.is_err() {
            return away(trees, are_gone).await;
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
    true
}

fn are_gone(trees: &[Tree]) -> bool {
    if trees.iter().all(Tree::is_known_gone) {
        return true;
    }
    let census = Census::take();
    trees.iter().all(|tree| tree.is_known_gone() || census.is_without(tree))
}

/// Looks at processes away from the runtime's workers: it takes milliseconds.
async fn away<T: Send + 'static>(
    trees: &Arc<[Tree]>,
    look: impl Fn(&[Tree]) -> T + Copy + Send + 'static,
) -> T {
    let shared = trees.clone();
    // It fails only while the runtime shuts down, and then nobody is kept from anything.
    spawn_blocking(move || look(&shared)).await.unwrap_or_else(|_| look(trees))
}

/// All processes at one moment.
struct Census {
    processes: HashMap<u32, Stat>,
    /// The environments of those that can carry a mark; read when first asked for.
    environments: OnceCell<Vec<(Pid, Vec<u8>)>>,
}

impl Census {
    fn take() -> Census {
        Census { processes: processes(), environments: OnceCell::new() }
    }

    /// Whether nothing of a tree lives; of its leader's session that is remembered.
    fn is_without(&self, tree: &Tree) -> bool {
        let is_led = tree.leader.as_ref().is_some_and(|leader| self.has_led(leader));
        // Looked at whatever comes of the rest, so that they are remembered.
        let descends = !self.descendants(tree).is_empty();
        !is_led
            && !descends
            && tree.mark.as_ref().is_none_or(|mark| self.carriers(mark).next().is_none())
    }

    fn has_led(&self, leader: &Leader) -> bool {
        if leader.gone.load(Ordering::Acquire) {
            return false;
        }
        let lives = if self.processes.is_empty() {
            // The system does not list them; this process, at least, would be there.
            killpg(leader.process, None) != Err(Errno::ESRCH)
        } else {
            self.members(leader.process).next().is_some()
        };
        leader.gone.store(!lives, Ordering::Release);
        lives
    }

    /// Each process hears of it once for each tree, however it belongs to it.
    fn signal(&self, trees: &[Tree], signal: Signal) {
        for tree in trees {
            let mut told = BTreeSet::new();
            if let Some(leader) = tree.leader.as_ref().filter(|leader| self.has_led(leader)) {
                // A failure means that the group has ended meanwhile, which is what is wanted.
                let _ = killpg(leader.process, signal);
                for (process, group) in self.members(leader.process) {
                    if group != leader.process {
                        let _ = kill(process, signal);
                    }
                    told.insert(process);
                }
            }
            let marked = tree.mark.iter().flat_map(|mark| self.carriers(mark));
            for process in marked.chain(self.descendants(tree)) {
                if told.insert(process) {
                    let _ = kill(process, signal);
                }
            }
        }
    }

    /// The living of a session or of the group of the same number, with their groups.
    fn members(&self, leader: Pid) -> impl Iterator<Item = (Pid, Pid)> {
        let number = leader.as_raw().cast_unsigned();
        self.living()
            .filter(move |(_, stat)| stat.group == number || stat.session == number)
            .map(|(process, stat)| (pid(process), pid(stat.group)))
    }

    /// The living that descend from a tree's child, as far as was ever seen; none where the tree remembers none.
    fn descendants(&self, tree: &Tree) -> Vec<Pid> {
        let Some(kin) = &tree.kin else { return Vec::new() };
        // Nothing in there is left half done by a panic.
        let mut kin = kin.lock().unwrap_or_else(PoisonError::into_inner);
        kin.retain(|process, started| {
            let known = self.processes.get(process).filter(|stat| !stat.is_dead());
            known.is_some_and(|stat| stat.started == *started)
        });
        let leader = tree.leader.as_ref().filter(|leader| !leader.gone.load(Ordering::Acquire));
        let leader = leader.map(|leader| leader.process.as_raw().cast_unsigned());
        // Each round finds one more generation.
        loop {
            let is_new = |(process, stat): &(u32, &Stat)| {
                let parent = Some(stat.parent);
                let descends = parent == leader || kin.contains_key(&stat.parent);
                descends && Some(*process) != leader && !kin.contains_key(process)
            };
            let found: Vec<_> = self
                .living()
                .filter(is_new)
                .map(|(process, stat)| (process, stat.started))
                .collect();
            if found.is_empty() {
                return kin.keys().map(|process| pid(*process)).collect();
            }
            kin.extend(found);
        }
    }

    /// The living that carry a mark or a part of it.
    fn carriers<'c>(&'c self, mark: &'c Mark) -> impl Iterator<Item = Pid> + 'c {
        let environments = self.environments.get_or_init(|| {
            let below = self.living().filter(|(process, _)| is_below(*process, &self.processes));
            let read = |process: u32| fs::read(format!("/proc/{process}/environ"));
            // Who may not be looked at is not ours, or cannot be signalled either.
            below.filter_map(|(process, _)| Some((pid(process), read(process).ok()?))).collect()
        });
        environments
            .iter()
            .filter(|(_, environment)| mark.is_in(environment))
            .map(|(process, _)| *process)
    }

    fn living(&self) -> impl Iterator<Item = (u32, &Stat)> {
        let all = self.processes.iter().map(|(process, stat)| (*process, stat));
        all.filter(|(_, stat)| !stat.is_dead())
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number.cast_signed())
}
