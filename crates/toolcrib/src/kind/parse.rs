//! Kinds on the command line: a word such as `service`, or `service/name` as `-o name` prints it.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::{Row, TABLE, Verb, named};

/// A kind that was typed, and the name behind it.
#[derive(Debug, Clone)]
pub(crate) struct KindSelection {
    pub(crate) row: &'static Row,
    pub(crate) name: Option<String>,
}

/// Reads a kind that a verb fits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KindParser(pub(crate) Verb);

// === impl KindSelection ===

impl KindSelection {
    /// What is meant: the name behind the kind and the others.
    pub(crate) fn names(&self, more: &[String]) -> Vec<String> {
        self.name.iter().chain(more).cloned().collect()
    }
}

impl TypedValueParser for KindParser {
    type Value = KindSelection;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let text = value.to_string_lossy();
        let (word, name) = match text.split_once('/') {
            Some((word, name)) if !name.is_empty() => (word, Some(name.to_owned())),
            _ => (&*text, None),
        };
        if let Some(row) = named(word).filter(|row| row.takes(self.0)) {
            return Ok(KindSelection { row, name });
        }
        let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
        if let Some(argument) = argument {
            error.insert(ContextKind::InvalidArg, ContextValue::String(argument.to_string()));
        }
        error.insert(ContextKind::InvalidValue, ContextValue::String(text.chars().take(80).collect()));
        error.insert(ContextKind::ValidValue, ContextValue::Strings(words(self.0)));
        Err(error)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let verb = self.0;
        let fitting = TABLE.iter().filter(move |row| row.takes(verb));
        Some(Box::new(fitting.map(move |row| {
            let (shown, other) = if verb == Verb::List { (row.many, row.one) } else { (row.one, row.many) };
            PossibleValue::new(shown).alias(other).aliases(row.aliases)
        })))
    }
}

/// The words that help shows for a verb.
fn words(verb: Verb) -> Vec<String> {
    let fitting = TABLE.iter().filter(|row| row.takes(verb));
    fitting.map(|row| if verb == Verb::List { row.many } else { row.one }.to_owned()).collect()
}
