//! Nodes of Go's templates as one program of the engine.
//!
//! Fields of the root become separate values (`f0`, `f1` …), looked up before the engine runs: so a field that is
//! missing is named, and only what is used is handed over.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Expr, Node};
use crate::template::engine::{Field, Program};
use crate::template::error::TemplateError;
use crate::template::path::{Path, Step};

/// Functions that look at a value that may be missing.
const LENIENT: [&str; 3] = ["default", "coalesce", "empty"];

/// The program of a template.
pub(in crate::template) fn compile(nodes: &[Node]) -> Result<Program, TemplateError> {
    let mut emitter = Emitter::default();
    if let [Node::Print(expr)] = nodes {
        let keeps = matches!(expr, Expr::Call(name, _) if name.ends_with("romJson"));
        let source = emitter.expr(expr, false)?;
        return Program::expression(source, emitter.fields, keeps);
    }
    let mut source = String::new();
    emitter.nodes(nodes, &mut source)?;
    Program::template(source, emitter.fields)
}

#[derive(Default)]
struct Emitter {
    fields: Vec<Field>,
    /// The value of the dot: the root, or the variable of the innermost `range` or `with`.
    dots: Vec<String>,
    /// Variables that are declared, innermost last.
    variables: Vec<String>,
    counter: usize,
}

/// A loop over pairs of a key and a value, which is the value of the dot within.
struct Loop<'n> {
    /// The expression that gives the pairs.
    pairs: String,
    /// The variables for key and value.
    names: [Option<&'n String>; 2],
    body: &'n [Node],
    /// What stands there where there are no pairs.
    otherwise: &'n [Node],
}

// === impl Emitter ===

impl Emitter {
    fn nodes(&mut self, nodes: &[Node], out: &mut String) -> Result<(), TemplateError> {
        let declared = self.variables.len();
        for node in nodes {
            self.node(node, out)?;
        }
        self.variables.truncate(declared);
        Ok(())
    }

    fn node(&mut self, node: &Node, out: &mut String) -> Result<(), TemplateError> {
        match node {
            Node::Text(text) => push(out, &format!("{{{{ {} }}}}", literal(&Value::from(text.as_str())))),
            Node::Print(expr) => {
                let value = self.expr(expr, false)?;
                push(out, &format!("{{{{ {value} }}}}"));
            }
            Node::Set { name, value } => {
                let value = self.expr(value, false)?;
                self.variables.push(name.clone());
                push(out, &format!("{{% set v_{name} = {value} %}}"));
            }
            Node::If { arms, otherwise } => {
                for (index, (condition, body)) in arms.iter().enumerate() {
                    let condition = self.expr(condition, false)?;
                    let word = if index == 0 { "if" } else { "elif" };
                    push(out, &format!("{{% {word} {condition} %}}"));
                    self.nodes(body, out)?;
                }
                self.otherwise(otherwise, out)?;
                push(out, "{% endif %}");
            }
            Node::Range { index, item, over, body, otherwise } => {
                let over = self.expr(over, false)?;
                let names = [index.as_ref(), item.as_ref()];
                self.emit_loop(&Loop { pairs: format!("pairs__({over})"), names, body, otherwise }, out)?;
            }
            Node::With { name, value, body, otherwise } => {
                let value = self.expr(value, false)?;
                let names = [None, name.as_ref()];
                self.emit_loop(&Loop { pairs: format!("if_any__({value})"), names, body, otherwise }, out)?;
            }
        }
        Ok(())
    }

    fn emit_loop(&mut self, each: &Loop<'_>, out: &mut String) -> Result<(), TemplateError> {
        self.counter += 1;
        let pair = format!("p{}", self.counter);
        push(out, &format!("{{% for {pair} in {} %}}", each.pairs));
        let declared = self.variables.len();
        for (place, name) in each.names.into_iter().enumerate() {
            if let Some(name) = name {
                push(out, &format!("{{% set v_{name} = {pair}[{place}] %}}"));
                self.variables.push(name.clone());
            }
        }
        self.dots.push(format!("{pair}[1]"));
        self.nodes(each.body, out)?;
        self.dots.pop();
        self.variables.truncate(declared);
        self.otherwise(each.otherwise, out)?;
        push(out, "{% endfor %}");
        Ok(())
    }

    fn otherwise(&mut self, nodes: &[Node], out: &mut String) -> Result<(), TemplateError> {
        if !nodes.is_empty() {
            push(out, "{% else %}");
            self.nodes(nodes, out)?;
        }
        Ok(())
    }

    /// A value; `lenient` when it may be missing.
    fn expr(&mut self, expr: &Expr, lenient: bool) -> Result<String, TemplateError> {
        Ok(match expr {
            Expr::Literal(value) => literal(value),
            Expr::Root(steps) => self.field(steps, lenient),
            Expr::Dot(steps) => match self.dots.last().cloned() {
                None => self.field(steps, lenient),
                Some(dot) => inside(&dot, steps, lenient),
            },
            Expr::Variable(name, steps) => {
                if !self.variables.contains(name) {
                    let message = format!("the variable `${name}` is not declared");
                    return Err(TemplateError::syntax(message));
                }
                inside(&format!("v_{name}"), steps, lenient)
            }
            Expr::Inside(expr, steps) => inside(&self.expr(expr, lenient)?, steps, lenient),
            Expr::Call(name, arguments) => {
                let is_lenient = LENIENT.contains(&name.as_str());
                let arguments = arguments.iter().map(|it| self.expr(it, is_lenient)).collect::<Result<Vec<_>, _>>()?;
                match name.as_str() {
                    "and" | "or" => format!("({})", arguments.join(&format!(" {name} "))),
                    "not" => format!("(not {})", arguments.join("")),
                    _ => format!("{name}({})", arguments.join(", ")),
                }
            }
        })
    }

    fn field(&mut self, steps: &[Step], lenient: bool) -> String {
        let field = Field { path: Path { steps: steps.to_vec() }, lenient };
        let at = self.fields.iter().position(|known| *known == field).unwrap_or_else(|| {
            self.fields.push(field);
            self.fields.len() - 1
        });
        format!("f{at}")
    }
}

fn push(out: &mut String, text: &str) {
    out.push_str(text);
}

/// Fields of a value that the engine has.
fn inside(value: &str, steps: &[Step], lenient: bool) -> String {
    if steps.is_empty() {
        return value.to_owned();
    }
    let function = if lenient { "field_or_none__" } else { "field__" };
    let mut out = format!("{function}({value}");
    for step in steps {
        match step {
            Step::Key(key) => out.push_str(&format!(", {}", literal(&Value::from(key.as_str())))),
            Step::Index(index) => {
                // Writing into a text cannot fail.
                let _ = write!(out, ", {index}");
            }
        }
    }
    out.push(')');
    out
}

/// A literal of the engine's language: JSON, but for nothing.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Number(number) if number.as_f64().is_some_and(|it| it < 0.0) => format!("({number})"),
        // JSON's escapes are the engine's, all but the one for the slash, which is never written.
        other => other.to_string(),
    }
}
