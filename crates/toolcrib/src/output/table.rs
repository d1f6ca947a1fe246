//! Tables without borders: upper-case headers, three blanks between columns, cut only where a terminal ends.

use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use toolcrib_base::Timestamp;

use crate::text;

const GAP: &str = "   ";
/// Shown for an absent value.
const NOTHING: &str = "-";
/// The state of what is not there any more.
const GONE: &str = "removed";
/// A cell may not be longer, in characters: a table is for reading.
const CELL_CHARS: usize = 2_000;

/// One column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// The header.
    pub(crate) title: &'static str,
    /// Shown only in the wide format.
    pub(crate) wide: bool,
    /// Whether it shows a state, which terminals show in colour.
    pub(crate) is_state: bool,
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
    /// Whether states are coloured.
    pub(crate) colors: bool,
    /// Whether the rows are of what is not there any more.
    pub(crate) is_gone: bool,
}

// === impl Column ===

impl Column {
    /// A column of every format.
    pub(crate) const fn new(title: &'static str, cell: fn(&Value) -> String) -> Self {
        Self { title, wide: false, is_state: false, cell }
    }

    /// A column of every format that shows a state.
    pub(crate) const fn state(title: &'static str, cell: fn(&Value) -> String) -> Self {
        Self { title, wide: false, is_state: true, cell }
    }

    /// A column of the wide format.
    pub(crate) const fn wide(title: &'static str, cell: fn(&Value) -> String) -> Self {
        Self { title, wide: true, is_state: false, cell }
    }
}

// === impl Table ===

impl Table<'_> {
    pub(crate) fn render(&self, rows: &[Value]) -> String {
        self.render_below(rows, &mut Vec::new())
    }

    /// The same below what was rendered before: columns are as wide as they were, or wider.
    pub(crate) fn render_below(&self, rows: &[Value], widths: &mut Vec<usize>) -> String {
        let columns: Vec<&Column> = self.columns.iter().filter(|column| self.wide || !column.wide).collect();
        let header = self.headers.then(|| columns.iter().map(|column| column.title.to_owned()).collect::<Vec<_>>());
        let body = rows.iter().map(|row| columns.iter().map(|column| self.cell(column, row)).collect());
        let lines: Vec<Vec<String>> = header.into_iter().chain(body).collect();
        widths.resize(columns.len(), 0);
        for (index, width) in widths.iter_mut().enumerate() {
            *width = lines.iter().map(|line| line[index].width()).max().unwrap_or(0).max(*width);
        }
        let mut out = String::new();
        for (number, line) in lines.iter().enumerate() {
            let mut text = String::new();
            for (cell, width) in line.iter().zip(widths.iter()) {
                text.push_str(cell);
                text.extend(std::iter::repeat_n(' ', width - cell.width()));
                text.push_str(GAP);
            }
            let text = cut(text.trim_end(), self.width);
            let is_header = self.headers && number == 0;
            out.push_str(&if self.colors { painted(&text, &columns, line, widths, is_header) } else { text });
            out.push('\n');
        }
        out
    }

    fn cell(&self, column: &Column, row: &Value) -> String {
        if self.is_gone && column.is_state { GONE.to_owned() } else { fit(&(column.cell)(row)) }
    }
}

/// A line with its colours; they take no place.
fn painted(text: &str, columns: &[&Column], line: &[String], widths: &[usize], is_header: bool) -> String {
    if is_header {
        return format!("\x1b[1m{text}\x1b[0m");
    }
    let mut text = text.to_owned();
    // From the right, so that what was put in does not move what comes.
    for (index, column) in columns.iter().enumerate().rev() {
        let Some(color) = column.is_state.then(|| color(&line[index])).flatten() else { continue };
        let before: usize = widths[..index].iter().map(|width| width + GAP.len()).sum();
        let Some(at) = byte_of(&text, before) else { continue };
        let end = at + line[index].len();
        if text.get(at..end) == Some(&line[index]) {
            text.insert_str(end, "\x1b[0m");
            text.insert_str(at, color);
        }
    }
    text
}

/// Where the character in this column of the terminal begins.
fn byte_of(text: &str, column: usize) -> Option<usize> {
    let mut used = 0;
    text.char_indices().find_map(|(at, c)| {
        let here = used == column;
        used += c.width().unwrap_or(0);
        here.then_some(at)
    })
}

/// Green for what is well, red for what is not, yellow for what is on its way.
fn color(state: &str) -> Option<&'static str> {
    Some(match state.to_lowercase().as_str() {
        "ready" | "running" | "connected" | "healthy" | "completed" | "available" | "true" => "\x1b[32m",
        "failed" | "error" | "unhealthy" | "unavailable" | "unreachable" | "warning" | "false" | "auth required"
        | "auth_required" | "needs-login" => "\x1b[31m",
        "starting" | "installing" | "stopping" | "pending" | "retrying" | "waiting" | "degraded" | "inprogress"
        | "checking" | "held" => "\x1b[33m",
        _ => return None,
    })
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

    fn table(wide: bool, headers: bool, width: Option<usize>) -> Table<'static> {
        Table { columns: &COLUMNS, wide, headers, width, colors: false, is_gone: false }
    }

    fn check(wide: bool, headers: bool, width: Option<usize>, expected: &str) {
        let rows = [
            json!({"name": "漢字", "about": "two\nlines \u{1b}[2J", "tags": ["a", 1]}),
            json!({"name": "longer-name", "about": null}),
        ];
        assert_eq!(table(wide, headers, width).render(&rows), expected);
    }

    #[test]
    fn columns_are_aligned() {
        check(false, true, None, "NAME          ABOUT\n漢字          two lines \\u{1b}[2J\nlonger-name   -\n");
        check(true, false, None, "漢字          a,1   two lines \\u{1b}[2J\nlonger-name   -     -\n");
        check(false, false, Some(12), "漢字       …\nlonger-name…\n");
        check(false, false, Some(2), "…\nl…\n");
    }

    #[test]
    fn later_lines_stand_below_earlier_ones() {
        let mut widths = Vec::new();
        let first = table(false, true, None).render_below(&[json!({"name": "longer", "about": "x"})], &mut widths);
        assert_eq!(first, "NAME     ABOUT\nlonger   x\n");
        let next = table(false, false, None).render_below(&[json!({"name": "a", "about": "y"})], &mut widths);
        assert_eq!(next, "a        y\n");
    }

    #[test]
    fn colours_take_no_place_and_say_how_it_is() {
        const COLUMNS: [Column; 3] = [
            Column::new("NAME", |row| field(row, "name")),
            Column::state("STATE", |row| field(row, "state")),
            Column::new("TOOLS", |row| field(row, "tools")),
        ];
        let rows = [
            json!({"name": "漢字", "state": "ready", "tools": 1}),
            json!({"name": "b", "state": "failed", "tools": 2}),
            json!({"name": "c", "state": "idle", "tools": 3}),
        ];
        let mut table =
            Table { columns: &COLUMNS, wide: false, headers: true, width: None, colors: true, is_gone: false };
        let expected = "\u{1b}[1mNAME   STATE    TOOLS\u{1b}[0m\n漢字   \u{1b}[32mready\u{1b}[0m    1\n\
                        b      \u{1b}[31mfailed\u{1b}[0m   2\nc      idle     3\n";
        assert_eq!(table.render(&rows), expected);
        (table.headers, table.is_gone) = (false, true);
        assert_eq!(table.render(&rows[..1]), "漢字   removed   1\n");
    }

    #[test]
    fn cells_are_bounded() {
        let row = json!({"name": "x".repeat(1 << 20), "about": "end"});
        let text = table(false, false, None).render(&[row]);
        assert!(text.len() < 3_000 && text.ends_with("…   end\n"));
    }

    #[test]
    fn moments_read_as_dates() {
        assert_eq!(moment(&json!({"at": 0}), "at"), "1970-01-01T00:00:00.000Z");
        assert_eq!(moment(&json!({"at": "now"}), "at"), "now");
        assert_eq!(moment(&json!({}), "at"), "");
    }
}
