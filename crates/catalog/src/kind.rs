//! The kinds of definition, one row for each: where its files lie, who reads them, and what they are called. Reading,
//! comparing, watching, validating, writing, schemas and bundles follow this table. Not here: what a definition says.
//!
//! To add one: a row below, and its reader, a type with `impl Definition` in a module of its own. Its commands are a
//! row of `toolcrib/src/kind/rows.rs`, which a test asks for.

mod words;

/// Hands the table to the macro `$rows`. A row has the kind, its word, and its reader, then the member of the catalogue
/// that holds its definitions, what names and definitions are there, and the function that makes them of the folders.
/// The names of types and functions are those of the module that asks: this one must not know them.
macro_rules! definition_kinds {
    ($rows:ident) => {
        $rows! {
            /// What could become a server.
            Entry "entry" RegistryEntry => registry: ServerName => Available, registry::combine,
            {
                noun: "registry entry",
                title: "an entry of the registry",
                folder: "registry",
                folders: &["registry/official", "registry", "registry/custom"],
                words: words::ENTRY,
                samples: &[include_str!("schema/entry-stdio.yaml"), include_str!("schema/entry-http.yaml")],
                local: &["tools", "verified_at"],
            }
            /// A server that is called.
            Server "server" ServerDefinition => servers: ServerName => ServerDefinition, folder::combine,
            {
                noun: "server",
                title: "the definition of a server",
                folder: "servers",
                folders: &["servers"],
                aliases: &["server", "servers", "mcpserver", "mcpservers", "mcps"],
                document_folders: &["mcpservers", "servers"],
                words: words::SERVER,
                samples: &[
                    include_str!("schema/server-stdio.yaml"), include_str!("schema/server-http.yaml"),
                    include_str!("schema/server-login.yaml"), include_str!("schema/server-enterprise.yaml"),
                    include_str!("schema/server-workload.yaml"),
                ],
                local: &["tools", "verified_at"],
            }
            /// What one kind of client sees.
            Profile "profile" ProfileDefinition => profiles: ProfileName => ProfileDefinition, profile::combine,
            {
                noun: "profile",
                title: "the definition of a profile",
                folder: "profiles",
                folders: &["profiles"],
                aliases: &["profile", "profiles"],
                document_folders: &["profiles"],
                words: words::PROFILE,
                samples: &[include_str!("schema/profile.yaml")],
                local: &["keys"],
            }
            /// A language model that agents ask.
            Model "model" ModelDefinition => models: ObjectName => ModelDefinition, folder::combine,
            {
                noun: "model",
                title: "the definition of a model",
                folder: "models",
                folders: &["models"],
                aliases: &["model", "models"],
                document_folders: &["models"],
                words: words::MODEL,
                samples: &[include_str!("schema/model.yaml"), include_str!("schema/model-script.yaml")],
            }
            /// What works on a task with a model and tools.
            Agent "agent" AgentDefinition => agents: ObjectName => AgentDefinition, folder::combine,
            {
                noun: "agent",
                title: "the definition of an agent",
                folder: "agents",
                folders: &["agents"],
                aliases: &["agent", "agents"],
                document_folders: &["agents"],
                words: words::AGENT,
                samples: &[include_str!("schema/agent.yaml"), include_str!("schema/agent-configure.yaml")],
            }
            /// An MCP server with a credential, and what is decided of its tools.
            Connector "connector" ConnectorDefinition => connectors: ServerName => ConnectorDefinition, folder::combine,
            {
                noun: "connector",
                title: "the definition of a connector",
                folder: "connectors",
                folders: &["connectors"],
                aliases: &["connector", "connectors"],
                document_folders: &["connectors"],
                words: words::CONNECTOR,
                samples: &[
                    include_str!("schema/connector.yaml"), include_str!("schema/connector-bearer.yaml"),
                    include_str!("schema/connector-basic.yaml"), include_str!("schema/connector-header.yaml"),
                    include_str!("schema/connector-oauth2.yaml"),
                ],
            }
            /// What services are made of.
            ServiceClass "service-class" ServiceClassDefinition =>
                service_classes: ObjectName => ServiceClassDefinition, folder::combine,
            {
                noun: "service class",
                title: "the definition of a service class",
                folder: "service-classes",
                folders: &["service-classes"],
                aliases: &["serviceclass", "serviceclasses", "sc", "scs"],
                document_folders: &["serviceclasses", "service-classes"],
                words: words::SERVICE_CLASS,
                samples: &[
                    include_str!("schema/service-class.yaml"),
                    include_str!("schema/service-class-text.yaml"),
                    include_str!("schema/service-class-number.yaml"),
                    include_str!("schema/service-class-choice.yaml"),
                ],
            }
            /// An instance of a service class.
            Service "service" ServiceDefinition => services: ObjectName => ServiceDefinition, folder::combine,
            {
                noun: "service",
                title: "the definition of a service",
                folder: "services",
                folders: &["services"],
                aliases: &["service", "services", "svc", "svcs"],
                document_folders: &["services"],
                words: words::SERVICE,
                samples: &[include_str!("schema/service.yaml")],
            }
            /// A stored program of tool calls.
            Workflow "workflow" WorkflowDefinition => workflows: ObjectName => WorkflowDefinition, folder::combine,
            {
                noun: "workflow",
                title: "the definition of a workflow",
                folder: "workflows",
                folders: &["workflows"],
                aliases: &["workflow", "workflows", "wf", "wfs"],
                document_folders: &["workflows"],
                samples: &[include_str!("schema/workflow.yaml")],
                // Steps and conditions lie within each other, which what is made of a sample cannot say.
                schema: Some(include_str!("schema/workflow.json")),
            }
        }
    };
}
pub(crate) use definition_kinds;

/// What is known of one kind.
#[derive(Debug)]
pub(crate) struct Row {
    /// What it is called in messages.
    pub(crate) noun: &'static str,
    /// What its schema is called, without the folder.
    pub(crate) title: &'static str,
    /// Its folder below the home folder.
    pub(crate) folder: &'static str,
    /// The folders that are read; a later one stands in front of an earlier one, and the last one is written to.
    pub(crate) folders: &'static [&'static str],
    /// What the `kind` of a document or a person may call it, in lower case without dashes.
    pub(crate) aliases: &'static [&'static str],
    /// Folders, ours and muster's, in which documents are of this kind without saying so.
    pub(crate) document_folders: &'static [&'static str],
    /// What its schema says of each key.
    pub(crate) words: &'static [(&'static str, &'static str)],
    /// Texts that together have every key.
    pub(crate) samples: &'static [&'static str],
    /// Its schema where that is not made of the samples.
    pub(crate) schema: Option<&'static str>,
    /// Keys of one installation, which are in no bundle.
    pub(crate) local: &'static [&'static str],
}

/// What most rows have in common.
const ROW: Row = Row {
    noun: "",
    title: "",
    folder: "",
    folders: &[],
    aliases: &[],
    document_folders: &[],
    words: &[],
    samples: &[],
    schema: None,
    local: &[],
};

macro_rules! kinds {
    ($(
        $(#[$doc:meta])*
        $kind:ident $word:literal $reader:ty => $member:ident: $name:ty => $held:ty, $combine:path,
        { $($facts:tt)* }
    )+) => {
        /// What the file of a definition defines.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DefinitionKind {
            $($(#[$doc])* $kind,)+
        }

        impl DefinitionKind {
            /// Every kind, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];

            /// Its word, as commands take it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)+
                }
            }

            pub(crate) const fn row(self) -> &'static Row {
                match self {
                    $(Self::$kind => const { &Row { $($facts)* ..ROW } },)+
                }
            }
        }
    };
}
definition_kinds!(kinds);

// === impl DefinitionKind ===

impl DefinitionKind {
    /// Its folder below the home folder.
    pub fn folder(self) -> &'static str {
        self.row().folder
    }

    /// What it is called in messages, such as `service class`.
    pub fn noun(self) -> &'static str {
        self.row().noun
    }
}

impl std::fmt::Display for DefinitionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for DefinitionKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|kind| kind.as_str() == text).copied();
        found.ok_or_else(|| {
            let words: Vec<String> = Self::ALL.iter().map(|kind| format!("`{kind}`")).collect();
            let (last, others) = words.split_last().expect("there are kinds");
            format!("expected {} or {last}", others.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_kind_has_its_own_words_and_folders() {
        let mut owners: BTreeMap<&str, DefinitionKind> = BTreeMap::new();
        for kind in DefinitionKind::ALL {
            let row = kind.row();
            for word in row.aliases.iter().chain(row.folders).chain(row.document_folders) {
                let owner = owners.entry(word).or_insert(*kind);
                assert_eq!(owner, kind, "`{word}`");
            }
            assert_eq!(kind.to_string().parse(), Ok(*kind));
            assert!(!row.noun.is_empty() && !row.title.is_empty() && !row.folder.is_empty(), "{kind}");
            assert!(!row.samples.is_empty() && !row.folders.is_empty(), "{kind}");
        }
        let refused = "entries".parse::<DefinitionKind>().unwrap_err();
        assert_eq!(
            refused,
            "expected `entry`, `server`, `profile`, `model`, `agent`, `connector`, `service-class`, `service` or `workflow`"
        );
    }
}
