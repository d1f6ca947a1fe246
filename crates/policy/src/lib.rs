//! Request and snapshot in, [`Permit`] or [`Denial`] out. Pure: no files, no sockets, no clock.
//!
//! [`Rules`] are compiled once from a profile's settings. [`Rules::decide`] says what may be called, and
//! [`Rules::visible`] says by the very same rule what is listed, found and described. [`Policies`] are a team's files, in
//! Cedar; a profile's rules are asked first, and what they permit must be permitted by policies as well.

mod cedar;
mod request;
mod rules;
mod verdict;

pub use cedar::{
    Ask, AskingTools, BASELINE, BASELINE_FILE, Class, Demand, Effect, Fault, LabelTable, Labels, Moment, Policies,
    PolicyRule, PolicyText, PolicyVerdict, Subject, Vocabulary, WORKFLOWS, Why, check, labels_of,
};
pub use request::{Act, Annotations, Caller, Request};
pub use rules::{ClassRules, HeldItems, Rules, Settings};
pub use verdict::{Denial, Permit, Reason, Rule};
