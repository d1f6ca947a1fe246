//! Request and snapshot in, [`Permit`] or [`Denial`] out. Pure: no files, no sockets, no clock.
//!
//! [`Rules`] are compiled once from a profile's settings. [`Rules::decide`] says what may be called, and
//! [`Rules::visible`] says by the very same rule what is listed, found and described.

mod cedar;
mod request;
mod rules;
mod verdict;

pub use cedar::{
    Ask, BASELINE, BASELINE_FILE, Class, Effect, Fault, LabelTable, Labels, Moment, Policies, PolicyRule, PolicyText,
    Ruling, Subject, Vocabulary, Why, check, labels_of,
};
pub use request::{Act, Annotations, Caller, Request};
pub use rules::{HeldItems, Rules, Settings};
pub use verdict::{Denial, Permit, Reason, Rule};
