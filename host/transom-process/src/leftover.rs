//! Process groups that a killed host left behind (P-79): what a host notes about those it starts, and how the next host
//! on the same home finds and ends them. Never by name or number alone: numbers are used again.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Seek, Write},
    iter::successors,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::{Pid, getpid},
};
use tracing::warn;

use crate::stat::{Stat, processes};

/// Where notes are kept, in Transom's home.
const DIRECTORY: &str = "groups";

/// The variable by which everything that a run started can be told, however far it has wandered.
pub(crate) const MARK: &str = "TRANSOM_RUN";

/// From this size on the notes are written anew, without those that have been settled.
const NOTES_BYTES_MAX: u64 = 65_536;

/// Names of runs are file names.
const RUN_BYTES_MAX: usize = 64;

/// The notes of one run. As long as this is open the run counts as alive, and its groups are nobody else's business.
#[derive(Debug)]
pub struct Leftovers {
    file: File,
    run: String,
    boot: String,
    /// Groups that were started and not ended, with the start of their leaders.
    groups: BTreeMap<u32, u64>,
}

/// What came of looking for what earlier runs have left behind.
#[derive(Debug, Default)]
pub struct Sweep {
    /// What was ended.
    pub ended: Vec<Swept>,
    /// What kept this from being the whole. The notes it speaks of are left where they are.
    pub failures: Vec<io::Error>,
}

/// A group that was found and ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    /// Its number.
    pub group: u32,
    /// The name of one of its programs.
    pub name: String,
    /// The run that left it behind.
    pub run: String,
}

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Swept { group, name, run } = self;
        write!(f, "ended process group {group} ({name}), which run {run} had left behind")
    }
}

impl Leftovers {
    /// Begins the notes of a run. Its name must be unique on this home, for example a random id.
    pub fn open(home: &Path, run: &str) -> io::Result<Leftovers> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if run.is_empty() || run.len() > RUN_BYTES_MAX || !run.bytes().all(fits) {
            let message = format!("run {run:?} is not a name of letters, digits and hyphens");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let directory = home.join(DIRECTORY);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        // Under a name that is not looked at, until it is locked.
        let hidden = directory.join(format!(".{run}"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&hidden)?;
        file.lock()?;
        let boot = boot()?;
        let mut notes = Leftovers { file, run: run.to_owned(), boot, groups: BTreeMap::new() };
        notes.rewrite()?;
        fs::rename(hidden, directory.join(run))?;
        Ok(notes)
    }

    /// What each child has in its environment.
    pub(crate) fn mark(&self) -> (&'static str, &str) {
        (MARK, &self.run)
    }

    /// A group has been started.
    pub(crate) fn note(&mut self, group: u32) {
        // One that has ended already has been waited for by nobody, so it is still listed.
        let Some(leader) = Stat::of(group) else { return };
        self.groups.insert(group, leader.started);
        self.write(&format!("+ {group} {}\n", leader.started));
    }

    /// Nothing of a group is left.
    pub(crate) fn forget(&mut self, group: u32) {
        if self.groups.remove(&group).is_some() {
            self.write(&format!("- {group}\n"));
        }
    }

    fn write(&mut self, line: &str) {
        let written = self.file.write_all(line.as_bytes()).and_then(|()| {
            let full = self.file.stream_position()? > NOTES_BYTES_MAX;
            if full { self.rewrite() } else { Ok(()) }
        });
        if let Err(error) = written {
            warn!(%error, "cannot note a process group; if this host is killed it may be left behind");
        }
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let groups = self.groups.iter().map(|(group, started)| format!("+ {group} {started}\n"));
        let text = format!("boot {}\n{}", self.boot, groups.collect::<String>());
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())
    }
}

/// Ends what earlier runs on this home have left behind, and says what that was. What cannot be read keeps nothing else
/// from being ended.
pub fn sweep(home: &Path) -> Sweep {
    let mut swept = Sweep::default();
    let directory = home.join(DIRECTORY);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                swept.failures.push(about(&directory, &error));
            }
            return swept;
        }
    };
    for entry in entries {
        let path = match entry {
            Ok(entry) => entry.path(),
            Err(error) => {
                swept.failures.push(about(&directory, &error));
                continue;
            }
        };
        match sweep_notes(&path) {
            Ok(ended) => swept.ended.extend(ended),
            // Another host has found it at the same moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => swept.failures.push(about(&path, &error)),
        }
    }
    swept
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("\"{}\": {error}", path.display()))
}

fn sweep_notes(path: &Path) -> io::Result<Vec<Swept>> {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(run) = name.filter(|run| !run.starts_with('.')) else { return Ok(Vec::new()) };
    // What is no file of notes must not be waited for.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("this is no file of notes; remove it"));
    }
    match file.try_lock() {
        Ok(()) => sweep_run(path, run),
        // That run is alive.
        Err(TryLockError::WouldBlock) => Ok(Vec::new()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Ends what one dead run has left behind. The caller holds its notes.
fn sweep_run(notes: &Path, run: &str) -> io::Result<Vec<Swept>> {
    let text = fs::read_to_string(notes)?;
    let mut swept = Vec::new();
    // Nothing survives a restart of the machine.
    if text.lines().next() == Some(&format!("boot {}", boot()?)) {
        for (group, witness) in victims(&noted(&text), run) {
            // Looked at once more: between finding and ending, numbers may change hands.
            let there =
                Stat::of(witness.process).is_some_and(|stat| stat.started == witness.started);
            let number = i32::try_from(group).map(Pid::from_raw);
            if let (true, Ok(number)) = (there, number)
                && killpg(number, Signal::SIGKILL).is_ok()
            {
                swept.push(Swept { group, name: witness.name, run: run.to_owned() });
            }
        }
    }
    match fs::remove_file(notes) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(swept),
    }
}

/// The groups that were started and not ended. A last line that was cut off says nothing.
fn noted(text: &str) -> BTreeMap<u32, u64> {
    let mut groups = BTreeMap::new();
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let words: Vec<&str> = line.split(' ').collect();
        match *words {
            ["+", group, started] => {
                if let (Ok(group), Ok(started)) = (group.parse(), started.parse()) {
                    groups.insert(group, started);
                }
            }
            ["-", group] => drop(group.parse().map(|group: u32| groups.remove(&group))),
            _ => {}
        }
    }
    groups
}

/// The process that proves whose a group is.
struct Witness {
    process: u32,
    started: u64,
    name: String,
}

/// Groups in the session of a noted leader that is still the same, and those of which a member carries the mark.
fn victims(noted: &BTreeMap<u32, u64>, run: &str) -> BTreeMap<u32, Witness> {
    let processes = processes();
    let same = |(leader, started): &(&u32, &u64)| {
        processes.get(leader).is_some_and(|stat| stat.started == **started)
    };
    let sessions: BTreeSet<u32> = noted.iter().filter(same).map(|(leader, _)| *leader).collect();
    let spared = own_groups(&processes);
    let mut victims = BTreeMap::new();
    for (process, stat) in &processes {
        let proven = || sessions.contains(&stat.session) || carries_mark(*process, run);
        if !stat.is_dead() && !spared.contains(&stat.group) && proven() {
            let witness =
                Witness { process: *process, started: stat.started, name: stat.name.clone() };
            victims.insert(stat.group, witness);
        }
    }
    victims
}

/// The groups of this process and of those it descends from: it may itself have been started by something left behind.
fn own_groups(processes: &HashMap<u32, Stat>) -> BTreeSet<u32> {
    let own = processes.get(&getpid().as_raw().cast_unsigned());
    let line = successors(own, |stat| processes.get(&stat.parent));
    // A list that was made while numbers changed hands could go round in circles.
    line.take(processes.len()).map(|stat| stat.group).collect()
}

/// A process whose environment cannot be read proves nothing.
fn carries_mark(process: u32, run: &str) -> bool {
    let mark = format!("{MARK}={run}");
    fs::read(format!("/proc/{process}/environ")).is_ok_and(|environment| {
        environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    })
}

/// A name for the time since the machine was started.
fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}
