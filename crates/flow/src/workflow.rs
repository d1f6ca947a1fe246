//! Workflows: stored programs of tool calls, each itself a tool.
//!
//! Reading order: `program` (a definition made ready), `engine` (a run), `book` (what is kept of it), `source` (what
//! the gateway sees). To run one without a gateway, fill [`CallTool`].

mod agents;
mod argument;
mod book;
mod call;
mod condition;
mod engine;
mod operation;
mod program;
mod running;
mod source;
mod state;
mod table;

pub use book::{Book, KEPT_BYTES};
pub use call::{CallTool, PastCall};
pub use engine::{Engine, RunOutcome};
pub use program::Program;
pub use running::GrantRuns;
pub use source::Workflows;
