//! The functions of templates: those of Go and of sprig that are pure and bounded.
//!
//! To add one: a row in the file it belongs to in `function/`. Nothing here reads the machine's clock, chance, the
//! environment or a file: a run that is resumed renders the same texts again.

pub(super) mod clock;
mod json;
mod list;
mod logic;
mod number;
mod printf;
mod text;

use minijinja::{Error, ErrorKind, Value as Cell};
use toolcrib_base::nearest::similar;

use super::engine::write;
use super::limit::Text;

/// How many items functions that count make at most.
pub(super) const COUNT_MAX: usize = 10_000;

type Run = fn(&[Cell]) -> Result<Cell, Error>;

/// One function.
pub(super) struct Row {
    pub(super) name: &'static str,
    least: usize,
    most: usize,
    pub(super) run: Run,
}

const MANY: usize = usize::MAX;

const fn row(name: &'static str, least: usize, most: usize, run: Run) -> Row {
    Row { name, least, most, run }
}

/// Every function, in the order of the files.
pub(super) static ROWS: std::sync::LazyLock<Vec<&'static Row>> = std::sync::LazyLock::new(|| {
    [text::ROWS, number::ROWS, logic::ROWS, list::ROWS, json::ROWS, clock::ROWS].into_iter().flatten().collect()
});

/// Filters of Jinja's language in place of the engine's own, the value first.
pub(super) const FILTERS: &[(&str, Run)] = &[
    ("replace", |a| text::replace_in(&text_of(at(a, 0)?)?, &text_of(at(a, 1)?)?, &text_of(at(a, 2)?)?)),
    ("join", |a| list::join_with(&a.get(1).map_or(Ok(String::new()), text_of)?, at(a, 0)?)),
    ("indent", |a| text::indent_by(number::count(at(a, 1)?)?, &text_of(at(a, 0)?)?)),
    ("tojson", |a| json::to_json_text(at(a, 0)?)),
    ("fromjson", |a| json::from_json(at(a, 0)?)),
    ("quote", |a| text::quote(a)),
    ("splitlist", |a| list::split_list(&text_of(at(a, 1)?)?, &text_of(at(a, 0)?)?)),
];

/// Words of Go that are operators of the engine.
const OPERATORS: [(&str, usize, usize); 3] = [("and", 1, MANY), ("or", 1, MANY), ("not", 1, 1)];

/// Functions of sprig that there are not, on purpose, with the reason.
const REFUSED: [(&[&str], &str); 3] = [
    (
        &[
            "randAlpha",
            "randAlphaNum",
            "randAscii",
            "randBytes",
            "randInt",
            "randNumeric",
            "shuffle",
            "uuidv4",
            "htpasswd",
            "bcrypt",
            "genCA",
            "genPrivateKey",
            "genSelfSignedCert",
            "genSignedCert",
        ],
        "is random, but a resumed run must render the same text: pass the value as an argument",
    ),
    (&["env", "expandenv"], "reads the environment, which templates cannot access: pass the value as an argument"),
    (&["getHostByName"], "uses the network, which templates cannot access: pass the value as an argument"),
];

fn refused(name: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(names, _)| names.contains(&name)).map(|(_, why)| *why)
}

/// Whether a function takes so many arguments; else what is wrong.
pub(super) fn accepts(name: &str, count: usize) -> Result<(), String> {
    let operator = OPERATORS.iter().find(|(known, ..)| *known == name).map(|(_, least, most)| (*least, *most));
    let row = || ROWS.iter().find(|row| row.name == name).map(|row| (row.least, row.most));
    if let Some(why) = refused(name) {
        return Err(format!("function `{name}` is not available: it {why}"));
    }
    let Some((least, most)) = operator.or_else(row) else {
        let names = similar(name, ROWS.iter().map(|row| row.name));
        let hint = if names.is_empty() { String::new() } else { format!(" (did you mean {}?)", names.join(", ")) };
        return Err(format!("no function `{name}`{hint}"));
    };
    if (least..=most).contains(&count) {
        return Ok(());
    }
    let expected = match most {
        most if most == least => format!("{least}"),
        MANY => format!("at least {least}"),
        most => format!("{least} to {most}"),
    };
    Err(format!("`{name}` takes {expected} values, got {count}"))
}

/// One argument; how many there are was checked when the template was read, but for Jinja's.
fn at(arguments: &[Cell], index: usize) -> Result<&Cell, Error> {
    arguments.get(index).ok_or_else(|| failed(format!("expected at least {} values", index + 1)))
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// A value as text.
fn text_of(value: &Cell) -> Result<String, Error> {
    if value.is_none() || value.is_undefined() {
        return Ok(String::new());
    }
    let mut text = Text::default();
    write(value, &mut text)?;
    Ok(text.into_string())
}

/// A text within bounds.
fn made(text: String) -> Result<Cell, Error> {
    if text.len() > super::limit::TEXT_BYTES {
        return Err(too_long());
    }
    Ok(Cell::from(text))
}

fn too_long() -> Error {
    super::engine::caused(super::limit::too_long())
}
