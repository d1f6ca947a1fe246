//! The reader of each kind of definition, by the kind. Not here: what they read.

use crate::agent::AgentDefinition;
use crate::connector::ConnectorDefinition;
use crate::define::Definition;
use crate::entry::RegistryEntry;
use crate::kind::{DefinitionKind, definition_kinds};
use crate::model::ModelDefinition;
use crate::profile::ProfileDefinition;
use crate::reader::Cursor;
use crate::server::ServerDefinition;
use crate::service::ServiceDefinition;
use crate::service_class::ServiceClassDefinition;
use crate::workflow::WorkflowDefinition;

/// Reads what the file `stem.yaml` says: the name of what it defines. Whatever is wrong goes to the cursor's sink.
pub(crate) type Reader = fn(stem: &str, root: Cursor<'_>) -> Option<String>;

macro_rules! readers {
    ($(
        $(#[$doc:meta])*
        $kind:ident $word:literal $reader:ty => $member:ident: $name:ty => $held:ty, $combine:path,
        { $($facts:tt)* }
    )+) => {
        /// The reader of a kind.
        pub(crate) fn reader(kind: DefinitionKind) -> Reader {
            match kind {
                $(DefinitionKind::$kind => {
                    const { assert!(matches!(<$reader as Definition>::KIND, DefinitionKind::$kind)) };
                    |stem, root| <$reader>::read(stem, root).map(|definition| definition.name().to_string())
                })+
            }
        }
    };
}
definition_kinds!(readers);
