//! A built-in door lives in five places under one name. What each place must hold is left to the door's own tests.

use std::collections::BTreeSet;

use super::{Complaint, Tree};

/// Where each door has its file.
const DATA: &str = "host/transom-doors/src";

/// How a file of `transom-doors` says that it is a door, and how that the host itself speaks its protocol.
const DOOR: &str = "const DOOR: Door";
const NATIVE: &str = "DoorCodec::Native(";

/// Checks that no door is half there.
pub fn check(tree: &Tree, complaints: &mut Vec<Complaint>) {
    for door in names(tree) {
        // Without a component there is no foreign wire to record either.
        let native =
            tree.text(&format!("{DATA}/{door}.rs")).is_some_and(|text| text.contains(NATIVE));
        let places = [
            (format!("components/{door}/src"), true, "its codec"),
            (format!("{DATA}/{door}.rs"), false, "carrier, framing and defaults"),
            (format!("policies/{door}.toml"), false, "what it may ask"),
            (format!("tests/vectors/{door}"), true, "recorded conversations"),
            (format!("docs/doors/{door}.md"), false, "what a client can rely on"),
        ];
        for (place, foreign, what) in places {
            if foreign && native {
                continue;
            }
            if !tree.has(&place) && !tree.has_folder(&place) {
                complaints.push(Complaint::file(
                    &place,
                    format!("is missing: the door `{door}` keeps {what} there"),
                ));
            }
        }
    }
}

/// Every name that any place but the recordings knows; those may come before their door.
fn names(tree: &Tree) -> BTreeSet<String> {
    let data = tree.below(DATA).filter_map(|path| path.strip_suffix(".rs")).filter(|name| {
        tree.text(&format!("{DATA}/{name}.rs")).is_some_and(|text| text.contains(DOOR))
    });
    let policies = tree
        .below("policies")
        .filter_map(|path| path.strip_suffix(".toml"))
        .filter(|path| *path != "default");
    let pages = tree.below("docs/doors").filter_map(|path| path.strip_suffix(".md"));
    let flat = data.chain(policies).chain(pages).filter(|path| !path.contains('/'));
    let components =
        tree.below("components").filter_map(|path| path.split_once('/')).map(|(door, _)| door);
    flat.chain(components).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDK_DATA: &str =
        "pub(crate) const DOOR: Door = Door { codec: DoorCodec::Component(\"sdk\") };";
    const NATIVE_DATA: &str =
        "pub(crate) const DOOR: Door = Door { codec: DoorCodec::Native(source) };";

    const SDK: &[(&str, &str)] = &[
        ("components/sdk/src/lib.rs", ""),
        ("host/transom-doors/src/lib.rs", ""),
        ("host/transom-doors/src/sdk.rs", SDK_DATA),
        ("host/transom-doors/src/carrier.rs", "pub enum Carrier {}"),
        ("policies/default.toml", ""),
        ("policies/sdk.toml", ""),
        ("tests/vectors/sdk/v1.plain.jsonl", ""),
        ("tests/vectors/acp/later.jsonl", ""),
        ("docs/doors/sdk.md", ""),
    ];

    fn missing(files: &[(&str, &str)]) -> Vec<String> {
        let mut complaints = Vec::new();
        check(&Tree::of(files), &mut complaints);
        complaints.into_iter().map(|complaint| complaint.path).collect()
    }

    #[test]
    fn a_door_in_all_its_places_is_complete() {
        assert_eq!(missing(SDK), Vec::<String>::new());
    }

    #[test]
    fn each_place_that_lacks_is_named() {
        for place in [
            "components/sdk/src/lib.rs",
            "host/transom-doors/src/sdk.rs",
            "policies/sdk.toml",
            "docs/doors/sdk.md",
        ] {
            let rest: Vec<_> = SDK.iter().filter(|(path, _)| *path != place).copied().collect();
            assert_eq!(missing(&rest), [place.trim_end_matches("/lib.rs")]);
        }
        let rest: Vec<_> = SDK
            .iter()
            .filter(|(path, _)| !path.starts_with("tests/vectors/sdk"))
            .copied()
            .collect();
        assert_eq!(missing(&rest), ["tests/vectors/sdk"]);
    }

    #[test]
    fn a_native_door_has_neither_component_nor_recordings() {
        let mut files = SDK.to_vec();
        files.push(("host/transom-doors/src/frames.rs", NATIVE_DATA));
        assert_eq!(missing(&files), ["policies/frames.toml", "docs/doors/frames.md"]);
    }
}
