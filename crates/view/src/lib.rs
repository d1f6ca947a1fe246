//! What one profile shows, as data: the meta-tools of its dialect, operations, the schemas that arguments are checked
//! against, and results that the gateway itself gives.
//!
//! Knows no session, no running server and no function that acts.

pub mod dialect;
pub mod menu;
pub mod operation;
pub mod reply;
pub mod schema;

pub use operation::{Effect, Method, Operation, OperationScope, OperationTable, Permission, RoutedOperation};
