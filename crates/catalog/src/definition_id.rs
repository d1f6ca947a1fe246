//! Which definition is meant: its kind and its name. The name's type keeps its file inside its folder.

use std::path::{Path, PathBuf};

use serde_json::Value;
use toolcrib_base::id::IdError;
use toolcrib_base::{ProfileName, ServerName};

use crate::define;
use crate::folder::EXTENSIONS;
use crate::kind::{DefinitionKind, definition_kinds};
use crate::object_name::{ObjectName, ObjectNameError};
use crate::private::MASK;
use crate::problem::{DefinitionProblem, Sink};
use crate::readers::reader;
use crate::yaml;

/// The keys of a definition whose values may hold secrets.
const MASKED: [&str; 8] = ["env", "headers", "args", "url", "homepage", "auth", "keys", "canary_tokens"];

/// What is said of a text as a definition.
#[derive(Debug)]
pub struct DefinitionFindings {
    /// In the order of their places; empty when it is right.
    pub problems: Vec<DefinitionProblem>,
    /// Warnings about a valid definition.
    pub warnings: Vec<DefinitionProblem>,
}

/// Why a text is not the name of a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub enum DefinitionIdError {
    Name(#[from] IdError),
    Object(#[from] ObjectNameError),
}

macro_rules! ids {
    ($(
        $(#[$doc:meta])*
        $kind:ident $word:literal $reader:ty => $member:ident: $name:ty => $held:ty, $combine:path,
        { $($facts:tt)* }
    )+) => {
        /// A definition by its kind and name. Entries are those that people write here.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum DefinitionId {
            $($(#[$doc])* $kind($name),)+
        }

        impl DefinitionId {
            /// The definition of a kind by its name.
            ///
            /// # Errors
            /// The text is no name of that kind.
            pub fn new(kind: DefinitionKind, name: &str) -> Result<Self, DefinitionIdError> {
                match kind {
                    $(DefinitionKind::$kind => Ok(Self::$kind(<$name>::new(name)?)),)+
                }
            }

            /// The kind.
            pub fn kind(&self) -> DefinitionKind {
                match self {
                    $(Self::$kind(_) => DefinitionKind::$kind,)+
                }
            }

            /// The name.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$kind(name) => name.as_str(),)+
                }
            }
        }
    };
}
definition_kinds!(ids);

// === impl DefinitionId ===

impl DefinitionId {
    fn folder(&self) -> &'static str {
        self.kind().row().folders.last().expect("every kind has a folder")
    }

    pub(crate) fn file(&self, extension: &str) -> PathBuf {
        Path::new(self.folder()).join(format!("{}.{extension}", self.name()))
    }

    /// Where it would be written if it were new, relative to the home folder.
    pub fn new_file(&self) -> PathBuf {
        self.file(EXTENSIONS[0])
    }

    /// The text of a definition that is given as a value; its `name` is the one that it is to be known by.
    pub fn text_of(&self, definition: &Value) -> String {
        let mut named = serde_json::Map::new();
        named.insert("name".to_owned(), self.name().into());
        named.extend(definition.as_object().cloned().unwrap_or_default());
        yaml::render(&Value::Object(named))
    }

    /// What is wrong with a text as this definition.
    pub fn check(&self, text: &str) -> Result<(), Vec<DefinitionProblem>> {
        let file = self.new_file();
        let (name, findings) = define::read_into(Sink::new(&file), self.name(), text, reader(self.kind()));
        if name.is_none() {
            return Err(findings.problems);
        }
        // Anyone who sends back what was shown must not lose the values that were not.
        let is_masked =
            |value: &Value| MASKED.iter().any(|key| value.get(key).is_some_and(|it| it.to_string().contains(MASK)));
        if self.value(text).is_some_and(|value| is_masked(&value)) {
            let message = format!("expected values, got `{MASK}`, the placeholder of a hidden value");
            return Err(vec![
                DefinitionProblem::of_file(&file, message).hint("write the value or a reference such as `env:KEY`"),
            ]);
        }
        Ok(())
    }

    /// Everything that there is to say of a text as this definition, schemas of tools included.
    pub fn findings(&self, text: &str) -> DefinitionFindings {
        let file = Path::new(self.kind().folder()).join(format!("{}.{}", self.name(), EXTENSIONS[0]));
        let (_, findings) = define::read_into(Sink::thorough(&file), self.name(), text, reader(self.kind()));
        DefinitionFindings { problems: findings.problems, warnings: findings.warnings }
    }

    /// A text of this definition, made to say `value`, with its comments and its order kept where its form allows that.
    pub fn amended(&self, text: &str, value: &Value) -> String {
        let amended = match (self.value(text), value) {
            (Some(Value::Object(before)), Value::Object(after)) => {
                yaml::amend(text, &before, after, &|text| self.value(text))
            }
            _ => None,
        };
        amended.unwrap_or_else(|| yaml::render(value))
    }

    /// What a text says, secrets included; `None` when it is no YAML.
    pub fn value(&self, text: &str) -> Option<Value> {
        let sink = Sink::new(Path::new(self.folder()));
        let root = yaml::parse_into(text, &sink)?;
        Some(root.value())
    }
}
