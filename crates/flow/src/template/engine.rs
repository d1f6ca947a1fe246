//! The engine that runs what is more than bare fields: MiniJinja, with bounds and with our own functions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use minijinja::value::{Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Expression, Output, State, UndefinedBehavior, Value as Cell};
use serde_json::Value;

use super::context::Context;
use super::error::{Fault, TemplateError, shown};
use super::limit::{self, Bytes, FUEL, Text};
use super::path::{Path, lacks};
use super::{function, typed};

/// Filters of the engine that we do not have, or have with bounds.
const REMOVED: [&str; 13] = [
    "replace",
    "join",
    "indent",
    "batch",
    "slice",
    "pprint",
    "urlencode",
    "safe",
    "escape",
    "e",
    "format",
    "tojson",
    "chain",
];

/// The engine with everything that templates may use.
static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(engine);

/// A field of the root that a program uses, as `f0`, `f1` and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) path: Path,
    /// Whether it may be missing.
    pub(super) lenient: bool,
}

/// A template that needs the engine.
pub(super) struct Program {
    code: Code,
    uses: Inputs,
}

enum Code {
    /// One value, which keeps its type when it is a list or a map; always when `keeps`.
    Expression {
        code: Expression<'static, 'static>,
        keeps: bool,
    },
    Template(Arc<Environment<'static>>),
}

/// What a program is given.
enum Inputs {
    Fields(Vec<Field>),
    /// Members of the root by their names.
    Roots(Vec<String>),
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Program")
    }
}

// === impl Program ===

impl Program {
    /// One value of Go's language.
    pub(super) fn expression(source: String, fields: Vec<Field>, keeps: bool) -> Result<Self, TemplateError> {
        let code = ENGINE.compile_expression_owned(source).map_err(|error| syntax(&error))?;
        Ok(Self { code: Code::Expression { code, keeps }, uses: Inputs::Fields(fields) })
    }

    /// A text of Go's language.
    pub(super) fn template(source: String, fields: Vec<Field>) -> Result<Self, TemplateError> {
        Ok(Self { code: Code::Template(owned(source)?), uses: Inputs::Fields(fields) })
    }

    /// One value of Jinja's language.
    pub(super) fn jinja_expression(source: String, keeps: bool) -> Result<Self, TemplateError> {
        let code = ENGINE.compile_expression_owned(source).map_err(|error| syntax(&error))?;
        let roots = code.undeclared_variables(false).into_iter().collect();
        Ok(Self { code: Code::Expression { code, keeps }, uses: Inputs::Roots(roots) })
    }

    /// A text of Jinja's language.
    pub(super) fn jinja_template(source: String) -> Result<Self, TemplateError> {
        let owner = owned(source)?;
        let code = owner.get_template("t").map_err(|error| syntax(&error))?;
        let roots = code.undeclared_variables(false).into_iter().collect();
        Ok(Self { code: Code::Template(owner), uses: Inputs::Roots(roots) })
    }

    /// The fields of Go's language that must be there.
    pub(super) fn fields(&self) -> impl Iterator<Item = &Path> {
        let fields = match &self.uses {
            Inputs::Fields(fields) => fields.as_slice(),
            Inputs::Roots(_) => &[],
        };
        fields.iter().filter(|field| !field.lenient).map(|field| &field.path)
    }

    pub(super) fn render(&self, context: &Context, text: &str) -> Result<Value, TemplateError> {
        let given = self.given(context, text);
        match &self.code {
            Code::Expression { code, keeps } => {
                let value = code.eval(given).map_err(|error| self.failed(&error, text))?;
                result(&value, *keeps).map_err(|error| self.failed(&error, text))
            }
            Code::Template(owner) => {
                let mut out = Bytes(Vec::new());
                let code = owner.get_template("t").map_err(|error| syntax(&error))?;
                code.render_captured_to(given, &mut out).map_err(|error| self.failed(&error, text))?;
                Ok(typed(String::from_utf8_lossy(&out.0).into_owned()))
            }
        }
    }

    fn given(&self, context: &Context, text: &str) -> Cell {
        let given: BTreeMap<String, Cell> = match &self.uses {
            Inputs::Fields(fields) => {
                let bind = |(index, field): (usize, &Field)| {
                    let value = match context.cell(&field.path) {
                        Ok(cell) => cell,
                        Err(_) if field.lenient => Cell::from(()),
                        // Told when it is used, which it may never be.
                        Err(missing) => {
                            let error = missing.into_error(text);
                            let told = Error::new(ErrorKind::UndefinedError, error.message().to_owned());
                            Cell::from(told.with_source(error))
                        }
                    };
                    (format!("f{index}"), value)
                };
                fields.iter().enumerate().map(bind).collect()
            }
            Inputs::Roots(roots) => {
                roots.iter().filter_map(|root| Some((root.clone(), context.root_cell(root)?))).collect()
            }
        };
        Cell::from(given)
    }

    /// An error of the engine in our words.
    fn failed(&self, error: &Error, text: &str) -> TemplateError {
        // What a field or a function said is the innermost of it all.
        let mut cause: Option<&dyn std::error::Error> = Some(error);
        while let Some(inner) = cause {
            if let Some(own) = inner.downcast_ref::<TemplateError>() {
                return own.clone();
            }
            cause = inner.source();
        }
        let within = |message: String| format!("{message} (in `{}`)", shown(text.trim()));
        match error.kind() {
            ErrorKind::OutOfFuel => {
                TemplateError::new(Fault::TooMuch, within("the template exceeds the limit of steps".to_owned()))
            }
            ErrorKind::WriteFailure => limit::too_long(),
            ErrorKind::UndefinedError => {
                let span = error.range().and_then(|range| error.template_source()?.get(range));
                let name = span.unwrap_or("a field").trim_matches(|c: char| matches!(c, '{' | '}' | ' ')).to_owned();
                let key = name.rsplit(['.', '[']).next().unwrap_or(&name).trim_matches([']', '"', '\'']).to_owned();
                TemplateError::new(Fault::Missing(key), within(format!("no `{name}`")))
            }
            _ => {
                let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
                TemplateError::new(Fault::Failed, within(detail))
            }
        }
    }
}

fn owned(source: String) -> Result<Arc<Environment<'static>>, TemplateError> {
    let mut owner = ENGINE.clone();
    owner.add_template_owned("t", source).map_err(|error| syntax(&error))?;
    Ok(Arc::new(owner))
}

fn syntax(error: &Error) -> TemplateError {
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    TemplateError::syntax(format!("not a template: {detail}"))
}

/// What an expression gives.
fn result(value: &Cell, keeps: bool) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => to_json(value),
        _ if keeps => to_json(value),
        _ => {
            let mut text = Text::default();
            write(value, &mut text)?;
            Ok(typed(text.into_string()))
        }
    }
}

/// A value of the engine as JSON, within bounds.
pub(super) fn to_json(value: &Cell) -> Result<Value, Error> {
    let mut bytes = Bytes(Vec::new());
    serde_json::to_writer(&mut bytes, value).map_err(|_| caused(limit::too_long()))?;
    limit::work(bytes.0.len()).map_err(caused)?;
    serde_json::from_slice(&bytes.0).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

/// A value of the engine as text, within bounds.
pub(super) fn write(value: &Cell, out: &mut Text) -> Result<(), Error> {
    let written = match value.as_str() {
        Some(text) => out.push(text),
        None => limit::show(&to_json(value)?, out),
    };
    written.map_err(caused)
}

/// An error of ours as one of the engine.
pub(super) fn caused(error: TemplateError) -> Error {
    let kind = match error.fault {
        Fault::Missing(_) => ErrorKind::UndefinedError,
        _ => ErrorKind::InvalidOperation,
    };
    Error::new(kind, error.message().to_owned()).with_source(error)
}

fn engine() -> Environment<'static> {
    let mut engine = Environment::new();
    for name in REMOVED {
        engine.remove_filter(name);
    }
    for name in ["debug", "dict", "namespace"] {
        engine.remove_global(name);
    }
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_keep_trailing_newline(true);
    engine.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    engine.set_fuel(Some(FUEL));
    engine.set_debug(true);
    engine.set_recursion_limit(limit::DEPTH * 2);
    engine.set_formatter(|out, _, value| {
        if value.is_undefined() {
            return Ok(());
        }
        let mut text = Text::default();
        write(value, &mut text)?;
        Output::write_str(out, &text.into_string()).map_err(Error::from)
    });
    for row in function::ROWS.iter() {
        let (run, looks) = (row.run, looks(row.name));
        engine.add_function(row.name, move |arguments: Rest<Cell>| counted(run, looks, &arguments));
    }
    // As filters they take the value last, as they do behind Go's `|`. Jinja's own filters of the same name stay.
    let own: Vec<&str> = function::ROWS.iter().map(|row| row.name).filter(|name| !is_filter(&engine, name)).collect();
    for row in function::ROWS.iter().filter(|row| own.contains(&row.name)) {
        let (run, looks) = (row.run, looks(row.name));
        engine.add_filter(row.name, move |arguments: Rest<Cell>| {
            let mut arguments = arguments.0;
            let turns = usize::from(!arguments.is_empty());
            arguments.rotate_left(turns);
            counted(run, looks, &arguments)
        });
    }
    for (name, run) in function::FILTERS {
        let run = *run;
        engine.add_filter(*name, move |arguments: Rest<Cell>| counted(run, false, &arguments));
    }
    count_own_filters(&mut engine);
    engine.add_function("field__", |arguments: Rest<Cell>| field(&arguments));
    engine.add_function("field_or_none__", |arguments: Rest<Cell>| {
        Ok::<_, Error>(field(&arguments).unwrap_or_else(|_| Cell::from(())))
    });
    engine.add_function("pairs__", |arguments: Rest<Cell>| pairs(arguments.first()));
    engine.add_function("if_any__", |arguments: Rest<Cell>| {
        let some = arguments.iter().filter(|value| value.is_true());
        Cell::from(some.map(|value| Cell::from(vec![Cell::from(()), value.clone()])).collect::<Vec<_>>())
    });
    engine
}

fn is_filter(engine: &Environment<'_>, name: &str) -> bool {
    engine
        .compile_expression_owned(format!("1 | {name}"))
        .is_ok_and(|code| !matches!(code.eval(()), Err(error) if error.kind() == ErrorKind::UnknownFilter))
}

/// The engine's own filters that go through all of a value, under their names with what they go through counted.
fn count_own_filters(engine: &mut Environment<'static>) {
    use minijinja::filters;
    macro_rules! count {
        ($($name:ident)*) => {
            $(engine.add_filter(concat!(stringify!($name), "__"), filters::$name);)*
            $(engine.add_filter(stringify!($name), |state: &State<'_, '_>, arguments: Rest<Cell>| {
                charge(&arguments)?;
                state.apply_filter(concat!(stringify!($name), "__"), &arguments)
            });)*
        };
    }
    count!(sort unique dictsort groupby map select reject selectattr rejectattr list items reverse sum min max zip);
    count!(upper lower title capitalize trim split lines string);
}

/// Whether a function only looks at what it is given, however large that is.
fn looks(name: &str) -> bool {
    const LOOKING: [&str; 12] =
        ["len", "index", "get", "hasKey", "dig", "default", "coalesce", "empty", "ternary", "kindOf", "kindIs", "list"];
    LOOKING.contains(&name)
}

/// Counts what a function goes through: what it is given, unless it only looks, and what it gives.
fn counted(run: fn(&[Cell]) -> Result<Cell, Error>, looks: bool, arguments: &[Cell]) -> Result<Cell, Error> {
    if !looks {
        charge(arguments)?;
    }
    bounded(run(arguments)?)
}

fn charge(arguments: &[Cell]) -> Result<(), Error> {
    let weight = |value: &Cell| value.as_str().map_or_else(|| value.len().unwrap_or(0) * 8, str::len);
    limit::work(arguments.iter().map(weight).sum::<usize>() + 16).map_err(caused)
}

/// Refuses what grew too large, so that nothing can grow from it.
fn bounded(value: Cell) -> Result<Cell, Error> {
    fn weigh(value: &Cell, left: &mut usize) -> Option<()> {
        *left = left.checked_sub(1)?;
        match value.kind() {
            ValueKind::String | ValueKind::Bytes => {
                *left = left.checked_sub(value.as_str().map_or(0, str::len) * limit::VALUES / limit::TEXT_BYTES)?;
            }
            ValueKind::Seq | ValueKind::Iterable => {
                value.try_iter().ok()?.try_for_each(|item| weigh(&item, left))?;
            }
            ValueKind::Map => {
                for key in value.try_iter().ok()? {
                    weigh(&value.get_item(&key).ok()?, left)?;
                }
            }
            _ => {}
        }
        Some(())
    }
    let mut left = limit::VALUES;
    match weigh(&value, &mut left) {
        Some(()) => limit::work((limit::VALUES - left) * 8).map(|()| value).map_err(caused),
        None => Err(caused(TemplateError::new(Fault::TooMuch, "the template creates a value that is too large"))),
    }
}

/// The field of a value that is not the root.
fn field(arguments: &[Cell]) -> Result<Cell, Error> {
    let Some((first, steps)) = arguments.split_first() else { return Ok(Cell::UNDEFINED) };
    let mut at = first.clone();
    for step in steps {
        let next = match (at.kind(), step.as_str().and_then(|text| text.parse::<usize>().ok())) {
            (ValueKind::Seq | ValueKind::Iterable, Some(index)) => at.get_item_by_index(index)?,
            _ => at.get_item(step)?,
        };
        if next.is_undefined() {
            let key = step.as_str().map_or_else(|| step.to_string(), str::to_owned);
            let message = lacks(".", &key, &to_json(&at).unwrap_or_default());
            return Err(caused(TemplateError::new(Fault::Missing(key), message)));
        }
        at = next;
    }
    Ok(at)
}

/// What `range` goes over: items with their places, members with their keys, or so many numbers.
fn pairs(over: Option<&Cell>) -> Result<Cell, Error> {
    let over = over.cloned().unwrap_or_default();
    let pair = |key: Cell, value: Cell| Cell::from(vec![key, value]);
    let pairs: Vec<Cell> = match over.kind() {
        ValueKind::None => Vec::new(),
        ValueKind::Map => {
            let mut keys: Vec<Cell> = over.try_iter()?.collect();
            keys.sort();
            keys.into_iter().map(|key| Ok(pair(key.clone(), over.get_item(&key)?))).collect::<Result<_, Error>>()?
        }
        ValueKind::Seq | ValueKind::Iterable => {
            over.try_iter()?.enumerate().map(|(at, item)| pair(Cell::from(at), item)).collect()
        }
        ValueKind::Number => {
            let count = over.as_usize().unwrap_or(usize::MAX);
            if count > function::COUNT_MAX {
                let message = format!("`range` over {over}: at most {} iterations", function::COUNT_MAX);
                return Err(caused(TemplateError::new(Fault::TooMuch, message)));
            }
            (0..count).map(|at| pair(Cell::from(at), Cell::from(at))).collect()
        }
        kind => {
            let message = format!("`range` goes over lists and maps, this is a {kind}");
            return Err(caused(TemplateError::new(Fault::Failed, message)));
        }
    };
    Ok(Cell::from(pairs))
}
