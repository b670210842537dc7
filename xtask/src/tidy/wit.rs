//! A released interface does not change. Which tracks are released, and with what content, stands in `wit/frozen.toml`.

use sha2::{Digest, Sha256};

use super::{Complaint, Tree};

const FROZEN: &str = "wit/frozen.toml";

/// Compares every released track with the digest it was released with.
pub fn check(tree: &Tree, complaints: &mut Vec<Complaint>) {
    // Before the first release there is nothing to list.
    let Some(text) = tree.text(FROZEN) else { return };
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            complaints.push(Complaint::file(
                FROZEN,
                format!("cannot be read as TOML: {}", error.message()),
            ));
            return;
        }
    };
    for (track, digest) in &table {
        let folder = format!("wit/{track}");
        let Some(found) = digest_of(tree, &folder) else {
            complaints.push(Complaint::file(FROZEN, format!("lists the track `{track}`, but {folder} holds no interface: a released track stays")));
            continue;
        };
        if digest.as_str() != Some(found.as_str()) {
            complaints.push(Complaint::file(
                FROZEN,
                format!("the released track `{track}` has changed, its content is now {found}: put it back, and let the change wait in wit/PENDING.md for the next track"),
            ));
        }
    }
}

/// The digest of a track: names and texts of its interfaces, in order; none when it has no interface.
pub fn digest_of(tree: &Tree, folder: &str) -> Option<String> {
    let mut hash = Sha256::new();
    let mut any = false;
    for name in tree.below(folder).filter(|name| name.ends_with(".wit")) {
        let text = tree.text(&format!("{folder}/{name}"))?;
        for part in [name, text] {
            // The length keeps a name from running into the text behind it.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        any = true;
    }
    any.then(|| hex::encode(hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(frozen: &str, interface: &str) -> Vec<String> {
        let mut complaints = Vec::new();
        check(
            &Tree::of(&[(FROZEN, frozen), ("wit/codec/0.1/codec.wit", interface)]),
            &mut complaints,
        );
        complaints.into_iter().map(|complaint| complaint.says).collect()
    }

    #[test]
    fn a_released_track_does_not_change() {
        let tree = Tree::of(&[("wit/codec/0.1/codec.wit", "package a:b;")]);
        let digest = digest_of(&tree, "wit/codec/0.1").expect("it has an interface");
        let frozen = format!("\"codec/0.1\" = \"{digest}\"\n");
        assert_eq!(says(&frozen, "package a:b;"), Vec::<String>::new());
        let changed = says(&frozen, "package a:c;");
        assert!(
            changed
                .iter()
                .all(|text| text.starts_with("the released track `codec/0.1` has changed"))
                && changed.len() == 1,
            "{changed:?}"
        );
    }

    #[test]
    fn an_unlisted_track_is_free_and_a_listed_one_stays() {
        assert_eq!(says("# nothing is released yet\n", "package a:b;"), Vec::<String>::new());
        assert_eq!(says("\"codec/0.2\" = \"00\"\n", "package a:b;").len(), 1);
    }

    #[test]
    fn the_digest_knows_names_and_order() {
        let digest = |files| digest_of(&Tree::of(files), "wit/a");
        let one = digest(&[("wit/a/b.wit", "c"), ("wit/a/d.wit", "e"), ("wit/a/README.md", "f")]);
        assert!(one.is_some());
        assert_eq!(one, digest(&[("wit/a/b.wit", "c"), ("wit/a/d.wit", "e")]));
        assert_ne!(one, digest(&[("wit/a/b.wit", "e"), ("wit/a/d.wit", "c")]));
        assert_eq!(digest(&[("wit/a/README.md", "f")]), None);
    }
}
