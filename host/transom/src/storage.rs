//! The session store of a deployment: one database, or a log of JSON lines for each session.
//! Where it is, is the manifest's; what it stores is the loop's.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use transom_config::manifest::Durability;
use transom_harness::ports::{Commit, Sink, Store, StoreError};
use transom_store::{JsonlOptions, JsonlStore, SqliteStore};
use transom_tools::SessionLog;

/// What is at the store's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// A file.
    #[default]
    Database,
    /// A session root, as published clients read it (S-217).
    JsonLines {
        /// Zstandard frames.
        compressed: bool,
    },
}

/// An open store.
pub(crate) struct Storage {
    pub(crate) store: Arc<dyn Store>,
    /// Where the log of a session stands, if it is a file of its own (L-85).
    pub(crate) session_log: Option<SessionLog>,
}

impl Storage {
    pub(crate) fn open(
        path: &Path,
        form: Form,
        durability: Durability,
        commits: Sink<Commit>,
    ) -> anyhow::Result<Storage> {
        let durability = match durability {
            Durability::Process => transom_store::Durability::Process,
            Durability::Power => transom_store::Durability::Power,
        };
        let open = || -> Result<Storage, StoreError> {
            match form {
                Form::Database => {
                    let store = SqliteStore::open(path, durability, commits)?;
                    Ok(Storage { store: Arc::new(store), session_log: None })
                }
                Form::JsonLines { compressed } => {
                    let options =
                        JsonlOptions { compressed, durability, ..JsonlOptions::default() };
                    let store = Arc::new(JsonlStore::open(path, options, commits)?);
                    let told = Arc::clone(&store);
                    let session_log: SessionLog = Arc::new(move |id| told.session_file(id));
                    Ok(Storage { store, session_log: Some(session_log) })
                }
            }
        };
        open().with_context(|| format!("cannot open the session store {}", path.display()))
    }
}
