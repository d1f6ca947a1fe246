//! Connections to servers: one supervised task each, which starts, lists, watches and restarts its server.
//!
//! [`Server`] is the handle that callers share; `ServerTask` owns the state and publishes it as [`Status`] and
//! [`Inventory`]. What happens is reported as [`Event`]s; the composition root persists them.
//!
//! Knows no profile, no view and no policy: anyone who holds a [`Server`] may call it.

mod call;
mod call_span;
mod calls;
pub mod client;
pub mod config;
mod context;
mod conversation;
mod credentials;
mod deps;
mod environment;
mod eras;
pub mod event;
pub mod failure;
mod gate;
mod inspect;
mod install;
pub mod inventory;
mod keeper;
mod live;
mod negotiate;
mod open;
mod own;
mod own_hearing;
mod own_lists;
mod part;
mod pausable_deadline;
pub mod places;
mod pool;
pub mod refusals;
mod report;
mod request;
pub mod server;
mod starts;
pub mod status;
mod stderr;
pub mod subscribe;
mod task;
pub mod unanswered;
mod wire;

pub use call::Call;
pub use client::Client;
pub use config::{Endpoint, ServerConfig, SessionPolicy, Start, Timeouts};
pub use conversation::Conversation;
pub use credentials::{CredentialHolder, Credentials, NoCredential, Proof, Refusal, Renewal};
pub use deps::ServerDeps;
pub use environment::Environment;
pub use eras::Nature;
pub use event::Event;
pub use failure::{CallError, ServerUnavailable};
pub use inspect::{InspectError, Inspection};
pub use install::{HalfWritten, InstallCache, Installer, inherited_variable};
pub use inventory::Inventory;
pub use part::{OwnPart, Sight};
pub use places::{Concurrency, Place, PlaceLimits, Places, ToolPlaces};
pub use pool::{IDLE, MOST as CONNECTIONS};
pub use refusals::{Limit, Refusals};
pub use server::Server;
pub use starts::StartPlaces;
pub use status::{State, Status};
pub use stderr::stderr_apart;
pub use subscribe::Subscription;
pub use toolcrib_transport::{CallHandler, Reply};
