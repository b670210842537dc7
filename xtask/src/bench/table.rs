//! Figures as a table for people. What they mean is left to the rows.

use super::Row;

/// Rows as aligned columns; with the figures of an earlier run beside them when there are any.
pub fn print(rows: &[Row], earlier: Option<&[Row]>) -> String {
    let mut head =
        vec!["measurement".to_owned(), "value".to_owned(), "ratio".to_owned(), "over".to_owned()];
    if earlier.is_some() {
        head.extend(["earlier".to_owned(), "now/earlier".to_owned()]);
    }
    let mut lines = vec![head];
    for row in rows {
        let mut cells = vec![row.name.clone(), figure(row.value, &row.unit)];
        match &row.base {
            Some(base) => cells.extend([
                ratio(row.value, base.value),
                format!("{} {}", figure(base.value, &row.unit), base.name),
            ]),
            None => cells.extend([String::new(), String::new()]),
        }
        if let Some(earlier) = earlier {
            match earlier.iter().find(|old| old.name == row.name && old.unit == row.unit) {
                Some(old) => {
                    cells.extend([figure(old.value, &old.unit), ratio(row.value, old.value)])
                }
                None => cells.extend([String::new(), "new".to_owned()]),
            }
        }
        lines.push(cells);
    }
    aligned(&lines)
}

fn figure(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

fn ratio(value: f64, base: f64) -> String {
    if base > 0.0 { format!("{:.2}x", value / base) } else { "-".to_owned() }
}

fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        vec![
            Row::new("codec: 200 B in", 1.15, "µs").over("native", 0.29),
            Row::new("start: median", 12.3, "ms"),
        ]
    }

    #[test]
    fn columns_stand_under_each_other() {
        assert_eq!(
            print(&rows(), None),
            "measurement      value    ratio  over\n\
             codec: 200 B in  1.15 µs  3.97x  0.29 µs native\n\
             start: median    12.3 ms\n"
        );
    }

    #[test]
    fn an_earlier_run_stands_beside_and_what_it_lacks_is_new() {
        let earlier = [Row::new("start: median", 24.6, "ms")];
        assert_eq!(
            print(&rows(), Some(&earlier)),
            "measurement      value    ratio  over            earlier  now/earlier\n\
             codec: 200 B in  1.15 µs  3.97x  0.29 µs native           new\n\
             start: median    12.3 ms                         24.6 ms  0.50x\n"
        );
    }

    #[test]
    fn nothing_divides_by_zero() {
        assert_eq!(ratio(1.0, 0.0), "-");
    }
}
