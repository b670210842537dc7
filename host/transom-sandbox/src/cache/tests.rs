//! The bound on what is kept. What is found again and what is not is seen with whole components in `crate::tests`.

use std::{fs, time::SystemTime};

use tempfile::TempDir;

use super::*;

#[test]
fn the_oldest_entries_beyond_the_bound_go() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("compiled");
    let cache = Cache::open(&folder, &Engine::default()).unwrap().unwrap();
    let now = SystemTime::now();
    let age = |path: &Path, hours: u64| {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(now - Duration::from_secs(hours * 3600)).unwrap();
    };
    let keys: Vec<Key> =
        (0..ENTRIES_MAX as u64 + 3).map(|number| cache.key(&number.to_le_bytes())).collect();
    for (number, key) in keys.iter().enumerate() {
        cache.write(key, b"code").unwrap();
        age(&cache.path(key), 1000 - number as u64);
    }
    for (name, hours) in [(".1.0.tmp", 2), (".1.1.tmp", 0), ("README", 5000)] {
        fs::write(folder.join(name), "x").unwrap();
        age(&folder.join(name), hours);
    }
    cache.prune();

    let there = |key: &Key| cache.path(key).exists();
    assert_eq!(keys.iter().map(there).filter(|there| *there).count(), ENTRIES_MAX);
    assert!(keys.iter().take(3).all(|key| !there(key)), "the three oldest are gone");
    assert!(!folder.join(".1.0.tmp").exists(), "what was left unfinished long ago is gone");
    assert!(folder.join(".1.1.tmp").exists(), "what is being written stays");
    assert!(folder.join("README").exists(), "what is not ours stays");
}

#[test]
fn keys_differ_by_component_and_by_engine() {
    let home = TempDir::new().unwrap();
    let open = |name: &str, engine: &Engine| {
        Cache::open(&home.path().join(name), engine).unwrap().unwrap()
    };
    let plain = open("a", &Engine::default());
    let mut config = wasmtime::Config::new();
    config.epoch_interruption(true);
    let interrupted = open("b", &Engine::new(&config).unwrap());

    assert_eq!(plain.key(b"x").0, open("c", &Engine::default()).key(b"x").0);
    assert_ne!(plain.key(b"x").0, plain.key(b"y").0);
    assert_ne!(plain.key(b"x").0, interrupted.key(b"x").0);
}
