//! The release order (decision 1): events, live notices and replies of one session tree form one
//! sequence, and each is shown once every event before it is durable, waiting for nothing after it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use transom_frame::{ConnectionId, Frame, SessionId};
use transom_harness::{agent::Status, jobs::JobRecord};

use crate::{projections::QueueItem, request::Topic};

/// Something that waits for its turn to be shown.
#[derive(Debug)]
pub(crate) enum Item {
    Event {
        session: SessionId,
        seq: u64,
        text: Arc<str>,
    },
    Notice {
        session: SessionId,
        topic: Topic,
        frame: Frame,
    },
    Status {
        session: SessionId,
        status: Status,
    },
    /// The answer to `request`.
    Reply {
        connection: ConnectionId,
        request: Frame,
        reply: Frame,
    },
    /// The session is there: `session/added`.
    Added {
        session: SessionId,
        frame: Frame,
    },
    /// What waits in the inbox, as it was then.
    Queue {
        session: SessionId,
        queue: Arc<[QueueItem]>,
    },
    /// The jobs, as they were then.
    Jobs {
        session: SessionId,
        jobs: Arc<[JobRecord]>,
    },
    /// Somebody is asked to decide.
    AskOpened {
        session: SessionId,
        ask: String,
        body: Arc<str>,
    },
    /// The session left the registries; nothing of it follows.
    Left {
        session: SessionId,
    },
}

#[derive(Debug)]
struct Waiting {
    /// Number of the last event of this tree before the item; 0 when there is none.
    behind: u64,
    item: Item,
}

/// All that is not released yet, tree by tree.
#[derive(Debug, Default)]
pub(crate) struct Release {
    trees: HashMap<SessionId, Tree>,
    /// Trees by the numbers of their events that are not durable yet.
    appended: VecDeque<(u64, SessionId)>,
    committed: u64,
    number: u64,
}

#[derive(Debug, Default)]
struct Tree {
    last: u64,
    waiting: VecDeque<Waiting>,
}

impl Release {
    /// Gives the next event its number in the order of the whole host.
    pub(crate) fn number(&mut self, root: &SessionId) -> u64 {
        self.number += 1;
        self.appended.push_back((self.number, root.clone()));
        self.trees.entry(root.clone()).or_default().last = self.number;
        self.number
    }

    /// The number of the tree's last event: what is asked for now must wait for it.
    pub(crate) fn last(&self, root: &SessionId) -> u64 {
        self.trees.get(root).map_or(0, |tree| tree.last)
    }

    pub(crate) fn is_committed(&self, number: u64) -> bool {
        number <= self.committed
    }

    /// Puts an item behind everything of its tree. Returns it when nothing holds it back.
    pub(crate) fn push(&mut self, root: &SessionId, item: Item) -> Option<Item> {
        match self.trees.get_mut(root) {
            Some(tree) if !tree.waiting.is_empty() || tree.last > self.committed => {
                tree.waiting.push_back(Waiting { behind: tree.last, item });
                None
            }
            Some(_) | None => Some(item),
        }
    }

    /// Everything up to `through` is durable: what may be shown now, in order.
    pub(crate) fn committed(&mut self, through: u64) -> Vec<Item> {
        self.committed = self.committed.max(through);
        let mut released = Vec::new();
        while let Some((number, root)) = self.appended.front() {
            if *number > self.committed {
                break;
            }
            if let Some(tree) = self.trees.get_mut(root) {
                while tree.waiting.front().is_some_and(|waiting| waiting.behind <= self.committed) {
                    released.extend(tree.waiting.pop_front().map(|waiting| waiting.item));
                }
            }
            self.appended.pop_front();
        }
        released
    }

    /// The events `from..=through` will never be durable: takes what stood behind them, and names
    /// the trees that they belonged to.
    pub(crate) fn failed(&mut self, from: u64, through: u64) -> Vec<(SessionId, Vec<Item>)> {
        let mut roots: Vec<SessionId> = Vec::new();
        self.appended.retain(|(number, root)| {
            let failed = (from..=through).contains(number);
            if failed && !roots.contains(root) {
                roots.push(root.clone());
            }
            !failed
        });
        self.committed = self.committed.max(through);
        let committed = self.committed;
        roots
            .into_iter()
            .filter_map(|root| {
                let tree = self.trees.get_mut(&root)?;
                let kept = tree.waiting.iter().take_while(|waiting| waiting.behind < from).count();
                let lost =
                    tree.waiting.split_off(kept).into_iter().map(|waiting| waiting.item).collect();
                // What is under way behind that is lost too: what is told of the loss must not wait for it.
                tree.last = tree.last.min(committed);
                Some((root, lost))
            })
            .collect()
    }

    /// Forgets a tree that nothing will be added to.
    pub(crate) fn forget(&mut self, root: &SessionId) {
        if self.trees.get(root).is_some_and(|tree| tree.waiting.is_empty()) {
            self.trees.remove(root);
        }
    }

    /// Whether everything that was appended is durable and shown.
    pub(crate) fn is_empty(&self) -> bool {
        self.appended.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn trees(&self) -> usize {
        self.trees.len()
    }
}
