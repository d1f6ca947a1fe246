//! Policies in Cedar: what a team's files say about who may do what, with which arguments.
//!
//! [`Policies`] are compiled from the files' texts, all or nothing. Policies that look only at who asks, at what is asked
//! for and at the door are worked out once for each [`Class`] of principals and each shape of resource, and kept; those
//! that look at arguments or at the time are evaluated at the call. To let policies see something new: its type in
//! `schema.rs`, its value in `subject.rs` (who asks), `resource.rs` (what is asked for) or `moment.rs` (the call).

mod argument;
mod check;
mod class;
mod demand;
mod label;
mod look;
mod moment;
mod policies;
mod policy;
mod resource;
mod schema;
mod scope;
mod subject;
mod text;

pub use check::{Vocabulary, check};
pub use class::{Class, OpenPolicy, Outlook, PolicyVerdict, Why};
pub use demand::{AskingTools, Demand};
pub use label::{LabelTable, Labels, WORKFLOWS, names_risk};
pub use moment::Moment;
pub use policies::{Policies, SubjectName};
pub use policy::{Ask, Effect, PolicyRule};
pub use subject::Subject;
pub use text::{BASELINE, BASELINE_FILE, Fault, PolicyText, RISK_FILE, SHIPPED};

#[cfg(test)]
mod tests;
