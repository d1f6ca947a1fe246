//! The objects in files: servers, profiles, workflows, service classes and services, in our form or in muster's, one in a
//! file or many, in lists and in folders. `create -f`, `apply` and `import` read with this and nothing else.
//!
//! Everything is checked where it stands, so what is wrong has its file, its line, its column and its document. What is
//! of another kind is named and left out. Not here: what becomes of an object.

mod kind;
mod object;
mod server;
mod source;

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::kind::DefinitionKind;
use crate::problem::{DefinitionProblem, Position, shown};

pub use kind::kind_named;
pub use source::{objects_at, objects_of_text};

/// How an object is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectForm {
    /// With the keys of our definitions.
    Own,
    /// As a Kubernetes object, or a server with muster's own keys.
    Muster,
}

/// Where an object stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectPlace {
    /// The file.
    pub file: PathBuf,
    /// Where in it.
    pub at: Position,
    /// Which of its documents, from 1; `None` where it has but one.
    pub document: Option<usize>,
}

/// One object in a file.
#[derive(Debug, Clone)]
pub struct Object {
    /// Where it stands.
    pub place: ObjectPlace,
    /// What it is.
    pub kind: DefinitionKind,
    /// How it is written down.
    pub form: ObjectForm,
    /// As it is written.
    pub name: String,
    /// Its definition without its name: in muster's form what stands in `spec`, with the labels.
    pub value: Map<String, Value>,
    /// Its own text with its comments, where it can be a definition's file as it is.
    pub text: Option<String>,
}

/// Something that is none of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedObject {
    /// Where it stands.
    pub place: ObjectPlace,
    /// What it is, such as "`Secret` `db`".
    pub what: String,
    /// Why it is left out.
    pub why: String,
}

/// What is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectProblem {
    /// Which of the file's documents, from 1; `None` where it has but one.
    pub document: Option<usize>,
    /// What is wrong, and where.
    pub problem: DefinitionProblem,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Objects {
    /// What is right, in the order of files and documents.
    pub objects: Vec<Object>,
    /// What is none of ours.
    pub skipped: Vec<SkippedObject>,
    /// What is wrong.
    pub problems: Vec<ObjectProblem>,
    /// What means nothing here, such as a key that is not known, in what is right all the same.
    pub warnings: Vec<ObjectProblem>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
}

// === impl Objects ===

impl Objects {
    /// Whether nothing was found, neither right nor wrong nor of another kind.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.skipped.is_empty() && self.problems.is_empty()
    }

    /// Two of one kind and name: the second is wrong.
    fn refuse_twins(&mut self) {
        let mut seen: Vec<(DefinitionKind, String, String)> = Vec::new();
        let mut once = Vec::new();
        for object in std::mem::take(&mut self.objects) {
            let first = seen.iter().find(|(kind, name, _)| *kind == object.kind && *name == object.name);
            if let Some((kind, name, place)) = first {
                let message = format!("the {kind} `{}` stands at {place} already", shown(name));
                self.problems.push(object.place.problem("", message, "keep one of the two"));
                continue;
            }
            seen.push((object.kind, object.name.clone(), object.place.to_string()));
            once.push(object);
        }
        self.objects = once;
    }
}

// === impl ObjectPlace ===

impl ObjectPlace {
    fn problem(&self, field: &str, message: impl Into<String>, hint: impl Into<String>) -> ObjectProblem {
        let problem = DefinitionProblem::of_file(&self.file, message).hint(hint);
        let problem = DefinitionProblem { at: Some(self.at), field: field.to_owned(), ..problem };
        ObjectProblem { document: self.document, problem }
    }
}

// === impl ObjectProblem ===

impl ObjectProblem {
    /// What a warning says in one line, with its hint.
    pub fn as_warning(&self) -> String {
        let hint = self.problem.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("warning: {self}{hint}")
    }
}

/// `f.yaml:3:1 (document 2)`.
impl fmt::Display for ObjectPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        place(f, &self.file, Some(self.at), self.document)
    }
}

/// `f.yaml:3:5 (document 2): the field in backticks: what is wrong`.
impl fmt::Display for ObjectProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DefinitionProblem { file, at, field, message, .. } = &self.problem;
        place(f, file, *at, self.document)?;
        let field = if field.is_empty() { String::new() } else { format!("`{field}`: ") };
        write!(f, ": {field}{message}")
    }
}

fn place(f: &mut fmt::Formatter<'_>, file: &Path, at: Option<Position>, document: Option<usize>) -> fmt::Result {
    f.write_str(&shown(&file.to_string_lossy()))?;
    if let Some(at) = at {
        write!(f, ":{}:{}", at.line, at.column)?;
    }
    document.map_or(Ok(()), |document| write!(f, " (document {document})"))
}

#[cfg(test)]
mod tests;
