//! What `view` shows: a text file with numbered lines, or the names in a directory, two levels deep.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use cap_std::fs::{Dir, MetadataExt as _};

use crate::{
    fence::{Bounds, Id, Refusal, Spot, Standing, is_kernels},
    files::{self, Verb, cannot, refused, version},
    page::{SAMPLE_BYTES, cut_line},
    tool::{Call, ToolError},
};

/// Characters of a view; what follows is left out.
const VIEW_CHARS_MAX: usize = 16_000;

/// Characters of a line.
const LINE_CHARS_MAX: usize = 2_000;

/// Names that are looked at, in all directories of a view together.
const ENTRIES_MAX: usize = 10_000;

/// Levels below the directory that is viewed.
const DEPTH: usize = 2;

/// Directories that are of no interest.
const PASSED_OVER: [&str; 2] = ["node_modules", "__pycache__"];

pub(super) fn view(
    call: &Call,
    bounds: &Bounds,
    path: &Path,
    range: Option<(i64, i64)>,
) -> Result<String, ToolError> {
    let real = bounds.resolve(Verb::Read, path)?;
    let spot = match real.file_name() {
        None => None,
        Some(_) => Some(bounds.reach(Verb::Read, path, &real, false)?),
    };
    if let Some(spot) = &spot {
        let found = spot.metadata().map_err(|error| refused(Verb::Read, path, &error))?;
        if !found.ok_or_else(|| cannot(Verb::Read, path, "not found"))?.is_dir() {
            return file(call, bounds, path, real, spot, range);
        }
    }
    if range.is_some() {
        return Err(ToolError::new("invalid view_range: a directory has no lines"));
    }
    let opened = match &spot {
        None => bounds.descend(&real, false),
        Some(spot) => bounds.enter(&spot.directory, &spot.standing, &spot.name),
    };
    let opened = opened.map_err(|refusal| bounds.tell(Verb::Read, path, refusal))?;
    directory(call, bounds, path, &real, opened)
}

fn file(
    call: &Call,
    bounds: &Bounds,
    path: &Path,
    real: PathBuf,
    spot: &Spot,
    range: Option<(i64, i64)>,
) -> Result<String, ToolError> {
    let (content, _) = files::content(bounds, Verb::Read, path, spot, &call.abort)?;
    if content.iter().take(SAMPLE_BYTES).any(|byte| *byte == 0) {
        return Err(cannot(Verb::Read, path, "binary file"));
    }
    let text = String::from_utf8_lossy(&content);
    let lines: Vec<&str> = text.lines().collect();
    let total = lines.len();
    let (first, last) = match range {
        None => (1, total),
        Some((first, last)) => {
            let is_there = |line: i64| usize::try_from(line).is_ok_and(|line| line <= total);
            if !is_there(first) || last != -1 && !is_there(last) {
                return Err(ToolError::new(format!(
                    "view_range [{first}, {last}] is out of range for \"{}\" ({total} lines)",
                    path.display()
                )));
            }
            (usize::try_from(first).unwrap_or(1), usize::try_from(last).unwrap_or(total))
        }
    };
    call.ticket.observe(real, version(&content));
    let shown = lines.iter().enumerate().skip(first - 1).take((last + 1).saturating_sub(first));
    let rows = shown.map(|(at, line)| format!("{:>6}\t{}", at + 1, cut_line(line, LINE_CHARS_MAX)));
    let head = match range {
        None => format!("{} ({total} lines)", path.display()),
        Some(_) => format!("{} (lines {first} to {last} of {total})", path.display()),
    };
    Ok(bounded(head, rows, "view_range shows other parts"))
}

fn directory(
    call: &Call,
    bounds: &Bounds,
    path: &Path,
    real: &Path,
    (open, standing): (Dir, Standing),
) -> Result<String, ToolError> {
    let told = |refusal| bounds.tell(Verb::Read, path, refusal);
    if standing.is_hidden() {
        return Err(told(Refusal::Hidden));
    }
    let mut below = Below { call, bounds, rows: Vec::new(), room: ENTRIES_MAX, is_cut: false };
    below.list(&open, &standing, real, path, DEPTH).map_err(told)?;
    if call.abort.is_set() {
        return Err(ToolError::aborted());
    }
    let head = format!(
        "{} (two levels deep; without hidden entries, node_modules and __pycache__)",
        path.display()
    );
    let mut text = bounded(head, below.rows.into_iter(), "view a directory further down");
    if below.is_cut {
        text.push_str(&format!(
            "\n[only {ENTRIES_MAX} names were looked at; view a directory further down]"
        ));
    }
    Ok(text)
}

struct Below<'a> {
    call: &'a Call,
    bounds: &'a Bounds,
    rows: Vec<String>,
    /// Names that may still be looked at.
    room: usize,
    /// There were more.
    is_cut: bool,
}

impl Below<'_> {
    /// What is in a directory, sorted by name, each directory followed by what is in it.
    fn list(
        &mut self,
        directory: &Dir,
        standing: &Standing,
        real: &Path,
        shown: &Path,
        depth: usize,
    ) -> Result<(), Refusal> {
        let mut names = Vec::new();
        for entry in directory.entries()? {
            if self.room == 0 {
                self.is_cut = true;
                break;
            }
            self.room -= 1;
            // What cannot be looked at is passed over, as any search does.
            let Ok(entry) = entry else { continue };
            if let Ok(name) = entry.file_name().into_string()
                && !name.starts_with('.')
                && !PASSED_OVER.contains(&name.as_str())
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        for name in names {
            if self.call.abort.is_set() {
                break;
            }
            let name = OsStr::new(&name);
            let Ok(metadata) = directory.symlink_metadata(name) else { continue };
            let id = Id { device: metadata.dev(), inode: metadata.ino() };
            if is_kernels(&real.join(name)) || self.bounds.is_hidden(standing, name, Some(id)) {
                continue;
            }
            let shown = shown.join(name);
            let mark = if metadata.is_dir() { "/" } else { "" };
            self.rows.push(format!("{}{mark}", shown.display()));
            if metadata.is_dir()
                && depth > 1
                && let Ok((child, standing)) = self.bounds.enter(directory, standing, name)
                && !standing.is_hidden()
                && let Err(refusal) =
                    self.list(&child, &standing, &real.join(name), &shown, depth - 1)
            {
                tracing::debug!(?refusal, "a directory was not listed");
            }
        }
        Ok(())
    }
}

/// Rows up to the bound of a view, under a head.
fn bounded(head: String, rows: impl Iterator<Item = String>, remedy: &str) -> String {
    let mut text = head;
    let mut room = VIEW_CHARS_MAX;
    let mut left_out = 0;
    for row in rows {
        let length = row.chars().count() + 1;
        if left_out > 0 || length > room {
            left_out += 1;
        } else {
            room -= length;
            text.push('\n');
            text.push_str(&row);
        }
    }
    if left_out > 0 {
        text.push_str(&format!("\n[cut here: {left_out} more lines were left out; {remedy}]"));
    }
    text
}
