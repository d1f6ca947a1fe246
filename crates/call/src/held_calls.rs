//! Calls that need a yes: the request that waits (`request`), the call of a run that waits without a task (`run_call`), the
//! yes and the no (`decision`), the one run (`run`), and the end without either (`ending`). What is kept of them is in
//! `approvals`.

mod decision;
mod ending;
mod request;
mod run;
mod run_call;

pub use decision::{ApprovalVerdict, no_approval};
