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
    Ask, AskingTools, BASELINE, BASELINE_FILE, Class, Demand, Effect, Fault, LabelTable, Labels, Moment, OpenPolicy,
    Outlook, Policies, PolicyRule, PolicyText, PolicyVerdict, RISK_FILE, SHIPPED, Subject, SubjectName, Vocabulary,
    WORKFLOWS, Why, check, names_risk,
};
pub use request::{Act, Annotations, Caller, Reference, Request, ToolDigest};
pub use rules::{ClassRules, HeldItems, Rules, Settings};
pub use verdict::{Denial, Permit, Reason, Rule};
