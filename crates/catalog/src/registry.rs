//! All entries together: those inside of this program, and those of `registry/` and its folders, which stand in front
//! of each other in a fixed order. What is hidden in this way is reported, never silent.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use toolcrib_base::ServerName;

use crate::define;
use crate::entry::RegistryEntry;
use crate::folder::{Contents, Folder};
use crate::problem::DefinitionProblem;

/// What is inside of this program: the name of each and its text.
const BUILT_IN: [(&str, &str); 20] = [
    ("brave-search", include_str!("../registry/brave-search.yaml")),
    ("chrome-devtools", include_str!("../registry/chrome-devtools.yaml")),
    ("context7", include_str!("../registry/context7.yaml")),
    ("everything", include_str!("../registry/everything.yaml")),
    ("fetch", include_str!("../registry/fetch.yaml")),
    ("filesystem", include_str!("../registry/filesystem.yaml")),
    ("firecrawl", include_str!("../registry/firecrawl.yaml")),
    ("git", include_str!("../registry/git.yaml")),
    ("github", include_str!("../registry/github.yaml")),
    ("google-maps", include_str!("../registry/google-maps.yaml")),
    ("memory", include_str!("../registry/memory.yaml")),
    ("notion", include_str!("../registry/notion.yaml")),
    ("playwright", include_str!("../registry/playwright.yaml")),
    ("postgres", include_str!("../registry/postgres.yaml")),
    ("puppeteer", include_str!("../registry/puppeteer.yaml")),
    ("sentry", include_str!("../registry/sentry.yaml")),
    ("sequential-thinking", include_str!("../registry/sequential-thinking.yaml")),
    ("slack", include_str!("../registry/slack.yaml")),
    ("sqlite", include_str!("../registry/sqlite.yaml")),
    ("time", include_str!("../registry/time.yaml")),
];

static READ: LazyLock<BTreeMap<ServerName, Arc<Available>>> = LazyLock::new(|| {
    let entries = BUILT_IN.iter().filter_map(|(name, text)| {
        let entry = define::read::<RegistryEntry>(&Path::new("registry").join(format!("{name}.yaml")), name, text);
        let entry = Arc::new(entry.ok()?);
        Some((entry.name.clone(), Arc::new(Available { entry, origin: Origin::BuiltIn, shadows: Vec::new() })))
    });
    entries.collect()
});

/// An entry that counts, and what it hides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Available {
    pub entry: Arc<RegistryEntry>,
    pub origin: Origin,
    /// Entries of the same name that this one stands in front of, the nearest first.
    pub shadows: Vec<Origin>,
}

/// Where an entry comes from. Prints as `built in` or as the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    BuiltIn,
    /// Relative to the home folder.
    File(PathBuf),
}

/// The entries that are inside of this program.
pub fn built_in() -> &'static BTreeMap<ServerName, Arc<Available>> {
    &READ
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// What the folders come to: those inside of this program, and in front of them those of files.
pub(crate) fn combine(folders: &[Folder<RegistryEntry>]) -> Contents<ServerName, Available> {
    let contents = Contents { definitions: built_in().clone(), problems: Vec::new(), warnings: Vec::new() };
    let mut registry = Registry(contents);
    for folder in folders {
        registry.put_in_front(folder);
    }
    registry.0
}

/// The entries that count so far.
struct Registry(Contents<ServerName, Available>);

// === impl Registry ===

impl Registry {
    fn put_in_front(&mut self, folder: &Folder<RegistryEntry>) {
        self.0.problems.extend(folder.problems().cloned());
        self.0.warnings.extend(folder.warnings().cloned());
        let mut places: BTreeMap<&str, String> = BTreeMap::new();
        for (path, entry, at) in folder.counting() {
            let place = at.map_or_else(
                || path.display().to_string(),
                |at| format!("{}:{}:{}", path.display(), at.line, at.column),
            );
            if let Some(first) = places.get(entry.name.as_str()) {
                let message = format!("ignored: entry `{}` is already defined by `{first}`", entry.name);
                let problem =
                    DefinitionProblem { at, field: "name".to_owned(), ..DefinitionProblem::of_file(path, message) };
                self.0.problems.push(problem.hint("remove one of the two"));
                continue;
            }
            places.insert(entry.name.as_str(), place);
            let hidden = self.0.definitions.get(&entry.name);
            let shadows =
                hidden.map(|hidden| std::iter::once(&hidden.origin).chain(&hidden.shadows).cloned().collect());
            let available = Available {
                entry: Arc::clone(entry),
                origin: Origin::File(path.to_owned()),
                shadows: shadows.unwrap_or_default(),
            };
            self.0.definitions.insert(entry.name.clone(), Arc::new(available));
        }
        // The author of a file in front of an entry did not want that entry, also while the file is wrong.
        for (path, stem) in folder.bad() {
            if let Some(hidden) = self.0.definitions.get(stem).filter(|_| !places.contains_key(stem)) {
                let message = format!("is invalid, and hides the entry `{stem}` ({})", hidden.origin);
                self.0.problems.push(DefinitionProblem::of_file(path, message).hint("fix it or remove it"));
                self.0.definitions.remove(stem);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_entries_are_right_and_lack_nothing() {
        for (name, text) in BUILT_IN {
            let file = PathBuf::from(format!("registry/{name}.yaml"));
            let (entry, findings) = define::read_all::<RegistryEntry>(&file, name, text);
            assert!(findings.problems.is_empty() && findings.warnings.is_empty(), "{findings:#?}");
            let entry = entry.unwrap();
            assert_eq!(entry.source, crate::Source::Official);
            let tags: std::collections::BTreeSet<_> = entry.tags.iter().collect();
            assert_eq!(tags.len(), entry.tags.len());
        }
        assert_eq!(built_in().len(), BUILT_IN.len());
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("registry");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), BUILT_IN.len());
    }
}
