//! What the heads of skills say, remembered while their files stay as they are: every step of a turn asks for all of
//! them. Opening a file, and whether anybody may, is left to the shelf.

use std::{
    collections::HashMap,
    fs::{File, Metadata},
    os::unix::fs::MetadataExt as _,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::front::Front;

/// Files that are remembered. Past this all of them are read again.
const CARDS_MAX: usize = 4096;

/// How long a file has to have been as it is. Clocks of file systems are coarse: what is younger may change once more
/// and look the same.
const SETTLED: Duration = Duration::from_secs(2);

/// What the model is told of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Card {
    /// `None`: that of its directory.
    pub(super) name: Option<String>,
    pub(super) description: String,
    /// Only people may use it.
    pub(super) hidden_from_models: bool,
}

/// By device and number of the file.
type Known = HashMap<(u64, u64), (Stamp, Option<Card>)>;

/// The files that are remembered.
#[derive(Debug, Default)]
pub(super) struct Cards(Mutex<Known>);

/// What changes with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    changed: (i64, i64),
    bytes: u64,
}

impl Stamp {
    fn of(found: &Metadata) -> Stamp {
        Stamp {
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            bytes: found.size(),
        }
    }

    fn is_settled(self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let changed = u64::try_from(self.changed.0).unwrap_or(0);
        Duration::from_secs(changed).saturating_add(SETTLED) < now
    }
}

impl Card {
    pub(super) fn of(front: Front<'_>) -> Card {
        let Front { name, description, hidden_from_models, instructions: _ } = front;
        Card { name, description, hidden_from_models }
    }
}

impl Cards {
    /// What an open file says, if it is a skill. `read` is asked unless the file is as it was.
    pub(super) fn of(
        &self,
        file: File,
        now: SystemTime,
        read: impl FnOnce(File) -> Option<Card>,
    ) -> Option<Card> {
        let found = file.metadata().ok()?;
        let (key, stamp) = ((found.dev(), found.ino()), Stamp::of(&found));
        if let Some((known, card)) = self.lock().get(&key)
            && *known == stamp
        {
            return card.clone();
        }
        let card = read(file);
        let mut cards = self.lock();
        if cards.len() >= CARDS_MAX {
            cards.clear();
        }
        if stamp.is_settled(now) {
            cards.insert(key, (stamp, card.clone()));
        } else {
            cards.remove(&key);
        }
        card
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        time::{Duration, SystemTime},
    };

    use super::{Card, Cards};

    #[test]
    fn a_file_is_read_again_once_it_has_changed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("SKILL.md");
        fs::write(&path, "one").unwrap();
        let cards = Cards::default();
        let mut reads = 0;
        let mut look = |now| {
            let card = cards.of(File::open(&path).unwrap(), now, |mut file| {
                reads += 1;
                let description = std::io::read_to_string(&mut file).unwrap();
                Some(Card { name: None, description, hidden_from_models: false })
            });
            (card.unwrap().description, reads)
        };
        let (young, old) = (SystemTime::now(), SystemTime::now() + Duration::from_secs(3600));
        // Just written, it may be written again within one tick of the file system's clock.
        assert_eq!(look(young), ("one".to_owned(), 1));
        assert_eq!(look(young), ("one".to_owned(), 2));
        assert_eq!(look(old), ("one".to_owned(), 3));
        assert_eq!(look(old), ("one".to_owned(), 3), "as it was");
        fs::write(&path, "three").unwrap();
        assert_eq!(look(old), ("three".to_owned(), 4));
    }
}
