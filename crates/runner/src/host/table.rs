//! Where each run is: here, with a runner, or nowhere; and the runners that are connected.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::connection::{Connection, FRAMES_OF_A_RUN};
use super::lease::Order;
use super::{ORDERS, RunnerDescription};
use crate::link::IncomingFrame;

/// After so many lost runners a run is executed here: it may be what ends them.
const MOST_LOSSES: u32 = 2;
/// Runs whose losses are remembered.
const REMEMBERED: usize = 4_096;

#[derive(Debug, Clone)]
pub(super) struct LeaseHandle {
    pub(super) orders: mpsc::Sender<Order>,
    /// Closed when the lease is over and the run may have another place.
    pub(super) gone: watch::Receiver<()>,
}

/// Where a run is.
#[derive(Debug)]
enum Route {
    /// Here. Work on it that is under way counts, because its task may not have begun.
    Local {
        works: usize,
    },
    Leased(LeaseHandle),
}

/// What a lease begins with.
#[derive(Debug)]
pub(super) struct NewPlace {
    pub(super) connection: Arc<Connection>,
    pub(super) lease: u64,
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) frames: mpsc::Receiver<IncomingFrame>,
    pub(super) gone: watch::Sender<()>,
}

/// The place of a run.
#[derive(Debug)]
pub(super) enum Place {
    Local,
    Leased(LeaseHandle),
    New(NewPlace),
}

/// All runs and runners.
#[derive(Debug, Default)]
pub(super) struct Table {
    routes: HashMap<String, Route>,
    losses: HashMap<String, u32>,
    connections: BTreeMap<u64, Arc<Connection>>,
}

impl Table {
    // === runs ===

    /// Where the run is. A run without a place gets one, with the runner that has most room, or here.
    pub(super) fn place(&mut self, run: &str, number: impl FnOnce() -> u64) -> Place {
        if let Some(route) = self.routes.get_mut(run) {
            return match route {
                Route::Local { works } => {
                    *works += 1;
                    Place::Local
                }
                Route::Leased(handle) => Place::Leased(handle.clone()),
            };
        }
        let stays_here = self.losses.get(run).is_some_and(|losses| *losses >= MOST_LOSSES);
        let free = self.connections.values().filter(|connection| !stays_here && connection.has_room());
        let Some(connection) = free.min_by_key(|connection| connection.runs()).cloned() else {
            self.routes.insert(run.to_owned(), Route::Local { works: 1 });
            return Place::Local;
        };
        let (orders_sender, orders) = mpsc::channel(ORDERS);
        let (frames_sender, frames) = mpsc::channel(FRAMES_OF_A_RUN);
        let (gone, watching) = watch::channel(());
        let lease = number();
        connection.lend(lease, frames_sender);
        self.routes.insert(run.to_owned(), Route::Leased(LeaseHandle { orders: orders_sender, gone: watching }));
        Place::New(NewPlace { connection, lease, orders, frames, gone })
    }

    pub(super) fn local_work_done(&mut self, run: &str, is_running: impl FnOnce() -> bool) {
        if let Some(Route::Local { works }) = self.routes.get_mut(run) {
            *works -= 1;
        }
        self.forget_local(run, is_running);
    }

    /// Forgets a run that has no task here and that no one works on.
    pub(super) fn forget_local(&mut self, run: &str, is_running: impl FnOnce() -> bool) {
        if let Slot::Occupied(slot) = self.routes.entry(run.to_owned())
            && matches!(slot.get(), Route::Local { works: 0 })
            && !is_running()
        {
            slot.remove();
            self.losses.remove(run);
        }
    }

    pub(super) fn remove(&mut self, run: &str) {
        self.routes.remove(run);
    }

    pub(super) fn rested(&mut self, run: &str) {
        self.losses.remove(run);
    }

    pub(super) fn lost(&mut self, run: &str) {
        if self.losses.len() < REMEMBERED {
            *self.losses.entry(run.to_owned()).or_default() += 1;
        }
    }

    pub(super) fn keep_here(&mut self, run: &str) {
        self.losses.insert(run.to_owned(), MOST_LOSSES);
    }

    pub(super) fn runs(&self) -> usize {
        self.routes.len()
    }

    pub(super) fn has(&self, run: &str) -> bool {
        self.routes.contains_key(run)
    }

    // === runners ===

    pub(super) fn connect(&mut self, number: u64, connection: Arc<Connection>) {
        self.connections.insert(number, connection);
    }

    pub(super) fn disconnect(&mut self, number: u64) {
        self.connections.remove(&number);
    }

    pub(super) fn runners(&self) -> Vec<RunnerDescription> {
        let mut all: Vec<_> = self.connections.values().map(|connection| connection.describe()).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }
}
