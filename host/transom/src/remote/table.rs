//! Tables for people: columns as wide as what stands in them.

use std::io;

use serde_json::Value;

use crate::prompt::one_line;

/// Characters of a digest that are shown. Enough to tell versions apart.
const DIGEST_SHOWN: usize = 12;

/// Rows under their titles.
pub(super) struct Table<const COLUMNS: usize> {
    titles: [&'static str; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(super) fn new(titles: [&'static str; COLUMNS]) -> Table<COLUMNS> {
        Table { titles, rows: Vec::new() }
    }

    /// What stands in a cell may come from peers, models and components, and is shown on one line.
    pub(super) fn row(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(cells.map(|cell| one_line(&cell)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn print(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut widths = self.titles.map(str::len);
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        line(out, &widths, &self.titles)?;
        for row in &self.rows {
            line(out, &widths, row)?;
        }
        Ok(())
    }
}

fn line(out: &mut dyn io::Write, widths: &[usize], cells: &[impl AsRef<str>]) -> io::Result<()> {
    let padded = widths.iter().zip(cells).map(|(width, cell)| format!("{:width$}", cell.as_ref()));
    let text = padded.collect::<Vec<_>>().join("  ");
    writeln!(out, "{}", text.trim_end())
}

/// A number as it is, and nothing where there is none.
pub(super) fn amount(value: &Value) -> String {
    value.as_u64().map_or_else(String::new, |number| number.to_string())
}

/// A number of bytes in its largest unit.
pub(super) fn bytes(value: &Value) -> String {
    let mut left = value.as_u64().unwrap_or_default() as f64;
    for unit in ["B", "KiB", "MiB"] {
        if left < 1024.0 {
            return format!("{left:.0} {unit}");
        }
        left /= 1024.0;
    }
    format!("{left:.1} GiB")
}

/// An identity with less of its digest.
pub(super) fn short(identity: &str) -> String {
    match identity.split_once("sha256:") {
        Some((name, digest)) => {
            let digest: String = digest.chars().take(DIGEST_SHOWN).collect();
            format!("{name}{digest}")
        }
        None => identity.to_owned(),
    }
}
