//! Rules that no compiler knows, each with a sentence that teaches. Format, lints and tests are left to their own tools.
//!
//! Every check is a function from a [`Tree`] of texts to complaints, so that a test needs no checkout.

mod code;
mod doors;
mod edges;
mod imports;
mod limits;
mod pages;
mod sources;
mod text;
mod tree;
mod wit;

use std::fmt;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

pub use tree::Tree;

/// One rule broken at one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Complaint {
    pub path: String,
    pub line: Option<usize>,
    pub says: String,
}

impl Complaint {
    fn file(path: &str, says: impl Into<String>) -> Complaint {
        Complaint { path: path.to_owned(), line: None, says: says.into() }
    }

    fn line(path: &str, line: usize, says: impl Into<String>) -> Complaint {
        Complaint { path: path.to_owned(), line: Some(line), says: says.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.says),
            None => write!(f, "{}: {}", self.path, self.says),
        }
    }
}

/// Checks the checkout and prints what is wrong with it.
pub fn tidy(workspace: &Workspace) -> Result<()> {
    let complaints = check(workspace)?;
    for complaint in &complaints {
        println!("{complaint}");
    }
    match complaints.len() {
        0 => Ok(()),
        1 => bail!("one rule is broken"),
        count => bail!("{count} rules are broken"),
    }
}

/// Every complaint about the checkout, by place.
pub fn check(workspace: &Workspace) -> Result<Vec<Complaint>> {
    let tree = Tree::read(&workspace.root)?;
    let mut complaints = Vec::new();
    edges::check(&tree, &mut complaints);
    sources::check(&tree, &mut complaints);
    doors::check(&tree, &mut complaints);
    wit::check(&tree, &mut complaints);
    pages::check(&tree, &mut complaints);
    text::check(&tree, &mut complaints);
    limits::check(&tree, &mut complaints);
    imports::check(&workspace.components(), &mut complaints)?;
    complaints.sort();
    complaints.dedup();
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tidy_is_clean() {
        let workspace = Workspace::here().expect("a test runs in its checkout");
        let complaints = check(&workspace).expect("the checkout can be read");
        let lines: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }

    #[test]
    fn a_complaint_names_its_place_first() {
        assert_eq!(Complaint::line("a.rs", 3, "no").to_string(), "a.rs:3: no");
        assert_eq!(Complaint::file("a.rs", "no").to_string(), "a.rs: no");
    }
}
