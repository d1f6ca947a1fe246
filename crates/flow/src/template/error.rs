//! What can go wrong with a template, with the place in the value that it stands in.

use std::fmt;

/// Why a template cannot be read or rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// Which kind of fault it is.
    pub fault: Fault,
    message: String,
    /// Where in a deep value the template stands, such as `args.items[0]`; empty for one that stands alone.
    field: String,
}

/// The kinds of faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It cannot be read.
    Syntax,
    /// It asks for something that is not there; the key that is missing.
    Missing(String),
    /// What it makes has no bound.
    TooMuch,
    /// A function does not like what it is given.
    Failed,
}

impl TemplateError {
    pub(super) fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), field: String::new() }
    }

    pub(super) fn syntax(message: impl Into<String>) -> Self {
        Self::new(Fault::Syntax, message)
    }

    /// The same inside of a larger value.
    pub(super) fn inside(mut self, field: &str) -> Self {
        let dot = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        self.field = format!("{field}{dot}{}", self.field);
        self
    }

    /// Where in a deep value the template stands; empty for one that stands alone.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "`{}`: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for TemplateError {}

/// A template's text, short enough for a message.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 120;
    let line = text.replace(['\n', '\r'], " ");
    if line.chars().count() <= LONGEST {
        return line;
    }
    let short: String = line.chars().take(LONGEST).collect();
    format!("{short}…")
}
