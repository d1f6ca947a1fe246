//! Cuts a template into texts and actions, and actions into words.

use serde_json::Value;

use super::super::error::{TemplateError, shown};
use super::super::limit::ACTION;
use super::super::path::Step;

/// A text or what stands in braces.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part<'a> {
    Text(&'a str),
    Action(&'a str),
}

/// A word of an action.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A field with all its steps; `spaced` when nothing touches it on the left, so that it begins a value.
    Field {
        steps: Vec<Step>,
        spaced: bool,
    },
    /// `$` or `$name`.
    Variable(String),
    Word(String),
    Literal(Value),
    Open,
    Close,
    Pipe,
    Comma,
    Declare,
    Assign,
}

/// An action with every quoted text emptied.
fn unquoted(action: &str) -> String {
    let mut out = String::new();
    let mut quote = None;
    let mut escaped = false;
    for c in action.chars() {
        match quote {
            Some(open) => {
                if c == open && !escaped {
                    quote = None;
                    out.push(c);
                }
                escaped = c == '\\' && !escaped && open != '`';
            }
            None => {
                if matches!(c, '"' | '`' | '\'') {
                    quote = Some(c);
                }
                out.push(c);
            }
        }
    }
    out
}

/// Texts and actions in their order, with the trimming that `{{-` and `-}}` ask for.
pub(super) fn cut(text: &str) -> Result<Vec<Part<'_>>, TemplateError> {
    let mut parts = Vec::new();
    let mut rest = text;
    let mut trims = false;
    while let Some(at) = rest.find("{{") {
        let mut before = &rest[..at];
        let inner = &rest[at + 2..];
        let end = closing(inner)
            .ok_or_else(|| TemplateError::syntax(format!("`{}` has no `}}}}` at its end", shown(&rest[at..]))))?;
        let mut action = &inner[..end];
        if trims {
            before = before.trim_start();
        }
        if let Some(trimmed) = action.strip_prefix('-').filter(|rest| rest.starts_with(char::is_whitespace)) {
            action = trimmed;
            before = before.trim_end();
        }
        trims = false;
        if let Some(trimmed) = action.strip_suffix('-').filter(|rest| rest.ends_with(char::is_whitespace)) {
            action = trimmed;
            trims = true;
        }
        if !before.is_empty() {
            parts.push(Part::Text(before));
        }
        parts.push(Part::Action(action.trim()));
        rest = &inner[end + 2..];
    }
    let last = if trims { rest.trim_start() } else { rest };
    if !last.is_empty() {
        parts.push(Part::Text(last));
    }
    Ok(parts)
}

/// Where the action ends, quoted braces passed over.
fn closing(inner: &str) -> Option<usize> {
    if let Some(comment) = inner.trim_start_matches(['-', ' ']).strip_prefix("/*") {
        let end = comment.find("*/")? + (inner.len() - comment.len()) + 2;
        return inner[end..].find("}}").map(|at| end + at);
    }
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in inner.char_indices() {
        match quote {
            Some(open) => {
                if c == open && !escaped {
                    quote = None;
                }
                escaped = c == '\\' && !escaped && open != '`';
            }
            None if matches!(c, '"' | '`') => quote = Some(c),
            None if inner[at..].starts_with("}}") => return Some(at),
            None => {}
        }
    }
    None
}

/// The words of an action.
pub(super) fn words(action: &str) -> Result<Vec<Token>, TemplateError> {
    if action.len() > ACTION && unquoted(action).len() > ACTION {
        return Err(TemplateError::syntax(format!("an action of more than {ACTION} bytes")));
    }
    let mut lexer = Lexer { action, at: 0 };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'a> {
    action: &'a str,
    at: usize,
}

// === impl Lexer ===

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.action[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn fault(&self, what: &str) -> TemplateError {
        TemplateError::syntax(format!("{what} in `{{{{ {} }}}}`", shown(self.action)))
    }

    fn next(&mut self) -> Result<Option<Token>, TemplateError> {
        let before = self.at;
        self.at += self.rest().len() - self.rest().trim_start().len();
        let spaced = self.at > before || before == 0 || self.action[..before].ends_with(['(', '|', ',', '=']);
        let Some(c) = self.peek() else { return Ok(None) };
        if c == '.' && !self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(Some(Token::Field { steps: self.steps()?, spaced }));
        }
        let token = match c {
            '(' => self.one(Token::Open),
            ')' => self.one(Token::Close),
            '|' => self.one(Token::Pipe),
            ',' => self.one(Token::Comma),
            '=' => self.one(Token::Assign),
            ':' if self.rest().starts_with(":=") => {
                self.at += 2;
                Token::Declare
            }
            '$' => {
                self.at += 1;
                Token::Variable(self.word())
            }
            '"' => Token::Literal(Value::String(self.quoted()?)),
            '`' => Token::Literal(Value::String(self.raw()?)),
            c if c.is_ascii_digit() || c == '-' || c == '+' || c == '.' => self.number()?,
            c if c.is_alphabetic() || c == '_' => match self.word().as_str() {
                "true" => Token::Literal(Value::Bool(true)),
                "false" => Token::Literal(Value::Bool(false)),
                "nil" => Token::Literal(Value::Null),
                word => Token::Word(word.to_owned()),
            },
            '[' => return Err(self.fault("`[` (write `index .list 0`, or `.list[0]` without a space)")),
            other => return Err(self.fault(&format!("unexpected `{other}`"))),
        };
        Ok(Some(token))
    }

    fn one(&mut self, token: Token) -> Token {
        self.at += 1;
        token
    }

    fn word(&mut self) -> String {
        let end = self.rest().find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(self.rest().len());
        let word = self.rest()[..end].to_owned();
        self.at += end;
        word
    }

    /// `.a.b-c[0].d`: names of steps may hold `-`, and an index may follow without a blank.
    fn steps(&mut self) -> Result<Vec<Step>, TemplateError> {
        let mut steps = Vec::new();
        while let Some(next) = self.peek() {
            if next == '.' {
                let tail = &self.rest()[1..];
                let end = tail.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).unwrap_or(tail.len());
                // The dash of `-}}` is none of a name's.
                let key = tail[..end].trim_end_matches('-').to_owned();
                if key.is_empty() {
                    if steps.is_empty() && !tail.starts_with('.') {
                        self.at += 1;
                        break;
                    }
                    return Err(self.fault("a field without a name"));
                }
                self.at += 1 + key.len();
                steps.push(Step::Key(key));
            } else if next == '[' && !steps.is_empty() {
                let tail = &self.rest()[1..];
                let end = tail.find(']').ok_or_else(|| self.fault("`[` without `]`"))?;
                let inside = tail[..end].trim();
                let step = match inside.strip_prefix('"').and_then(|inside| inside.strip_suffix('"')) {
                    Some(key) => Step::Key(key.to_owned()),
                    None => Step::Index(inside.parse().map_err(|_| self.fault("an index that is not a number"))?),
                };
                self.at += end + 2;
                steps.push(step);
            } else {
                break;
            }
        }
        Ok(steps)
    }

    fn quoted(&mut self) -> Result<String, TemplateError> {
        let body = &self.rest()[1..];
        let mut escaped = false;
        let end = body.char_indices().find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        let (end, _) = end.ok_or_else(|| self.fault("a string without a closing `\"`"))?;
        let literal = format!("\"{}\"", &body[..end].replace("\\'", "'").replace('\t', "\\t").replace('\n', "\\n"));
        let text = serde_json::from_str(&literal).map_err(|_| self.fault("a string with an invalid escape"))?;
        self.at += end + 2;
        Ok(text)
    }

    fn raw(&mut self) -> Result<String, TemplateError> {
        let body = &self.rest()[1..];
        let end = body.find('`').ok_or_else(|| self.fault("a string without a closing backtick"))?;
        let text = body[..end].to_owned();
        self.at += end + 2;
        Ok(text)
    }

    fn number(&mut self) -> Result<Token, TemplateError> {
        let rest = self.rest();
        let end = rest
            .char_indices()
            .find(|(at, c)| !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '_') || *at == 0))
            .map_or(rest.len(), |(at, _)| at);
        let text = rest[..end].replace('_', "");
        let text = text.strip_prefix('+').unwrap_or(&text);
        let value = text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<f64>().map(Value::from));
        let value = value.map_err(|_| self.fault("an invalid number"))?;
        self.at += end;
        Ok(Token::Literal(value))
    }
}
