//! What is wrong with a scenario's file: where, what, and what was probably meant.

use std::fmt;
use std::path::PathBuf;

/// One fault of a file. Its text begins with `file:line`, so that editors jump there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u32,
    /// The key, such as `steps[2].expected.contains`; empty for the whole file.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file.display(), self.line)?;
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}
