//! Words of Go's templates to nodes.

use super::lex::{Part, Token, cut, words};
use super::{Expr, Node, unsupported};
use crate::template::error::{TemplateError, shown};
use crate::template::function;
use crate::template::limit::DEPTH;
use crate::template::path::Step;

/// Reads a whole template.
pub(in crate::template) fn parse(text: &str) -> Result<Vec<Node>, TemplateError> {
    let mut parser = Parser { parts: cut(text)?.into_iter(), depth: 0 };
    let (nodes, end) = parser.block()?;
    match end {
        End::Text => Ok(nodes),
        End::Closed => Err(TemplateError::syntax("`{{ end }}` without an open block")),
        End::Else(_) => Err(TemplateError::syntax("`{{ else }}` without if, range or with")),
    }
}

struct Parser<'a> {
    parts: std::vec::IntoIter<Part<'a>>,
    depth: usize,
}

/// What a block ends with.
enum End {
    Text,
    Closed,
    /// With the condition that follows `else if`.
    Else(Option<Vec<Token>>),
}

// === impl Parser ===

impl Parser<'_> {
    fn block(&mut self) -> Result<(Vec<Node>, End), TemplateError> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(TemplateError::syntax(format!("blocks nest more than {DEPTH} deep")));
        }
        let mut nodes = Vec::new();
        let end = loop {
            let action = match self.parts.next() {
                None => break End::Text,
                Some(Part::Text(text)) => {
                    nodes.push(Node::Text(text.to_owned()));
                    continue;
                }
                Some(Part::Action(action)) => action,
            };
            if action.starts_with("/*") {
                continue;
            }
            let tokens = words(action)?;
            let keyword = match tokens.first() {
                Some(Token::Word(word)) => word.clone(),
                _ => String::new(),
            };
            let rest = || tokens[1..].to_vec();
            match keyword.as_str() {
                "end" => break End::Closed,
                "else" => match tokens.get(1) {
                    None => break End::Else(None),
                    Some(Token::Word(word)) if word == "if" => break End::Else(Some(tokens[2..].to_vec())),
                    Some(_) => {
                        return Err(TemplateError::syntax(format!("`{{{{ {action} }}}}`: expected `else if …`")));
                    }
                },
                "if" => nodes.push(self.condition(rest(), action)?),
                "range" => nodes.push(self.range(rest(), action)?),
                "with" => nodes.push(self.with(rest(), action)?),
                "define" | "template" | "block" | "break" | "continue" => return Err(unsupported(&keyword)),
                _ => nodes.push(statement(tokens, action)?),
            }
        };
        self.depth -= 1;
        Ok((nodes, end))
    }

    fn condition(&mut self, tokens: Vec<Token>, action: &str) -> Result<Node, TemplateError> {
        let mut arms = Vec::new();
        let mut condition = expression(tokens, action)?;
        loop {
            let (body, end) = self.block()?;
            arms.push((condition, body));
            match end {
                End::Closed => return Ok(Node::If { arms, otherwise: Vec::new() }),
                End::Else(Some(tokens)) => condition = expression(tokens, action)?,
                End::Else(None) => {
                    let otherwise = self.last(action)?;
                    return Ok(Node::If { arms, otherwise });
                }
                End::Text => return Err(open(action)),
            }
        }
    }

    fn range(&mut self, tokens: Vec<Token>, action: &str) -> Result<Node, TemplateError> {
        let (mut names, tokens) = declared(tokens, action)?;
        let item = names.pop();
        let index = names.pop();
        let over = expression(tokens, action)?;
        let (body, otherwise) = self.body(action)?;
        Ok(Node::Range { index, item, over, body, otherwise })
    }

    fn with(&mut self, tokens: Vec<Token>, action: &str) -> Result<Node, TemplateError> {
        let (mut names, tokens) = declared(tokens, action)?;
        let value = expression(tokens, action)?;
        let (body, otherwise) = self.body(action)?;
        Ok(Node::With { name: names.pop(), value, body, otherwise })
    }

    /// The body of a block, and what stands after its `else`.
    fn body(&mut self, action: &str) -> Result<(Vec<Node>, Vec<Node>), TemplateError> {
        let (body, end) = self.block()?;
        match end {
            End::Closed => Ok((body, Vec::new())),
            End::Else(None) => Ok((body, self.last(action)?)),
            End::Else(Some(_)) => Err(TemplateError::syntax(format!("`else if` in `{{{{ {} }}}}`", shown(action)))),
            End::Text => Err(open(action)),
        }
    }

    fn last(&mut self, action: &str) -> Result<Vec<Node>, TemplateError> {
        match self.block()? {
            (nodes, End::Closed) => Ok(nodes),
            (_, End::Else(_)) => Err(TemplateError::syntax(format!("two `else` in `{{{{ {} }}}}`", shown(action)))),
            (_, End::Text) => Err(open(action)),
        }
    }
}

fn open(action: &str) -> TemplateError {
    TemplateError::syntax(format!("`{{{{ {} }}}}` has no `{{{{ end }}}}`", shown(action)))
}

/// An action that is not a block: a declaration or a value.
fn statement(tokens: Vec<Token>, action: &str) -> Result<Node, TemplateError> {
    match tokens.as_slice() {
        [Token::Variable(_), Token::Assign, ..] => {
            Err(TemplateError::syntax(format!("`{}`: declare each variable once, with `:=`", shown(action))))
        }
        [Token::Variable(name), Token::Declare, ..] if !name.is_empty() => {
            Ok(Node::Set { name: name.clone(), value: expression(tokens[2..].to_vec(), action)? })
        }
        _ => Ok(Node::Print(expression(tokens, action)?)),
    }
}

/// The variables in front of `:=`, and what comes after it.
fn declared(tokens: Vec<Token>, action: &str) -> Result<(Vec<String>, Vec<Token>), TemplateError> {
    let Some(at) = tokens.iter().position(|token| *token == Token::Declare) else { return Ok((Vec::new(), tokens)) };
    let names = tokens[..at].iter().filter(|token| **token != Token::Comma).map(|token| match token {
        Token::Variable(name) if !name.is_empty() => Ok(name.clone()),
        _ => Err(TemplateError::syntax(format!("expected variables in front of `:=` in `{}`", shown(action)))),
    });
    let names: Vec<String> = names.collect::<Result<_, _>>()?;
    if names.is_empty() || names.len() > 2 {
        return Err(TemplateError::syntax(format!("expected one or two variables in `{}`", shown(action))));
    }
    Ok((names, tokens[at + 1..].to_vec()))
}

fn expression(tokens: Vec<Token>, action: &str) -> Result<Expr, TemplateError> {
    let mut reader = Reader { tokens: tokens.into_iter().peekable(), action, depth: 0 };
    let expr = reader.pipeline()?;
    match reader.tokens.next() {
        None => Ok(expr),
        Some(token) => Err(reader.fault(&format!("unexpected {}", name(&token)))),
    }
}

fn name(token: &Token) -> String {
    match token {
        Token::Field { .. } => "field".to_owned(),
        Token::Variable(name) => format!("`${name}`"),
        Token::Word(word) => format!("`{word}`"),
        Token::Literal(value) => format!("`{value}`"),
        Token::Open => "`(`".to_owned(),
        Token::Close => "`)`".to_owned(),
        Token::Pipe => "`|`".to_owned(),
        Token::Comma => "`,`".to_owned(),
        Token::Declare => "`:=`".to_owned(),
        Token::Assign => "`=`".to_owned(),
    }
}

struct Reader<'a> {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    action: &'a str,
    depth: usize,
}

// === impl Reader ===

impl Reader<'_> {
    fn fault(&self, what: &str) -> TemplateError {
        TemplateError::syntax(format!("{what} in `{{{{ {} }}}}`", shown(self.action)))
    }

    /// `a | f x` is `f x a`.
    fn pipeline(&mut self) -> Result<Expr, TemplateError> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.fault(&format!("brackets nest more than {DEPTH} deep")));
        }
        let mut value = self.command(None)?;
        while self.tokens.next_if_eq(&Token::Pipe).is_some() {
            value = self.command(Some(value))?;
        }
        self.depth -= 1;
        Ok(value)
    }

    /// A function with its arguments, the piped value last; or a single value.
    fn command(&mut self, piped: Option<Expr>) -> Result<Expr, TemplateError> {
        if let Some(Token::Word(word)) = self.tokens.next_if(|token| matches!(token, Token::Word(_))) {
            if matches!(self.tokens.peek(), Some(Token::Field { spaced: false, .. })) {
                return Err(self.fault(&format!(
                    "expected `.{word}` (or say `templates: jinja` in the definition), got `{word}`"
                )));
            }
            let mut arguments = Vec::new();
            while let Some(argument) = self.operand()? {
                arguments.push(argument);
            }
            arguments.extend(piped);
            function::accepts(&word, arguments.len()).map_err(|what| self.fault(&what))?;
            return Ok(Expr::Call(word, arguments));
        }
        match (self.operand()?, piped) {
            (Some(value), None) => Ok(value),
            (Some(_), Some(_)) => Err(self.fault("expected a function after `|`")),
            (None, _) => Err(self.fault("expected a value or a function")),
        }
    }

    fn operand(&mut self) -> Result<Option<Expr>, TemplateError> {
        let is_operand = |token: &Token| !matches!(token, Token::Close | Token::Pipe | Token::Comma);
        let Some(token) = self.tokens.next_if(is_operand) else { return Ok(None) };
        let value = match token {
            Token::Field { steps, .. } => Expr::Dot(steps),
            Token::Variable(name) => {
                let steps = self.touching();
                if name.is_empty() { Expr::Root(steps) } else { Expr::Variable(name, steps) }
            }
            Token::Literal(value) => Expr::Literal(value),
            Token::Open => {
                let inner = self.pipeline()?;
                if self.tokens.next() != Some(Token::Close) {
                    return Err(self.fault("`(` without `)`"));
                }
                match self.touching() {
                    steps if steps.is_empty() => inner,
                    steps => Expr::Inside(Box::new(inner), steps),
                }
            }
            // A function as an argument is called without its own arguments.
            Token::Word(word) => {
                function::accepts(&word, 0).map_err(|what| self.fault(&what))?;
                Expr::Call(word, Vec::new())
            }
            token => return Err(self.fault(&format!("unexpected {}", name(&token)))),
        };
        Ok(Some(value))
    }

    /// A field that follows without a blank.
    fn touching(&mut self) -> Vec<Step> {
        match self.tokens.next_if(|token| matches!(token, Token::Field { spaced: false, .. })) {
            Some(Token::Field { steps, .. }) => steps,
            _ => Vec::new(),
        }
    }
}
