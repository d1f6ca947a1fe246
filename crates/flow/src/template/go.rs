//! Go's templates: read here and written as one program of the engine.
//!
//! `lex` cuts a text into actions and their words, `parse` makes nodes of them, `emit` writes the engine's text.

mod emit;
mod lex;
mod parse;

use serde_json::Value;

use super::Piece;
use super::error::TemplateError;
use super::path::{Path, Step};

pub(super) use emit::compile;
pub(super) use parse::parse;

/// A part of a template.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Text(String),
    Print(Expr),
    If { arms: Vec<(Expr, Vec<Node>)>, otherwise: Vec<Node> },
    Range { index: Option<String>, item: Option<String>, over: Expr, body: Vec<Node>, otherwise: Vec<Node> },
    With { name: Option<String>, value: Expr, body: Vec<Node>, otherwise: Vec<Node> },
    Set { name: String, value: Expr },
}

/// A value of a template.
#[derive(Debug, Clone)]
pub(super) enum Expr {
    /// `.a.b`, from the value of the dot.
    Dot(Vec<Step>),
    /// `$.a.b`, from the root.
    Root(Vec<Step>),
    /// `$name.a.b`.
    Variable(String, Vec<Step>),
    Literal(Value),
    Call(String, Vec<Expr>),
    /// `(…).a.b`.
    Inside(Box<Expr>, Vec<Step>),
}

/// The pieces of a template that has nothing but texts and bare fields.
pub(super) fn pieces(nodes: &[Node]) -> Option<Vec<Piece>> {
    let piece = |node: &Node| match node {
        Node::Text(text) => Some(Piece::Text(text.clone())),
        Node::Print(Expr::Dot(steps) | Expr::Root(steps)) => Some(Piece::Field(Path { steps: steps.clone() })),
        _ => None,
    };
    nodes.iter().map(piece).collect()
}

/// What a word of Go that is not supported is answered with.
fn unsupported(word: &str) -> TemplateError {
    TemplateError::syntax(format!("`{word}` is not supported in templates: use if, range, with, and fields"))
}
