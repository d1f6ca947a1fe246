//! Figures over time: a chart of calls, one of durations, and tables that say the same.

use askama::Template;

use crate::chart::Chart;
use crate::filters;
use crate::frame::Frame;
use crate::part::{Action, Cell, Filter, Table};

/// Figures over time.
#[derive(Debug, Template)]
#[template(path = "page/activity.html", blocks = ["live"])]
pub struct ActivityPage {
    /// What stands around it.
    pub frame: Frame,
    /// What can be done.
    pub actions: Vec<Action>,
    /// What narrows it.
    pub filters: Vec<Filter>,
    /// Its path, without filters.
    pub path: String,
    /// The figures of all of the time.
    pub totals: Vec<(&'static str, Cell)>,
    /// Charts, with what each shows.
    pub charts: Vec<(&'static str, Chart)>,
    /// Who had how many.
    pub rows: Table,
    /// The times that had any.
    pub times: Table,
    /// Where its live part is.
    pub live: String,
}
