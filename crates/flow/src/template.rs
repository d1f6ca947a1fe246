//! Templates in definitions: Go's `{{ .input.x }}` with the functions of sprig, or, where the definition says
//! `templates: jinja`, Jinja's `{{ input.x }}`.
//!
//! Both run on one engine. A text is read once ([`Template::parse`]) and rendered as often as needed. Nothing that a
//! template says can take long, grow without bound or reach anything but the value that it is rendered with.
//! Not here: which values that is.

mod context;
mod engine;
mod error;
mod function;
mod go;
mod jinja;
mod limit;
mod path;
mod tree;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use toolcrib_catalog::TemplateLanguage;

pub use context::Context;
pub use error::{Fault, TemplateError};
pub use path::JsonPath;
pub use tree::Tree;

use engine::Program;
use path::Path;

/// The longest text that is taken for a template, in bytes.
pub const TEMPLATE_BYTES: usize = 64 * 1024;

/// A text that may have fields in it.
#[derive(Debug, Clone)]
pub struct Template {
    text: Arc<str>,
    kind: CompiledTemplate,
}

#[derive(Debug, Clone)]
enum CompiledTemplate {
    /// Without any field: it stays as it is.
    Plain,
    /// One bare field: the value keeps its type.
    Field(Path),
    /// Texts and bare fields, which need no engine.
    Pieces(Arc<[Piece]>),
    Program(Arc<Program>),
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Field(Path),
}

// === impl Template ===

impl Template {
    /// Reads a text that is written in `language`.
    ///
    /// # Errors
    /// It cannot be read; what looks like the other language is named.
    pub fn parse(text: &str, language: TemplateLanguage) -> Result<Self, TemplateError> {
        if !text.contains("{{") && !text.contains("{%") && !text.contains("{#") {
            return Ok(Self { text: text.into(), kind: CompiledTemplate::Plain });
        }
        if text.len() > TEMPLATE_BYTES {
            let message = format!("a template has at most {TEMPLATE_BYTES} bytes, this one has {}", text.len());
            return Err(TemplateError::new(Fault::Syntax, message));
        }
        let kind = match language {
            TemplateLanguage::Go => Self::of_go(text)?,
            TemplateLanguage::Jinja => Self::of_jinja(text)?,
        };
        Ok(Self { text: text.into(), kind })
    }

    fn of_go(text: &str) -> Result<CompiledTemplate, TemplateError> {
        if text.contains("{%") {
            let message = "`{% … %}` is Jinja's: say `templates: jinja` in the definition, or write Go's `{{ if … }}`";
            return Err(TemplateError::syntax(message));
        }
        let nodes = go::parse(text)?;
        if let Some(pieces) = go::pieces(&nodes) {
            return Ok(Self::of_pieces(pieces));
        }
        Ok(CompiledTemplate::Program(Arc::new(go::compile(&nodes)?)))
    }

    fn of_jinja(text: &str) -> Result<CompiledTemplate, TemplateError> {
        if let Some(pieces) = jinja::pieces(text) {
            return Ok(Self::of_pieces(pieces));
        }
        Ok(CompiledTemplate::Program(Arc::new(jinja::compile(text)?)))
    }

    fn of_pieces(mut pieces: Vec<Piece>) -> CompiledTemplate {
        match pieces.as_slice() {
            [Piece::Field(_)] => match pieces.pop() {
                Some(Piece::Field(path)) => CompiledTemplate::Field(path),
                _ => CompiledTemplate::Plain,
            },
            _ => CompiledTemplate::Pieces(pieces.into()),
        }
    }

    /// The text that it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it has anything to render.
    pub fn is_plain(&self) -> bool {
        matches!(self.kind, CompiledTemplate::Plain)
    }

    /// The names directly under a root that must be there when it is rendered, as far as the text says them: those of
    /// fields that may be missing are not among them, nor is what Jinja's own expressions use.
    pub fn names_under<'a>(&'a self, root: &str) -> Vec<&'a str> {
        let paths: Vec<&Path> = match &self.kind {
            CompiledTemplate::Plain => Vec::new(),
            CompiledTemplate::Field(path) => vec![path],
            CompiledTemplate::Pieces(pieces) => {
                let path = |piece: &'a Piece| match piece {
                    Piece::Text(_) => None,
                    Piece::Field(path) => Some(path),
                };
                pieces.iter().filter_map(path).collect()
            }
            CompiledTemplate::Program(program) => program.fields().collect(),
        };
        paths.into_iter().filter_map(|path| path.under(root)).collect()
    }

    /// Renders it with the roots of `context`. A bare field keeps its type, so do lists and maps; `true` and
    /// `false` become truth values; everything else is text. A plain text stays the text that it is.
    pub fn render(&self, context: &Context) -> Result<Value, TemplateError> {
        limit::begin();
        function::clock::begin(context.now());
        match &self.kind {
            CompiledTemplate::Plain => Ok(Value::String(self.text.to_string())),
            CompiledTemplate::Field(path) => {
                context.find(path).map(Cow::into_owned).map_err(|missing| missing.into_error(&self.text))
            }
            CompiledTemplate::Pieces(pieces) => {
                let mut out = limit::Text::default();
                for piece in pieces.iter() {
                    match piece {
                        Piece::Text(text) => out.push(text)?,
                        Piece::Field(path) => {
                            let value = context.find(path).map_err(|missing| missing.into_error(&self.text))?;
                            limit::show(&value, &mut out)?;
                        }
                    }
                }
                Ok(typed(out.into_string()))
            }
            CompiledTemplate::Program(program) => program.render(context, &self.text),
        }
    }
}

/// What a rendered text is.
fn typed(text: String) -> Value {
    match text.as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => Value::String(text),
    }
}

#[cfg(test)]
mod tests;
