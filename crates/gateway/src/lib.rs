//! What the gateway itself can do: meta-tools and operations, what callers have loaded, verification and approval, and how
//! it is put together. Calls take the path of the crate `call`; what profiles show is in `view`.
//!
//! From below to above:
//!
//! | modules | own |
//! |---|---|
//! | `active`, `learning`, `examples`, `verification`, `configuration`, `vault`, `clients`, `object_events`, `advice`, `embed` | one piece of what the gateway keeps; know no [`Gateway`] |
//! | [`gateway`] | all of it in one value, new definitions and views |
//! | `builder`, `approval_events`, `upkeep`, `active_sets`, [`approval`], [`verify`], `configure`, `install`, `explain`, `search`, `economy` | one thing that is done with it |
//! | `meta`, `operation` | one file for each meta-tool and group of operations |
//! | [`request`], `operate`, [`front`], [`duplex`] | what doors call |
//!
//! Knows no door: who listens on HTTP or stdio calls in from above.

pub mod active;
mod active_sets;
mod advice;
pub mod approval;
mod approval_events;
mod builder;
mod callers;
mod canaries;
mod clients;
mod configuration;
mod configure;
pub mod duplex;
mod economy;
mod embed;
mod entry_runs;
mod examples;
mod explain;
pub mod front;
pub mod gateway;
mod install;
mod learning;
mod meta;
mod news;
mod object_events;
mod operate;
mod operation;
mod policies;
mod profile_preview;
pub mod request;
mod routing;
mod search;
mod server_logs;
mod ui_mode;
mod upkeep;
mod vault;
mod verification;
pub mod verify;

pub use builder::GatewayBuilder;
pub use clients::{
    CandidateState, ClientEdit, ClientState, EditAction, EditClients, EditPreview, EditReport, FoundClient,
    ImportAnswers, ImportCandidate, ImportPreview, ImportQuestion, ImportedServer, WantedImport,
};
pub use configuration::KeepSettings;
pub use duplex::Duplex;
pub use gateway::Gateway;
pub use object_events::ObjectEvent;
pub use operate::OperationRound;
pub use operation::secrets::SecretRotation;
pub use operation::{ServerOrder, in_same_write_scope, in_write_scope, is_previewed, is_same_person, may_decide_here};
pub use policies::IssuerNames;
pub use routing::{RouteIntents, RouteRequest, RoutedCall, RoutedIntent, what_it_gave};
pub use server_logs::{LogLine, LogLines, LogQuery, ReadServerLogs};
pub use ui_mode::UiMode;
pub use vault::{KeepSecrets, KeptSecret};
pub use verification::Verification;
pub use verify::ServerGlance;
