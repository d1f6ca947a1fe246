//! A call that was begun on a page: how it goes, what its server asks, what came of it, and its messages at both hops.

use std::time::Duration;

use askama::Template;

use crate::diff::Diff;
use crate::filters;
use crate::frame::{Frame, Notice};
use crate::page::call::{Block, CallResult, Question, Questions, StructureFit};
use crate::page::operation::Copy;
use crate::part::{Cell, Level};
use crate::text::millis;

/// A call.
#[derive(Debug, Template)]
#[template(path = "page/call_status.html", blocks = ["live"])]
pub struct CallStatusPage {
    /// What stands around it.
    pub frame: Frame,
    /// The pages above: paths and names.
    pub above: Vec<(String, String)>,
    /// The page itself, where its forms are sent.
    pub path: String,
    /// How it looks, and in a word.
    pub state: (Level, String),
    /// As which profile, client and when.
    pub facts: Vec<(&'static str, Cell)>,
    /// How far it is: the width of the bar in percent, and words; empty words for nothing.
    pub progress: (Option<u8>, String),
    /// What its server logged.
    pub logged: Vec<String>,
    /// Whether it can be taken back.
    pub is_open: bool,
    /// Why there is no result.
    pub problem: Option<Notice>,
    /// What its server asks before the call goes on.
    pub questions: Option<Questions>,
    /// What came of it.
    pub result: Option<CallResult>,
    /// What it was called with, indented.
    pub arguments: String,
    /// The form with the same inputs; empty where the pages only show.
    pub again: String,
    /// Whether it can be made again as it is: no secret was left out.
    pub is_whole: bool,
    /// Other calls of the same tool, whose results can be compared: paths, and what they are.
    pub others: Vec<(String, String)>,
    /// The result of another call beside this one: what it is, and both texts, the other one first.
    pub compared: Option<Comparison>,
    /// The messages.
    pub wire: Wire,
    /// The same by other doors.
    pub copies: Vec<Copy>,
    /// Where its live part is; empty where nothing changes.
    pub live: String,
}

/// Two results.
#[derive(Debug)]
pub struct Comparison {
    /// The other call.
    pub what: String,
    /// Its path.
    pub path: String,
    /// The text of its result.
    pub before: String,
    /// The text of this one.
    pub after: String,
}

/// The messages of a call.
#[derive(Debug, Default)]
pub struct Wire {
    /// The first ones, in their order.
    pub first: Vec<WireRow>,
    /// How many between them are not kept.
    pub dropped: usize,
    /// The last ones.
    pub last: Vec<WireRow>,
    /// Where their whole texts are shown; empty where they are.
    pub whole: String,
}

/// A message.
#[derive(Debug, Clone)]
pub struct WireRow {
    /// When, since the beginning.
    pub since: Duration,
    /// From where to where.
    pub hop: Hop,
    /// Its method, or what else it is.
    pub what: String,
    /// Its text, without secrets.
    pub text: String,
}

/// From where to where a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hop {
    /// From the page to the gateway.
    FromClient,
    /// From the gateway to the page.
    ToClient,
    /// From the gateway to a server.
    ToServer(String),
    /// From a server to the gateway.
    FromServer(String),
}

// === impl Comparison ===

impl Comparison {
    /// The difference.
    pub fn diff(&self) -> Diff<'_> {
        Diff::of(&self.before, &self.after)
    }
}

// === impl WireRow ===

impl WireRow {
    /// When, in milliseconds.
    pub fn at(&self) -> String {
        millis(self.since)
    }

    /// From where.
    pub fn from(&self) -> &str {
        match &self.hop {
            Hop::FromClient => "client",
            Hop::ToClient | Hop::ToServer(_) => "gateway",
            Hop::FromServer(server) => server,
        }
    }

    /// To where.
    pub fn to(&self) -> &str {
        match &self.hop {
            Hop::ToClient => "client",
            Hop::FromClient | Hop::FromServer(_) => "gateway",
            Hop::ToServer(server) => server,
        }
    }
}
