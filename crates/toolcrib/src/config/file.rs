//! `config.toml`: its text to known keys with their lines.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use toml::{Spanned, Value};
use toolcrib_base::nearest::similar;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{MASK, is_secret_value};

use super::{KEYS, ValueWithSource, audit, identity};

/// A settings file has some dozen lines; a larger one is something else.
const FILE_BYTES: u64 = 1 << 20;
/// Tables whose keys are keys of their own; `tls` may also be one word.
const TABLES: [&str; 5] = ["tls", "audit", "approvals", "runners", "update"];

/// The keys that the file sets; none when there is no file.
pub(super) fn read(path: &Path) -> Result<BTreeMap<&'static str, ValueWithSource>, Problem> {
    let text = match std::fs::File::open(path) {
        Ok(file) => {
            let mut text = String::new();
            let read = file.take(FILE_BYTES + 1).read_to_string(&mut text);
            read.map_err(|error| Problem::new(Kind::Definition, format!("cannot read `{}`: {error}", path.display())))?;
            text
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => {
            let problem = Problem::new(Kind::Definition, format!("cannot open `{}`: {error}", path.display()));
            return Err(problem.hint("check its owner and permissions, or use another home with `--home`"));
        }
    };
    if text.len() as u64 > FILE_BYTES {
        let message = format!("`{}` has more than {FILE_BYTES} bytes", path.display());
        return Err(Problem::new(Kind::Definition, message));
    }
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<BTreeMap<&'static str, ValueWithSource>, Problem> {
    let place = |offset: usize| format!("{}:{}", path.display(), line_of(text, offset));
    let entries: BTreeMap<Spanned<String>, Spanned<Value>> = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let message = format!("{}: {}", place(at), crate::text::line(error.message()));
        Problem::new(Kind::Definition, message).hint("write settings as TOML: `key = \"value\"`")
    })?;
    let mut known = BTreeMap::new();
    for (name, value) in entries {
        let place = place(name.span().start);
        let table = TABLES.into_iter().find(|table| table == name.get_ref());
        if let (Some(table), Value::Table(parts)) = (table, value.get_ref()) {
            for (part, value) in parts {
                let whole = format!("{table}.{part}");
                let is_secret = is_secret_value(part);
                let shown = if is_secret { format!("{table}.{MASK}") } else { whole.clone() };
                let key = names().find(|key| *key == whole).ok_or_else(|| unknown(&place, &shown))?;
                known.insert(key, ValueWithSource { value: value.clone(), place: place.clone() });
            }
            continue;
        }
        let Some(key) = names().find(|key| key == name.get_ref()) else {
            return Err(unknown(&place, name.get_ref()));
        };
        known.insert(key, ValueWithSource { value: value.into_inner(), place });
    }
    Ok(known)
}

/// What may stand at the top of the file.
fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name).chain([audit::LIST, identity::TABLE])
}

fn unknown(place: &str, name: &str) -> Problem {
    // A key that was pasted into the place of one may be a secret.
    let short = if is_secret_value(name) { MASK.to_owned() } else { name.chars().take(80).collect() };
    let names: Vec<&str> = names().collect();
    let hint = match similar(name, names.iter().copied()).first() {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known keys: {}", names.join(", ")),
    };
    Problem::new(Kind::Definition, format!("{place}: unknown key `{}`", crate::text::line(&short))).hint(hint)
}

/// The line of a byte, counted from 1.
fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}
