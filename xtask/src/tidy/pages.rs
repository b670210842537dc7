//! Every page can be found from the list of pages, and no link leads nowhere. What pages say is left to their readers.

use std::collections::BTreeSet;

use super::{Complaint, Tree};

/// Where a reader begins.
const START: &str = "docs/README.md";

/// Checks links and reachability.
pub fn check(tree: &Tree, complaints: &mut Vec<Complaint>) {
    // Recordings come with pages of their own, which are kept as they came.
    for (path, text) in tree.ending(".md").filter(|(path, _)| !path.starts_with("tests/vectors/")) {
        for (line, target) in links(path, text) {
            if !tree.has(&target) && !tree.has_folder(&target) {
                complaints.push(Complaint::line(
                    path,
                    line,
                    format!("links to {target}, which does not exist"),
                ));
            }
        }
    }
    let reached = reached(tree);
    for (path, _) in tree.ending(".md").filter(|(path, _)| path.starts_with("docs/")) {
        if !reached.contains(path) {
            complaints.push(Complaint::file(
                path,
                format!("cannot be found from {START}: link it there or from a page that is"),
            ));
        }
    }
}

fn reached(tree: &Tree) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![START.to_owned()];
    while let Some(path) = open.pop() {
        let Some(text) = tree.text(&path) else { continue };
        if !reached.insert(path.clone()) {
            continue;
        }
        for (_, target) in links(&path, text) {
            // A link to a folder shows the reader its list of files.
            let inside = tree
                .below(&target)
                .filter(|rest| rest.ends_with(".md"))
                .map(|rest| format!("{target}/{rest}"));
            open.extend(inside);
            open.push(target);
        }
    }
    reached
}

/// The links of a page to places in the checkout, outside code, with the line each stands on.
fn links(path: &str, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let target = line
                .get(at + 2..)
                .and_then(|rest| rest.split([')', ' ', '#']).next())
                .unwrap_or_default();
            if !target.is_empty() && !target.contains(':') {
                found.push((index + 1, resolved(path, target)));
            }
        }
    }
    found
}

/// A relative link as a path from the root of the checkout.
fn resolved(page: &str, target: &str) -> String {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = if target.starts_with('/') {
        Vec::new()
    } else {
        folder.split('/').filter(|part| !part.is_empty()).collect()
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_from_their_page() {
        for (page, target, expected) in [
            ("README.md", "docs/a.md", "docs/a.md"),
            ("docs/README.md", "doors/sdk.md", "docs/doors/sdk.md"),
            ("docs/doors/sdk.md", "../limits.md", "docs/limits.md"),
            ("docs/doors/sdk.md", "../../wit/", "wit"),
            ("docs/README.md", "./a.md", "docs/a.md"),
        ] {
            assert_eq!(resolved(page, target), expected);
        }
    }

    #[test]
    fn code_and_other_sites_are_no_links() {
        let text = "[a](b.md#c) and [d](https://e.f) and [g](#h)\n```\n[i](j.md)\n```\n[k](l.md)";
        assert_eq!(links("README.md", text), [(1, "b.md".to_owned()), (5, "l.md".to_owned())]);
    }

    #[test]
    fn a_page_nobody_finds_and_a_link_to_nothing_are_named() {
        let mut complaints = Vec::new();
        check(
            &Tree::of(&[
                (START, "[a](a.md) [decisions](decisions/)"),
                ("docs/a.md", "[gone](gone.md)"),
                ("docs/lost.md", "[a](a.md)"),
                ("docs/decisions/0001-x.md", ""),
                ("tests/vectors/sdk/README.md", "[x](y.md)"),
            ]),
            &mut complaints,
        );
        let lines: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "docs/a.md:1: links to docs/gone.md, which does not exist",
                "docs/lost.md: cannot be found from docs/README.md: link it there or from a page that is"
            ]
        );
    }
}
