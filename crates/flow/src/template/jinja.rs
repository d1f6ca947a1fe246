//! Jinja's own language: taken as it is, but for what could make a template grow without bound.

use super::Piece;
use super::engine::Program;
use super::error::{TemplateError, shown};
use super::limit::{ACTION, DEPTH};
use super::path::Path;

/// Blocks that may be used.
const BLOCKS: [&str; 6] = ["if", "elif", "else", "endif", "for", "endfor"];
/// How many operators that put values together a text may hold.
const GROWING: usize = 64;
/// How deep loops may nest: rounds multiply.
const LOOPS: usize = 4;

/// Texts and bare fields, when there is nothing else.
pub(super) fn pieces(text: &str) -> Option<Vec<Piece>> {
    if text.contains("{%") || text.contains("{#") {
        return None;
    }
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        let (before, inner) = (&rest[..at], &rest[at + 2..]);
        let end = inner.find("}}")?;
        let path = Path::parse(inner[..end].trim()).filter(|path| is_bare(path, inner[..end].trim()))?;
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        pieces.push(Piece::Field(path));
        rest = &inner[end + 2..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Some(pieces)
}

/// Whether a path is one of Jinja's: names without signs, and no word that means something else.
fn is_bare(path: &Path, text: &str) -> bool {
    const WORDS: [&str; 8] = ["true", "false", "none", "True", "False", "None", "loop", "self"];
    let mut names = text.split(['.', '[']);
    let first = names.next().unwrap_or_default();
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    let outside_brackets = text.split('[').flat_map(|part| part.rsplit(']').next()).flat_map(|part| part.split('.'));
    !path.steps.is_empty()
        && is_name(first)
        && !WORDS.contains(&first)
        && outside_brackets.filter(|name| !name.is_empty()).all(is_name)
}

/// The program of a text.
pub(super) fn compile(text: &str) -> Result<Program, TemplateError> {
    check(text)?;
    let trimmed = text.trim();
    let single = trimmed.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    match single.filter(|inner| !inner.contains("{{") && !inner.contains("}}") && trimmed.len() == text.len()) {
        Some(inner) => {
            let inner = inner.trim_start_matches('-').trim_end_matches('-').trim();
            let keeps = inner.replace(' ', "").to_lowercase().ends_with("|fromjson") || inner.starts_with("fromJson(");
            Program::jinja_expression(inner.to_owned(), keeps)
        }
        None => Program::jinja_template(text.to_owned()),
    }
}

/// Refuses what has no bound: variables that grow, repetition, loops within loops within loops.
fn check(text: &str) -> Result<(), TemplateError> {
    let mut growing = 0;
    let mut loops: usize = 0;
    let mut depth: usize = 0;
    let mut rest = text;
    while let Some(at) = rest.find("{{").into_iter().chain(rest.find("{%")).min() {
        let is_block = rest[at..].starts_with("{%");
        let inner = &rest[at + 2..];
        let Some(end) = inner.find(if is_block { "%}" } else { "}}" }) else {
            return Err(TemplateError::syntax(format!("`{}` is not closed", shown(&rest[at..]))));
        };
        let code = bare(&inner[..end]);
        if code.len() > ACTION {
            return Err(TemplateError::syntax(format!("an action of more than {ACTION} bytes")));
        }
        growing += code.matches(['+', '~']).count();
        if code.contains('*') {
            let message = "`*` is not supported in templates: write `mul(a, b)`, or `repeat(n, text)` for texts";
            return Err(TemplateError::syntax(message));
        }
        if is_block {
            let word = code.trim_start_matches(['-', '+', ' ', '\n', '\t', '\r']);
            let word = word.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
            if !BLOCKS.contains(&word) {
                let message = format!("`{{% {word} %}}` is not supported in templates: use if and for");
                return Err(TemplateError::syntax(message));
            }
            depth = if matches!(word, "for" | "if") {
                depth + 1
            } else {
                depth - usize::from(word.starts_with("end") && depth > 0)
            };
            if depth > DEPTH {
                return Err(TemplateError::syntax(format!("blocks nest more than {DEPTH} deep")));
            }
            loops = if word == "for" { loops + 1 } else { loops.saturating_sub(usize::from(word == "endfor")) };
            if loops > LOOPS {
                return Err(TemplateError::syntax(format!("loops nest more than {LOOPS} deep")));
            }
        }
        rest = &inner[end + 2..];
    }
    if growing > GROWING {
        return Err(TemplateError::syntax(format!("more than {GROWING} of `+` and `~` in one template")));
    }
    Ok(())
}

/// Code with what is quoted taken out.
fn bare(code: &str) -> String {
    let mut out = String::new();
    let mut quote = None;
    let mut escaped = false;
    for c in code.chars() {
        match quote {
            Some(open) => {
                if c == open && !escaped {
                    quote = None;
                }
                escaped = c == '\\' && !escaped;
            }
            None if c == '"' || c == '\'' => quote = Some(c),
            None => out.push(c),
        }
    }
    out
}
