//! Forms made of JSON schemas: a schema becomes fields, what is entered becomes JSON, and JSON becomes what is entered.
//!
//! Absent, empty and `null` are three things. Numbers keep their digits. What no form can show, by its kind or its
//! size, is JSON for that part alone. Forms work without a script: rows are added and removed, alternatives picked and
//! parts turned into JSON by buttons that send the form, which is then shown again.
//!
//! Files: `shape` (which control a schema gets) on `merge` (`$ref`, `allOf`); `field` (what is entered); `build` (blank,
//! from JSON, from a browser); `evaluate` (to JSON); `edit` (the buttons); `render`, `controls`, `notes` (to HTML). To
//! add a kind of control: a `shape::Kind`, and its arms in `build`, `evaluate` and `controls`.

use std::fmt;

use askama::filters::HtmlSafe;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::json::{Json, JsonError};

mod build;
mod controls;
mod decimal;
mod edit;
mod evaluate;
mod field;
mod merge;
mod notes;
mod pairs;
mod path;
mod render;
mod shape;
#[cfg(test)]
mod tests;

use build::{Builder, OPEN_DEPTH};
use field::{Field, Label, Place, State};
use pairs::Pairs;
use path::Walk;

/// Bytes of a JSON text that a form is filled with.
const MAX_TEXT: usize = 1 << 20;

/// A form, with what is entered in it. It displays as HTML, to be put in a `<form method="post">`. A property with
/// `"format": "password"` is shown as dots.
///
/// ```
/// use toolcrib_ui::form::{Form, Submission};
///
/// let schema = serde_json::json!({
///     "type": "object",
///     "properties": {"path": {"type": "string"}, "limit": {"type": "integer", "maximum": 10}},
///     "required": ["path"],
/// });
/// let mut form = Form::of(&schema);
/// assert!(form.to_string().contains("name=\"v:/path\""));
///
/// let sent = |path: &str, limit: &str| {
///     vec![("v:/path".to_owned(), path.to_owned()), ("v:/limit".to_owned(), limit.to_owned())]
/// };
/// assert_eq!(form.read(&sent("/tmp", "3")), Submission::Complete(r#"{"path":"/tmp","limit":3}"#.to_owned()));
/// let Submission::Wrong(errors) = form.read(&sent("/tmp", "11")) else { panic!() };
/// assert_eq!((errors[0].path.as_str(), errors[0].message.as_str()), ("/limit", "must be at most 10"));
/// assert!(form.to_string().contains("value=\"11\""));
/// ```
#[derive(Debug, Clone)]
pub struct Form {
    schema: Json,
    digest: String,
    prefix: String,
    root: Field,
    focus: Option<String>,
    /// Bytes of words of the schema that it shows.
    prose: usize,
    /// Nesting up to which what is optional is not folded.
    open_depth: usize,
}

/// What a browser sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    /// The JSON text of what is entered.
    Complete(String),
    /// The form itself was changed, by one of its buttons or by picking another alternative: show it again.
    Edited,
    /// Something is wrong: show the form again, which says what and keeps what was entered.
    Wrong(Vec<FieldError>),
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The JSON pointer of its value; empty for the whole.
    pub path: String,
    /// What is wrong, as a fragment that reads after the name of the field.
    pub message: String,
}

// === impl Form ===

impl Form {
    /// A blank form of a schema. Use [`Form::parse`] where the schema's text is at hand: a [`Value`] has lost the digits
    /// of numbers beyond 64 bits.
    pub fn of(schema: &Value) -> Self {
        Self::new(Json::of(schema), OPEN_DEPTH)
    }

    /// A blank form of the text of a schema.
    ///
    /// # Errors
    /// Where the text stops being JSON.
    pub fn parse(schema: &str) -> Result<Self, JsonError> {
        Ok(Self::new(Json::parse(schema)?, OPEN_DEPTH))
    }

    /// A blank form in which all groups of fields that are optional are folded, for a schema with many of them.
    pub fn folded(schema: &Value) -> Self {
        Self::new(Json::of(schema), 0)
    }

    fn new(schema: Json, open_depth: usize) -> Self {
        let digest = Sha256::digest(schema.to_string())[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let root = Builder::new(&schema, open_depth).blank(root_place(&schema), true);
        Self { schema, digest, prefix: "f".to_owned(), root, focus: None, prose: render::MAX_PROSE, open_depth }
    }

    /// With ids that begin with letters of their own, for a page with several forms.
    #[must_use]
    pub fn with_ids(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// With few of its titles and descriptions, so that the page stays small; for the others stands `…`.
    #[must_use]
    pub fn with_few_words(mut self) -> Self {
        self.prose = render::SHORT_PROSE;
        self
    }

    /// Enters a JSON value. What does not fit its field is shown as JSON.
    ///
    /// # Errors
    /// Where the text stops being JSON, or that it is larger than 1 MiB; the form stays as it was.
    pub fn fill(&mut self, text: &str) -> Result<(), JsonError> {
        if text.len() > MAX_TEXT {
            return Err(JsonError { line: 1, column: 1, what: "the text is larger than 1 MiB" });
        }
        let value = Json::parse(text)?;
        self.root = Builder::new(&self.schema, self.open_depth).fill(root_place(&self.schema), &value);
        Ok(())
    }

    /// Whether the whole form is shown as JSON.
    pub fn is_json(&self) -> bool {
        matches!(self.root.state, State::Json { .. })
    }

    /// Shows the whole form as JSON, or its JSON as fields.
    pub fn switch(&mut self) {
        let mut builder = Builder::new(&self.schema, self.open_depth);
        edit::switch(&mut self.root, &mut builder);
    }

    /// Takes what a browser sent for this form. Pairs with other names are left alone.
    pub fn read(&mut self, sent: &[(String, String)]) -> Submission {
        let pairs = Pairs::of(sent);
        let mut builder = Builder::new(&self.schema, self.open_depth);
        if !pairs.is_empty() {
            self.root = builder.read(root_place(&self.schema), &pairs, &mut String::new());
        }
        self.focus = None;
        if let Some((action, path)) = pairs.button {
            self.focus = Some(edit::apply(&mut self.root, &mut builder, action, path));
            return Submission::Edited;
        }
        if builder.has_new_pick {
            return Submission::Edited;
        }
        let reading = evaluate::evaluate(&self.root, &mut Walk::default());
        if pairs.digest.is_some_and(|digest| digest != self.digest) {
            let message = "the schema changed while the form was open: check what is entered, then send it again";
            let error = FieldError { path: String::new(), message: message.to_owned() };
            self.root.wrong = Some(error.message.clone());
            return Submission::Wrong(vec![error]);
        }
        match reading.value {
            Some(value) if reading.faults.is_empty() => Submission::Complete(value.to_string()),
            _ => {
                for fault in &reading.faults {
                    if let Some(field) = self.root.find(&fault.control) {
                        field.wrong.get_or_insert_with(|| fault.message.clone());
                    }
                }
                let error = |fault: evaluate::Fault| FieldError { path: fault.pointer, message: fault.message };
                Submission::Wrong(reading.faults.into_iter().map(error).collect())
            }
        }
    }

    /// The JSON text of what is entered, also where something is wrong or missing; `None` where nothing is entered.
    pub fn draft(&self) -> Option<String> {
        evaluate::evaluate(&self.root, &mut Walk::default()).value.map(|value| value.to_string())
    }

    /// Says at the fields what was wrong with the value that they gave; an error without a field of its own is said at
    /// the nearest one above.
    pub fn refuse(&mut self, errors: &[FieldError]) {
        self.root.forget_wrongs();
        for error in errors {
            self.root.refuse(&error.path, &error.message);
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&render::render(self))
    }
}

impl HtmlSafe for Form {}

fn root_place(schema: &Json) -> Place {
    Place { label: Label::Root, schema: schema.clone(), is_required: true, depth: 0, trail: ["#".into()].into() }
}
