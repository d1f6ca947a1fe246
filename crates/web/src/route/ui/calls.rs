//! Calls that people begin on pages: each runs in a task of its own, whether a page shows it or not, with its progress,
//! its questions and its wire log in memory. They belong to one browser session, are bounded, and end with it.
//!
//! `table` keeps them, `driver` makes them as a client of either era would, `wire_log` records their messages.

mod driver;
mod table;
mod wire_log;

pub(in crate::route::ui) use driver::{CallStart, begin};
pub(crate) use table::BrowserCalls;
pub(in crate::route::ui) use table::{BrowserCall, CallChange, CallInputs, CallPhase, CallProgress, OutputPromise};
pub(in crate::route::ui) use wire_log::{KeptArguments, WireRows, names_secret, without_secrets};
