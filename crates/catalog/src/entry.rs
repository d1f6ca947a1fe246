//! A registry entry: a server that could be configured. Ours are YAML, `registry/<name>.yaml`; JSON files are read in
//! the form of MCP Scooter, in [`scooter`].

mod authorization;
mod configure;
mod rate;
mod runtime;
mod scooter;
mod value;

use std::collections::BTreeMap;
use std::path::Path;

use toolcrib_base::ServerName;

use crate::define::{self, Definition, OpaqueValue};
use crate::endpoint::Link;
use crate::kind::DefinitionKind;
use crate::reader::{Cursor, Fields, choice};
use crate::server::{self, ToolText};

pub use authorization::{Authorization, AuthorizationKind, Variable};
pub use configure::{Answers, ConfigureError, NewDefinition};
pub use runtime::{Reach, Runtime};

/// A server that could be configured: what it is, what it needs, how it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryEntry {
    /// Also the name of the server that it becomes unless someone names another.
    pub name: ServerName,
    pub version: Option<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    pub category: Option<String>,
    pub source: Source,
    pub tags: Vec<String>,
    /// What people say who want its tools: searches find the tools by it, also those of a server that someone defined
    /// otherwise, if it is recognised.
    pub keywords: Vec<String>,
    /// Further packages and images that are this server.
    pub aliases: Vec<String>,
    /// A word, a path or an address.
    pub icon: Option<String>,
    /// Markdown.
    pub about: Option<String>,
    pub homepage: Option<Link>,
    pub repository: Option<Link>,
    pub documentation: Option<Link>,
    pub authorization: Authorization,
    /// `None`: known of, but no one said how it runs.
    pub runtime: Option<Runtime>,
    pub package: Option<Package>,
    /// What tools are called now that had another name before: old and new.
    pub renamed: BTreeMap<String, String>,
    /// What it offered when it was looked at last.
    pub tools: Vec<ToolText>,
    /// When that was, as written.
    pub verified_at: Option<String>,
    /// A map of anything else that someone wants to note.
    pub metadata: Option<OpaqueValue>,
}

choice! {
    /// Who stands behind an entry.
    Source {
        /// It comes with this program, or its author says that the server's maker wrote it.
        Official = "official",
        Community = "community",
        Enterprise = "enterprise",
        Local = "local",
        /// Written here.
        Custom = "custom",
    }
}

choice! {
    /// Where a package comes from.
    PackageKind {
        Npm = "npm",
        Pypi = "pypi",
        Cargo = "cargo",
        Docker = "docker",
        Wasm = "wasm",
        Binary = "binary",
    }
}

/// The package that `runtime` runs. For people: it is `runtime` that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    pub kind: PackageKind,
    /// The name in its registry, or the image.
    pub name: String,
    pub version: Option<String>,
}

impl RegistryEntry {
    /// The host that its server is reached at, where that is an address.
    pub fn host(&self) -> Option<String> {
        match &self.runtime.as_ref()?.reach {
            Reach::Http { url, .. } => crate::endpoint::host(url),
            Reach::Stdio { .. } => None,
        }
    }
}

impl Definition for RegistryEntry {
    const KIND: DefinitionKind = DefinitionKind::Entry;
    type Name = ServerName;

    fn name(&self) -> &ServerName {
        &self.name
    }

    fn read(stem: &str, root: Cursor<'_>) -> Option<Self> {
        if root.file().extension().is_some_and(|extension| extension == "json") {
            return scooter::read(stem, root);
        }
        let file = root.file();
        let fields = root.fields()?;
        let name = define::name(&fields, stem, ServerName::new);
        let authorization = fields.get("authorization").and_then(authorization::read).unwrap_or_default();
        let entry = RegistryEntry {
            // Read even when the name is wrong, so that all problems are reported at once.
            name: name.clone().or_else(|| ServerName::new("unnamed").ok())?,
            version: fields.text("version"),
            title: fields.text("title"),
            description: fields.text("description"),
            category: fields.text("category"),
            source: fields.get("source").and_then(|cursor| cursor.choice()).unwrap_or_else(|| source_of(file)),
            tags: fields.texts("tags"),
            keywords: fields.texts("keywords"),
            aliases: fields.texts("aliases"),
            icon: fields.text("icon"),
            about: fields.text("about"),
            homepage: fields.get("homepage").and_then(|cursor| link(&cursor)),
            repository: fields.get("repository").and_then(|cursor| link(&cursor)),
            documentation: fields.get("documentation").and_then(|cursor| link(&cursor)),
            runtime: fields.get("runtime").and_then(|cursor| runtime::read(cursor, &authorization)),
            authorization,
            package: fields.get("package").and_then(package),
            renamed: fields.get("renamed").map(|cursor| server::labels(&cursor)).unwrap_or_default(),
            tools: fields.get("tools").map(|cursor| server::tools(&cursor)).unwrap_or_default(),
            verified_at: fields.text("verified_at"),
            metadata: fields.get("metadata").and_then(|cursor| metadata(&cursor)),
        };
        warn_of_gaps(&fields, &entry);
        fields.finish();
        name.map(|_| entry)
    }
}

/// The source of an entry that says none: the folder it lies in.
fn source_of(file: &Path) -> Source {
    let folder = file.parent().and_then(|folder| folder.file_name());
    if folder.is_some_and(|folder| folder == "official") { Source::Official } else { Source::Custom }
}

/// Warns of what people and searches will miss.
fn warn_of_gaps(fields: &Fields<'_>, entry: &RegistryEntry) {
    let gaps = [
        ("title", entry.title.is_none(), "what people call it"),
        ("description", entry.description.is_none(), "what it is for: searches look here"),
        ("category", entry.category.is_none(), "the group that it is listed in"),
        ("icon", entry.icon.is_none(), "a word, a path or an address"),
        ("about", entry.about.is_none(), "a few lines of Markdown for people who consider it"),
        ("homepage", entry.homepage.is_none(), "an address such as `https://example.com`"),
        (
            "runtime",
            entry.runtime.is_none() && !fields.has("runtime"),
            "how it runs: without it nothing can be configured",
        ),
    ];
    for (key, _, hint) in gaps.iter().filter(|(_, is_missing, _)| *is_missing) {
        fields.warn(key, "is missing", Some((*hint).to_owned()));
    }
}

pub(crate) fn link(cursor: &Cursor<'_>) -> Option<Link> {
    let text = cursor.text()?;
    cursor.fits(server::ADDRESS_PATTERN);
    let link = text.parse();
    link.map_err(|error: crate::EndpointError| {
        cursor.problem(format!("{error}, got {}", cursor.describe()), None);
    })
    .ok()
}

fn package(cursor: Cursor<'_>) -> Option<Package> {
    let fields = cursor.fields()?;
    let kind = fields.require("type", "where the package comes from", "add a line such as `type: npm`".to_owned());
    let name = fields.require("name", "the package's name", "add its `name`".to_owned());
    let version = fields.text("version");
    fields.finish();
    Some(Package { kind: kind?.choice()?, name: name?.word("the package's name")?, version })
}

fn metadata(cursor: &Cursor<'_>) -> Option<OpaqueValue> {
    // Whatever its keys are.
    cursor.map(|_, _| Some(()));
    cursor.node().is_map().then(|| OpaqueValue::of_json(cursor.json()))
}

#[cfg(test)]
mod tests;
