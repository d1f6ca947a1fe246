//! Behaviour tests in YAML: reads scenarios, runs each against its own gateway with mock servers and mock identity
//! providers, and reports.
//!
//! It speaks the wire like any user: the gateway is a process, the client is whatever fills in [`Drive`].
//!
//! Knows nothing of the inside of a gateway: it depends on no other crate that serves.

mod document;
mod drive;
mod expect;
mod expected;
mod form;
mod gateway;
mod gather;
mod harness;
mod home;
mod inspect;
mod mock;
mod outcome;
mod path;
mod provider;
mod report;
mod run;
mod scenario;
mod serve;
mod speak;
mod stdio;
mod suite;
mod template;
mod time;
mod value;
mod wrong;

pub use drive::{CallFailure, CallReply, Drive, Place, Session, Speaker};
pub use expected::Expectations;
pub use gather::{ScenarioSet, Select, gather};
pub use inspect::{core_schemas, schema_document, validate};
pub use mock::{Mock, serve_stdio};
pub use outcome::{Outcome, StepOutcome, Tally, Verdict};
pub use report::{json as json_report, render as render_report};
pub use run::Config;
pub use scenario::{Form, Scenario, read};
pub use serve::{Bench, serve};
pub use suite::{Pace, Progress, run};
pub use time::parse as parse_time;
pub use wrong::Wrong;
