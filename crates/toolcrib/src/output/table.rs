//! Tables without borders: upper-case headers, three blanks between columns, cut only where a terminal ends.

use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use toolcrib_base::Timestamp;

use crate::text;

const GAP: &str = "   ";
/// What stands for nothing.
const NOTHING: &str = "-";
/// A cell may not be longer, in characters: a table is for reading.
const CELL_CHARS: usize = 2_000;

/// One column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// The header.
    pub(crate) title: &'static str,
    /// Shown only in the wide format.
    pub(crate) wide: bool,
    /// The text of a row's cell.
    pub(crate) cell: fn(&Value) -> String,
}

/// How a table is laid out.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    pub(crate) columns: &'a [Column],
    pub(crate) wide: bool,
    pub(crate) headers: bool,
    /// Where lines are cut.
    pub(crate) width: Option<usize>,
}

// === impl Column ===

impl Column {
    /// A column of every format.
    pub(crate) const fn new(title: &'static str, cell: fn(&Value) -> String) -> Self {
        Self { title, wide: false, cell }
    }

    /// A column of the wide format.
    pub(crate) const fn wide(title: &'static str, cell: fn(&Value) -> String) -> Self {
        Self { title, wide: true, cell }
    }
}

// === impl Table ===

impl Table<'_> {
    pub(crate) fn render(&self, rows: &[Value]) -> String {
        let columns: Vec<&Column> = self.columns.iter().filter(|column| self.wide || !column.wide).collect();
        let header = self.headers.then(|| columns.iter().map(|column| column.title.to_owned()).collect::<Vec<_>>());
        let body = rows.iter().map(|row| columns.iter().map(|column| fit(&(column.cell)(row))).collect());
        let lines: Vec<Vec<String>> = header.into_iter().chain(body).collect();
        let widest = |index: usize| lines.iter().map(|line| line[index].width()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns.len()).map(widest).collect();
        let mut out = String::new();
        for line in &lines {
            let mut text = String::new();
            for (cell, width) in line.iter().zip(&widths) {
                text.push_str(cell);
                text.extend(std::iter::repeat_n(' ', width - cell.width()));
                text.push_str(GAP);
            }
            out.push_str(cut(text.trim_end(), self.width).as_str());
            out.push('\n');
        }
        out
    }
}

/// A cell's text on one line.
fn fit(text: &str) -> String {
    let line = text::line(text);
    let line = line.trim();
    match line.char_indices().nth(CELL_CHARS) {
        _ if line.is_empty() => NOTHING.to_owned(),
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

fn cut(line: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| line.width() > *width) else { return line.to_owned() };
    let mut used = 1;
    let fitting = line.chars().take_while(|c| {
        used += c.width().unwrap_or(0);
        used <= width
    });
    fitting.collect::<String>() + "…"
}

/// The member `key` of a row as a person reads it.
pub(crate) fn field(row: &Value, key: &str) -> String {
    shown(&row[key])
}

/// A value as a person reads it: lists by commas, the rest of what is no text as JSON.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// A moment: the text of one, or milliseconds.
pub(crate) fn moment(row: &Value, key: &str) -> String {
    match row[key].as_i64() {
        Some(millis) => Timestamp(millis).to_string(),
        None => field(row, key),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const COLUMNS: [Column; 3] = [
        Column::new("NAME", |row| field(row, "name")),
        Column::wide("TAGS", |row| field(row, "tags")),
        Column::new("ABOUT", |row| field(row, "about")),
    ];

    fn check(wide: bool, headers: bool, width: Option<usize>, expected: &str) {
        let rows = [
            json!({"name": "漢字", "about": "two\nlines \u{1b}[2J", "tags": ["a", 1]}),
            json!({"name": "longer-name", "about": null}),
        ];
        assert_eq!(Table { columns: &COLUMNS, wide, headers, width }.render(&rows), expected);
    }

    #[test]
    fn columns_are_aligned() {
        check(false, true, None, "NAME          ABOUT\n漢字          two lines \\u{1b}[2J\nlonger-name   -\n");
        check(true, false, None, "漢字          a,1   two lines \\u{1b}[2J\nlonger-name   -     -\n");
        check(false, false, Some(12), "漢字       …\nlonger-name…\n");
        check(false, false, Some(2), "…\nl…\n");
    }

    #[test]
    fn cells_are_bounded() {
        let row = json!({"name": "x".repeat(1 << 20), "about": "end"});
        let text = Table { columns: &COLUMNS, wide: false, headers: false, width: None }.render(&[row]);
        assert!(text.len() < 3_000 && text.ends_with("…   end\n"));
    }

    #[test]
    fn moments_read_as_dates() {
        assert_eq!(moment(&json!({"at": 0}), "at"), "1970-01-01T00:00:00.000Z");
        assert_eq!(moment(&json!({"at": "now"}), "at"), "now");
        assert_eq!(moment(&json!({}), "at"), "");
    }
}
