//! Connections to servers: one supervised task each, which starts, lists, watches and restarts its server.
//!
//! [`Server`] is the handle that callers share; `ServerTask` owns the state and publishes it as [`Status`] and
//! [`Inventory`]. What happens is told as [`Event`]s; whoever composes the program persists them.

mod calls;
pub mod client;
pub mod config;
mod conversation;
pub mod credentials;
mod environment;
mod eras;
pub mod event;
pub mod failure;
mod gate;
mod inspect;
mod install;
pub mod inventory;
mod live;
mod negotiate;
mod open;
mod patience;
pub mod places;
mod pool;
pub mod server;
mod starts;
pub mod status;
pub mod subscribe;
mod task;
pub mod unanswered;

pub use client::{Client, SessionPolicy};
pub use config::{Endpoint, ServerConfig, Start, Timeouts};
pub use conversation::Conversation;
pub use credentials::Credentials;
pub use environment::Environment;
pub use event::{Event, Nature};
pub use failure::{Away, CallError, stderr_apart};
pub use inspect::{Inspected, NotInspected};
pub use install::{HalfWritten, InstallCache, Installs, inherited_variable};
pub use inventory::Inventory;
pub use places::{Concurrency, Place, Places};
pub use pool::{IDLE, MOST as CONNECTIONS};
pub use server::{Server, Surroundings};
pub use starts::StartPlaces;
pub use status::{State, Status};
pub use subscribe::Subscription;
pub use toolcrib_transport::{CallHandler, Reply};
