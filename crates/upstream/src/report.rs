//! What the tasks of a connection report to the task that owns the connection, and how many reports may wait.

use tokio::sync::mpsc;

use crate::subscribe::Subscriptions;

/// How many reports may wait for the server's task.
pub(crate) const REPORTS: usize = 32;
/// How many of these places are kept for the ends of connections.
const RESERVED: usize = 8;

/// What the tasks of a connection tell the server's task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The connection of this generation has ended.
    Closed(u64),
    /// One of the lists changed.
    ListChanged(u64),
}

/// Reports that a list changed.
pub(crate) fn report_list_changed(subscriptions: &Subscriptions, reports: &mpsc::Sender<Report>, generation: u64) {
    // Known at once, whenever the report is read.
    subscriptions.list_changed();
    // A queue that fills already holds the same news; the last places are for the end of a connection.
    if reports.capacity() > RESERVED {
        let _ = reports.try_send(Report::ListChanged(generation));
    }
}
