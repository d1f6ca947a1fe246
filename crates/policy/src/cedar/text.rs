//! Files of policies as they come in, and what is wrong with them.

use std::fmt;

/// The name of the file that says what each role may do. A file of this name in the folder replaces the one in here.
pub const BASELINE_FILE: &str = "baseline.cedar";

/// What each role may do where no file says otherwise.
pub const BASELINE: &str = include_str!("baseline.cedar");

/// The name of the file that says what becomes of risk classes.
pub const RISK_FILE: &str = "risk.cedar";

/// All files that are part of the program, by name. One of the same name in the folder replaces it.
pub const SHIPPED: [(&str, &str); 3] = [
    (BASELINE_FILE, BASELINE),
    (RISK_FILE, include_str!("risk.cedar")),
    ("suggested.cedar", include_str!("suggested.cedar")),
];

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyText {
    /// Its name, as people know it: `prod.cedar`.
    pub file: String,
    /// What is in it.
    pub text: String,
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The name of the file.
    pub file: String,
    /// The line, from 1; `None` where the whole file is meant.
    pub line: Option<usize>,
    /// What is wrong: a lower-case fragment.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

// === impl Fault ===

impl Fault {
    pub(super) fn new(file: &str, line: Option<usize>, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, message: message.into(), hint: None }
    }

    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// As compilers write it: `prod.cedar:3: …`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// The line of an offset, from 1.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    newlines(&text.as_bytes()[..offset.min(text.len())]) + 1
}

/// How many lines end in a text.
pub(super) fn newlines(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}
