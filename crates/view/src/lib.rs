//! What one profile shows, as data: its tools under their names, resources, prompts, the meta-tools of its dialect,
//! operations, the schemas that arguments are checked against, and what all of that costs.
//!
//! Immutable: a new view is built whenever the catalogue or a profile changes. Knows no path of a call and no function
//! that acts; servers are handles that it only asks how they are.

pub mod advice;
pub mod arguments;
pub mod costs;
pub mod cut;
pub mod dialect;
mod embed;
pub mod menu;
pub mod metrics;
mod object;
pub mod operation;
pub mod reply;
pub mod resolve;
pub mod schema;
mod server_entry;
pub mod shape;
mod source;
pub mod view;
mod visibility;

pub use embed::Embed;
pub use metrics::Metrics;
pub use object::ObjectKind;
pub use operation::{Effect, Method, Operation, OperationScope, OperationTable, Permission, RoutedOperation};
pub use server_entry::{ServerEntry, ServerTable};
pub use source::{Offer, ToolSource, ToolSources, VisibleNames};
pub use view::{Prompt, Tool, View};
pub use visibility::Visibility;
