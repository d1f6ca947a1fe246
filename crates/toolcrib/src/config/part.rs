//! A table of `config.toml` that only the file can have: its keys, and errors that name them.

use toml::{Table, Value};
use toolcrib_base::nearest::similar;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::SecretRef;

/// A part of the table, with its name for errors.
pub(super) struct Part<'a> {
    pub(super) table: &'a Table,
    /// Such as `identity.issuer[0]`.
    pub(super) name: String,
    pub(super) place: &'a str,
}

// === impl Part ===

impl<'a> Part<'a> {
    /// A table with just these keys.
    pub(super) fn new(value: &'a Value, name: String, place: &'a str, keys: &[&str]) -> Result<Self, Problem> {
        let Some(table) = value.as_table() else {
            return Err(Problem::new(Kind::Definition, format!("{place}: `{name}`: expected a table")));
        };
        if let Some(unknown) = table.keys().find(|key| !keys.contains(&key.as_str())) {
            let shown: String = crate::text::line(unknown).chars().take(80).collect();
            let hint = match similar(unknown, keys.iter().copied()).first() {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", keys.join(", ")),
            };
            return Err(Problem::new(Kind::Definition, format!("{place}: unknown key `{name}.{shown}`")).hint(hint));
        }
        Ok(Self { table, name, place })
    }

    pub(super) fn wrong(&self, key: &str, expected: &str) -> Problem {
        Problem::new(Kind::Definition, format!("{}: `{}.{key}`: expected {expected}", self.place, self.name))
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, Problem> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "a text")),
        }
    }

    pub(super) fn required(&self, key: &str) -> Result<&'a str, Problem> {
        self.text(key)?.ok_or_else(|| {
            Problem::new(Kind::Definition, format!("{}: `{}` has no `{key}`", self.place, self.name))
                .hint(format!("add `{key}` to it"))
        })
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, Problem> {
        match self.table.get(key) {
            None => Ok(false),
            Some(Value::Boolean(flag)) => Ok(*flag),
            Some(_) => Err(self.wrong(key, "`true` or `false`")),
        }
    }

    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, Problem> {
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
        let texts = value
            .as_array()
            .and_then(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>());
        texts.ok_or_else(|| self.wrong(key, "a list of texts"))
    }

    pub(super) fn part(&self, key: &str, keys: &[&str]) -> Result<Option<Part<'a>>, Problem> {
        let value = self.table.get(key);
        value.map(|value| Part::new(value, format!("{}.{key}", self.name), self.place, keys)).transpose()
    }

    pub(super) fn parts(&self, key: &str, keys: &[&str]) -> Result<Vec<Part<'a>>, Problem> {
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
        let items = value.as_array().ok_or_else(|| self.wrong(key, "a list of tables"))?;
        let named = items.iter().enumerate();
        named.map(|(at, item)| Part::new(item, format!("{}.{key}[{at}]", self.name), self.place, keys)).collect()
    }

    /// A reference to a secret; the secret itself does not belong into the file.
    pub(super) fn secret(&self, key: &str, text: &str) -> Result<SecretRef, Problem> {
        match text.parse() {
            Ok(SecretRef::Literal(_) | SecretRef::User(_)) | Err(_) => {
                Err(self.wrong(key, "a reference such as `env:CLIENT_SECRET`, `file:PATH` or `vault:NAME`"))
            }
            Ok(reference) => Ok(reference),
        }
    }
}
