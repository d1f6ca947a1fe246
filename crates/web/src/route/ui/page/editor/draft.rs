//! A definition between its two views: the text of its file, and the form that is made of what the text says. The form
//! changes what the text says, and the rest of the text stays.

use serde_json::Value;
use toolcrib_catalog::{DefinitionId, DefinitionKind};
use toolcrib_ui::form::{FieldError, Form, Submission};
use toolcrib_ui::json::Json;
use toolcrib_ui::page::editor::EditorFault;

use super::{Subject, schema};
use crate::route::ui::request::Fields;

/// The name that a new definition is read under.
const UNNAMED: &str = "new";
/// Comments that are named where they go away.
const LOST: usize = 10;

/// How a definition is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Form,
    Yaml,
}

/// A definition that is written.
#[derive(Debug)]
pub(super) struct Draft {
    /// The text of the file as it would be.
    pub(super) text: String,
    /// The text as it was when it was opened, and its revision.
    pub(super) base: String,
    pub(super) revision: String,
    /// The form, where it is shown.
    pub(super) form: Option<Form>,
    faults: Vec<EditorFault>,
    /// Whether the text says what is entered: not while something in the form is wrong or only its parts were changed.
    is_complete: bool,
}

impl View {
    pub(super) fn named(name: Option<&str>) -> Self {
        if name == Some("yaml") { Self::Yaml } else { Self::Form }
    }
}

// === impl Draft ===

impl Draft {
    /// A new one.
    pub(super) fn blank(subject: &Subject, view: View) -> Self {
        let is_form = view == View::Form;
        Self {
            text: if is_form { String::new() } else { subject.kind.beginning.to_owned() },
            base: String::new(),
            revision: String::new(),
            form: is_form.then(|| schema::form(subject.kind.kind, true)),
            faults: Vec::new(),
            is_complete: true,
        }
    }

    /// One that is there.
    pub(super) fn of_text(subject: &Subject, view: View, text: String, revision: String) -> Self {
        let base = text.clone();
        let mut draft = Self { text, base, revision, form: None, faults: Vec::new(), is_complete: true };
        draft.show(subject, view);
        draft
    }

    /// What a browser sent.
    pub(super) fn sent(subject: &Subject, fields: &Fields) -> Self {
        // Browsers send their own line ends.
        let sent = |name: &str| fields.text(name).unwrap_or_default().replace("\r\n", "\n");
        let mut draft = Self {
            text: sent("text"),
            base: sent("base"),
            revision: sent("revision"),
            form: None,
            faults: Vec::new(),
            is_complete: true,
        };
        match fields.text("view") {
            Some("form") => draft.take_form(subject, fields),
            Some("text") => draft.show(subject, View::named(fields.text("shown"))),
            _ => {}
        }
        draft
    }

    fn take_form(&mut self, subject: &Subject, fields: &Fields) {
        let mut form = schema::form(subject.kind.kind, subject.name.is_none());
        // What the form says of itself is what it was filled with; what was sent replaces all of it.
        match form.read(&fields.0) {
            Submission::Complete(said) => self.take_value(subject, &said),
            Submission::Edited => self.is_complete = false,
            Submission::Wrong(errors) => {
                self.is_complete = false;
                let fault = |error: FieldError| EditorFault {
                    field: error.path.trim_start_matches('/').replace('/', "."),
                    message: error.message,
                    ..EditorFault::default()
                };
                self.faults = errors.into_iter().map(fault).collect();
            }
        }
        self.form = Some(form);
    }

    /// Makes the text say what the form says.
    fn take_value(&mut self, subject: &Subject, said: &str) {
        let value: Value = serde_json::from_str(said).unwrap_or_default();
        if !Json::parse(said).is_ok_and(|exact| exact.is_same(&Json::of(&value))) {
            self.is_complete = false;
            self.faults.push(EditorFault {
                message: "a number has more digits than a definition keeps: write it as a text".to_owned(),
                ..EditorFault::default()
            });
            return;
        }
        let which = self.which(subject);
        let before = which.value(&self.text).filter(Value::is_object);
        let whole = whole(before.as_ref(), value);
        match before {
            Some(before) if before == whole => {}
            Some(_) => self.text = which.amended(&self.text, &whole),
            None => self.text = toolcrib_catalog::to_yaml(&whole),
        }
    }

    /// Shows it in one of the views. What is no map stays text.
    pub(super) fn show(&mut self, subject: &Subject, view: View) {
        self.form = None;
        if view == View::Yaml {
            if self.text.is_empty() {
                subject.kind.beginning.clone_into(&mut self.text);
            }
            return;
        }
        let which = self.which(subject);
        let mut form = schema::form(subject.kind.kind, subject.name.is_none());
        match which.value(&self.text) {
            Some(value) if value.is_object() => {
                let shown = part(&value, subject.name.is_none());
                match form.fill(&shown.to_string()) {
                    Ok(()) => self.form = Some(form),
                    Err(error) => self.whole_fault(format!("it has no form: {error:?}")),
                }
            }
            None if self.text.trim().is_empty() => self.form = Some(form),
            _ => {
                let problems = which.check(&self.text).err().unwrap_or_default();
                self.faults.extend(problems.into_iter().map(|problem| EditorFault {
                    line: problem.at.map_or(0, |at| at.line),
                    column: problem.at.map_or(0, |at| at.column),
                    field: problem.field,
                    message: problem.message,
                    hint: problem.hint.unwrap_or_default(),
                    ..EditorFault::default()
                }));
            }
        }
    }

    fn whole_fault(&mut self, message: String) {
        self.faults.push(EditorFault { message, ..EditorFault::default() });
    }

    /// Notes what is wrong, at its field where the form has it.
    pub(super) fn fault(&mut self, fault: EditorFault) {
        self.faults.push(fault);
        if let Some(form) = &mut self.form {
            let wrong = self.faults.iter().filter(|fault| !fault.is_warning);
            let errors: Vec<FieldError> =
                wrong.map(|fault| FieldError { path: pointer(&fault.field), message: fault.message.clone() }).collect();
            form.refuse(&errors);
        }
    }

    /// What is wrong, with the lines around it where the text is shown. The form says itself what is wrong with its
    /// fields.
    pub(super) fn placed_faults(&self) -> Vec<EditorFault> {
        let is_form = self.form.is_some();
        let listed = self.faults.iter().filter(|fault| !is_form || fault.is_warning || fault.field.is_empty());
        listed.map(|fault| fault.clone().in_text(&self.text)).collect()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(super) fn is_wrong(&self) -> bool {
        self.faults.iter().any(|fault| !fault.is_warning)
    }

    /// The name of the definition: of one that is there its own, of a new one what the text says.
    pub(super) fn name(&self, subject: &Subject) -> Option<String> {
        let said = || {
            let value = DefinitionId::new(subject.kind.kind, UNNAMED).ok()?.value(&self.text)?;
            let name = value.get("name").or_else(|| value.pointer("/metadata/name"))?;
            name.as_str().filter(|name| !name.is_empty()).map(str::to_owned)
        };
        subject.name.clone().or_else(said)
    }

    /// What is entered so far.
    pub(super) fn value(&self, subject: &Subject) -> Option<Value> {
        match &self.form {
            Some(form) => serde_json::from_str(&form.draft()?).ok(),
            None => self.which(subject).value(&self.text).map(|value| part(&value, true)),
        }
    }

    /// Lines of comments that are in the file and would not be.
    pub(super) fn lost_comments(&self) -> Vec<String> {
        let comments = |text: &str| {
            let lines = text.lines().map(str::trim).filter(|line| line.starts_with('#'));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let mut kept = comments(&self.text);
        let mut lost = Vec::new();
        for comment in comments(&self.base) {
            match kept.iter().position(|it| *it == comment) {
                Some(place) => drop(kept.swap_remove(place)),
                None if lost.len() < LOST => lost.push(comment),
                None => {}
            }
        }
        lost
    }

    /// The definition that the text is read as.
    pub(super) fn which(&self, subject: &Subject) -> DefinitionId {
        let kind: DefinitionKind = subject.kind.kind;
        let name = self.name(subject).unwrap_or_else(|| UNNAMED.to_owned());
        DefinitionId::new(kind, &name)
            .or_else(|_| DefinitionId::new(kind, UNNAMED))
            .expect("it is a name of every kind")
    }
}

/// Whether a file is in the form of Kubernetes: then its definition is the `spec`.
fn has_spec(value: &Value) -> bool {
    value.get("apiVersion").is_some() && value.get("spec").is_some_and(Value::is_object)
}

/// What the form shows of a file: all but the name of one that is there.
fn part(value: &Value, is_new: bool) -> Value {
    let mut part = if has_spec(value) { value["spec"].clone() } else { value.clone() };
    if let (false, Some(members)) = (is_new, part.as_object_mut()) {
        members.shift_remove("name");
    }
    part
}

/// What a file says once its form says `said`.
fn whole(before: Option<&Value>, said: Value) -> Value {
    let Some(before) = before else { return said };
    if has_spec(before) {
        let mut whole = before.clone();
        whole["spec"] = said;
        return whole;
    }
    let (Some(name), Value::Object(mut members)) = (before.get("name"), said.clone()) else { return said };
    if !members.contains_key("name") {
        members.shift_insert(0, "name".to_owned(), name.clone());
    }
    Value::Object(members)
}

/// The JSON pointer of a field that a reader names, such as `spec.steps[2].args.q`.
fn pointer(field: &str) -> String {
    let field = field.strip_prefix("spec.").unwrap_or(field);
    let mut pointer = String::new();
    for step in field.split(['.', '[']).filter(|step| !step.is_empty()) {
        pointer.push('/');
        pointer.push_str(&step.trim_end_matches(']').replace('~', "~0").replace('/', "~1"));
    }
    pointer
}

#[cfg(test)]
mod tests;
