//! A definition that is written: as a form or as the text of its file, with what is wrong at its field and its line, what
//! would change in the file, and the steps of a workflow as a graph.

use askama::Template;

use super::operation::{BothChanges, Copy, FilePreview, UnwrittenChanges};
use crate::filters;
use crate::form::Form;
use crate::frame::{Frame, Notice};
use crate::graph::Graph;
use crate::text::clipped;

/// Lines around a fault that are shown.
const AROUND: usize = 2;
/// Characters of a line that are shown.
const LINE: usize = 200;

/// A definition that is written.
#[derive(Debug, Template)]
#[template(path = "page/editor.html")]
pub struct EditorPage {
    /// What stands around it.
    pub frame: Frame,
    /// The pages above: their paths and names.
    pub above: Vec<(String, String)>,
    /// Where it is sent.
    pub path: String,
    /// Where to go without writing anything.
    pub back: String,
    /// The operation that writes it.
    pub tool: String,
    /// Whether the pages and the person's role allow it.
    pub is_allowed: bool,
    /// The form; `None` where the text is shown.
    pub form: Option<Form>,
    /// The text of the file as it would be.
    pub text: String,
    /// The text as it was when it was opened; empty for a new one.
    pub base: String,
    /// The revision of that text.
    pub revision: String,
    /// What is wrong, or may be.
    pub faults: Vec<EditorFault>,
    /// What was found when it was only checked.
    pub checked: Option<String>,
    /// Comments that are in the file and would not be.
    pub lost: Vec<String>,
    /// What would change in files.
    pub preview: Vec<FilePreview>,
    /// What tells these changes from others.
    pub fingerprint: String,
    /// Where the file was changed since: what changed there, and what changed here.
    pub conflict: Option<BothChanges>,
    /// Why the last try failed.
    pub problem: Option<Notice>,
    /// What the disk did not take.
    pub unwritten: Option<UnwrittenChanges>,
    /// The steps.
    pub graph: Option<Graph>,
    /// The same by other doors.
    pub copies: Vec<Copy>,
}

/// Something wrong with the text.
#[derive(Debug, Clone, Default)]
pub struct EditorFault {
    /// Its line and its column, from 1; 0 where it has no place.
    pub line: u32,
    /// The column.
    pub column: u32,
    /// The path of its field; empty for the whole.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to do; empty for nothing.
    pub hint: String,
    /// Whether the definition is valid all the same.
    pub is_warning: bool,
    /// The lines around it: number, text, and whether it is this one.
    pub excerpt: Vec<(usize, String, bool)>,
}

// === impl EditorFault ===

impl EditorFault {
    /// With the lines of the text around it.
    #[must_use]
    pub fn in_text(mut self, text: &str) -> Self {
        let Some(at) = usize::try_from(self.line).ok().and_then(|line| line.checked_sub(1)) else { return self };
        let first = at.saturating_sub(AROUND);
        let lines = text.lines().enumerate().skip(first).take(at - first + AROUND + 1);
        self.excerpt = lines.map(|(number, line)| (number + 1, clipped(line, LINE), number == at)).collect();
        self
    }
}

// === impl EditorPage ===

impl EditorPage {
    /// The other view of the same.
    pub fn other(&self) -> (&'static str, &'static str) {
        if self.form.is_some() { ("yaml", "Show as YAML") } else { ("form", "Show as a form") }
    }

    /// How many lines the text box has.
    pub fn rows(&self) -> usize {
        self.text.lines().count().clamp(16, 40)
    }

    /// What was found, in words.
    pub fn summary(&self) -> String {
        let wrong = self.faults.iter().filter(|fault| !fault.is_warning).count();
        let warnings = self.faults.len() - wrong;
        let count = |count: usize, one: &str, many: &str| {
            if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
        };
        match (wrong, warnings) {
            (0, _) => count(warnings, "warning", "warnings"),
            (_, 0) => count(wrong, "thing is wrong", "things are wrong"),
            _ => format!(
                "{}, {}",
                count(wrong, "thing is wrong", "things are wrong"),
                count(warnings, "warning", "warnings")
            ),
        }
    }

    /// Whether something is wrong, and not only warned of.
    pub fn is_wrong(&self) -> bool {
        self.faults.iter().any(|fault| !fault.is_warning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_shows_the_lines_around_it() {
        let fault = |line| EditorFault { line, ..EditorFault::default() }.in_text("a\nb\nc\nd\ne\n").excerpt;
        let shown: Vec<(usize, bool)> = fault(4).iter().map(|(number, _, is_it)| (*number, *is_it)).collect();
        assert_eq!(shown, [(2, false), (3, false), (4, true), (5, false)]);
        assert_eq!(fault(1).len(), 3);
        assert!(fault(0).is_empty() && fault(99).is_empty());
    }
}
