//! Markdown: tables, numbers that people read, and the marked region of a document that a run replaces.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};

/// A table whose first column is text and whose other columns are numbers.
#[derive(Debug)]
pub(crate) struct Table {
    columns: usize,
    text: String,
}

impl Table {
    pub(crate) fn new(columns: &[&str]) -> Self {
        let mut text = format!("| {} |\n|---|", columns.join(" | "));
        text.push_str(&"---:|".repeat(columns.len().saturating_sub(1)));
        text.push('\n');
        Self { columns: columns.len(), text }
    }

    /// Adds a row; missing cells stay empty.
    pub(crate) fn row(&mut self, cells: &[String]) {
        self.text.push('|');
        for index in 0..self.columns {
            let cell = cells.get(index).map_or("", String::as_str);
            let _ = write!(self.text, " {} |", cell.replace('|', "\\|"));
        }
        self.text.push('\n');
    }

    pub(crate) fn markdown(&self) -> &str {
        &self.text
    }
}

/// The value in the middle; the mean of the two middle ones when their number is even.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Three digits that matter: `0.12`, `4.56`, `78.9`, `1,234`.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => grouped(value),
    }
}

/// `number`, or a dash when there is no value.
pub(crate) fn maybe(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| "–".to_owned(), number)
}

pub(crate) fn micros(value: Duration) -> f64 {
    value.as_secs_f64() * 1e6
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Replaces what stands between `<!-- NAME:begin -->` and `<!-- NAME:end -->` in `document`.
pub(crate) fn replace_region(document: &str, name: &str, content: &str) -> anyhow::Result<String> {
    let (begin, end) = (format!("<!-- {name}:begin -->"), format!("<!-- {name}:end -->"));
    let start = document.find(&begin).with_context(|| format!("the mark `{begin}` is missing"))? + begin.len();
    let Some(length) = document[start..].find(&end) else { bail!("the mark `{end}` is missing") };
    Ok(format!("{}\n{}\n{}", &document[..start], content.trim(), &document[start + length..]))
}

/// Puts `content` into the region `name` of a file.
pub(crate) fn write_region(file: &Path, name: &str, content: &str) -> anyhow::Result<()> {
    let document = std::fs::read_to_string(file).with_context(|| format!("read `{}`", file.display()))?;
    let document = replace_region(&document, name, content).with_context(|| format!("update `{}`", file.display()))?;
    std::fs::write(file, document).with_context(|| format!("write `{}`", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_as_many_cells_in_every_row() {
        let mut table = Table::new(&["path", "calls/s", "p50"]);
        table.row(&["a|b".to_owned(), "1".to_owned()]);
        assert_eq!(table.markdown(), "| path | calls/s | p50 |\n|---|---:|---:|\n| a\\|b | 1 |  |\n");
    }

    #[test]
    fn medians_of_odd_even_and_no_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn numbers_keep_the_digits_that_matter() {
        let texts: Vec<_> = [0.123, -4.567, 45.67, 123.4, 1_234_567.8].into_iter().map(number).collect();
        assert_eq!(texts, ["0.12", "-4.57", "45.7", "123", "1,234,568"]);
        assert_eq!(maybe(None), "–");
        assert_eq!(maybe(Some(f64::NAN)), "–");
    }

    #[test]
    fn only_the_marked_region_changes() {
        let document = "before\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nafter\n";
        let changed = replace_region(document, "bench", "new\n").unwrap();
        assert_eq!(changed, "before\n<!-- bench:begin -->\nnew\n<!-- bench:end -->\nafter\n");
        assert_eq!(replace_region(&changed, "bench", "new").unwrap(), changed);
        assert!(replace_region(document, "soak", "x").is_err());
        assert!(replace_region("<!-- bench:begin -->", "bench", "x").is_err());
    }
}
