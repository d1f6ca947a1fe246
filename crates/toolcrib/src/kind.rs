//! The kinds of things that a gateway has: one row for each, which says how it is called, which operation answers which
//! verb, and how it is shown.
//!
//! To add one: a [`Row`] in `kind/rows.rs` and a line in [`TABLE`]. Verbs, help, completion and errors read the table.
//! What a gateway has of a kind is read in `kind/listing.rs`. No command is known here.

pub(crate) mod listing;
mod parse;
pub(crate) mod rows;

use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::inventory::Listing;

use crate::output::table::Column;

pub(crate) use parse::{KindParser, KindSelection};

/// What can be done to a thing of some kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    List,
    Get,
    Create,
    Update,
    Delete,
    Start,
    Stop,
    Restart,
    Status,
    Check,
}

/// One kind.
#[derive(Debug)]
pub(crate) struct Row {
    /// The singular and the plural, as they are typed and as they are shown.
    pub(crate) one: &'static str,
    pub(crate) many: &'static str,
    /// What else may be typed.
    pub(crate) aliases: &'static [&'static str],
    /// Where the list comes from, and the member of the answer that holds the entries.
    pub(crate) source: Source,
    pub(crate) member: &'static str,
    /// The members of an entry that a name is compared with; the first is what verbs want.
    pub(crate) names: &'static [&'static str],
    /// The argument of the operations that takes a name.
    pub(crate) argument: &'static str,
    /// In which order a list is shown.
    pub(crate) order: Order,
    pub(crate) columns: &'static [Column],
    /// Lists inside one thing that are shown as their own tables: heading, member, columns.
    pub(crate) parts: &'static [(&'static str, &'static str, &'static [Column])],
    /// Members that only the wide format shows.
    pub(crate) details: &'static [&'static str],
    pub(crate) acts: &'static [(Verb, &'static str)],
}

/// Where a list comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// An operation, with its name.
    Operation(&'static str),
    /// A list of MCP.
    List(Listing),
    /// A file of the home.
    Contexts,
}

/// How a list is ordered by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// By the first column.
    FirstColumn,
    /// As the gateway gives it.
    AsGiven,
}

/// Every kind, in the order in which help shows them.
pub(crate) const TABLE: &[&Row] = &[
    &rows::TOOLS,
    &rows::SERVERS,
    &rows::PROFILES,
    &rows::RESOURCES,
    &rows::PROMPTS,
    &rows::MODELS,
    &rows::AGENTS,
    &rows::CONNECTORS,
    &rows::WORKFLOWS,
    &rows::EXECUTIONS,
    &rows::SERVICES,
    &rows::SERVICE_CLASSES,
    &rows::EVENTS,
    &rows::ENTRIES,
    &rows::SECRETS,
    &rows::CONTEXTS,
];

/// The kind of a word.
pub(crate) fn named(word: &str) -> Option<&'static Row> {
    let word = word.to_ascii_lowercase();
    let is_it = |row: &&&Row| row.one == word || row.many == word || row.aliases.contains(&word.as_str());
    TABLE.iter().find(is_it).copied()
}

// === impl Row ===

impl Row {
    /// The operation for a verb.
    pub(crate) fn act(&self, verb: Verb) -> Option<&'static str> {
        self.acts.iter().find(|(one, _)| *one == verb).map(|(_, operation)| *operation)
    }

    /// Whether a verb fits it.
    pub(crate) fn takes(&self, verb: Verb) -> bool {
        match verb {
            Verb::List => true,
            Verb::Get => true,
            Verb::Delete => self.act(verb).is_some() || matches!(self.source, Source::Contexts),
            _ => self.act(verb).is_some(),
        }
    }

    /// Reports a name that is not there where all of them can be seen.
    pub(crate) fn sought(&self, problem: Problem) -> Problem {
        let is_unknown = matches!(problem.kind, Kind::NotFound | Kind::UnknownTool);
        let is_open = is_unknown && problem.hint.is_none();
        if is_open { problem.hint(format!("see all with `toolcrib list {}`", self.many)) } else { problem }
    }

    /// Whether there may be so many that the gateway gives only the newest.
    pub(crate) fn is_endless(&self) -> bool {
        self.order == Order::AsGiven
    }

    /// Whether there is more to one of them than its entry in the list.
    pub(crate) fn has_more_than_listed(&self) -> bool {
        self.act(Verb::Get).is_some() || matches!(self.source, Source::List(_))
    }

    /// The plural as it is read: `workflow executions`.
    pub(crate) fn plural(&self) -> String {
        self.many.replace('-', " ")
    }

    /// The plural as a heading.
    pub(crate) fn plural_heading(&self) -> String {
        let plural = self.plural();
        let mut letters = plural.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
    }

    /// The singular as it is read.
    pub(crate) fn singular(&self) -> String {
        self.one.replace('-', " ")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use toolcrib_catalog::DefinitionKind;

    use super::*;

    #[test]
    fn every_word_means_one_kind() {
        let mut seen = BTreeSet::new();
        for row in TABLE {
            for word in [&[row.one, row.many], row.aliases].concat() {
                assert!(seen.insert(word), "`{word}` is there twice");
                assert_eq!(named(&word.to_uppercase()).map(|found| found.many), Some(row.many));
            }
            assert!(!row.columns.is_empty() && !row.names.is_empty(), "{}", row.many);
            assert!(row.columns.iter().any(|column| !column.wide));
        }
        for (word, many) in [
            ("mcpserver", "servers"),
            ("svc", "services"),
            ("sc", "serviceclasses"),
            ("wf", "workflows"),
            ("run", "workflow-executions"),
            ("ev", "events"),
        ] {
            assert_eq!(named(word).unwrap().many, many);
        }
        assert!(named("things").is_none());
    }

    #[test]
    fn every_kind_of_definition_has_a_row() {
        for kind in DefinitionKind::ALL {
            let row = named(kind.as_str()).unwrap_or_else(|| panic!("no row takes the word `{kind}`"));
            let of_folder = named(kind.folder()).map(|found| found.many);
            assert_eq!(of_folder, Some(row.many), "`{}` is the folder of `{kind}`", kind.folder());
            assert!(row.act(Verb::Get).is_some() && matches!(row.source, Source::Operation(_)), "{kind}");
        }
    }

    #[test]
    fn verbs_fit_what_they_can_be_done_to() {
        assert!(rows::SERVERS.takes(Verb::Restart) && !rows::TOOLS.takes(Verb::Delete));
        assert!(TABLE.iter().all(|row| row.takes(Verb::Get)) && !rows::EVENTS.takes(Verb::Create));
        assert!(rows::CONTEXTS.takes(Verb::Delete) && !rows::CONTEXTS.takes(Verb::Start));
    }
}
