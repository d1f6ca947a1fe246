//! Who comes next: principals take turns, and within each its tools. Plain state, without waiting.
//!
//! A principal is in the round while one of its tools may be called. A tool that may take no more places is set
//! aside with the principals that wait for it, and they come back one by one as its places become free: so what hangs
//! is not looked at again for every call of the others.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;
use toolcrib_base::PrincipalId;

use super::{Concurrency, Load, SHARE, WAITING};

/// So many tools are remembered before those without calls are forgotten: servers may rename theirs without end.
const SWEEP_AT: usize = 1_024;

/// The state of a server's places.
pub(super) struct Queue {
    concurrency: Concurrency,
    running: usize,
    waiting: usize,
    tools: HashMap<Arc<str>, Tool>,
    /// Tools that have principals set aside.
    held_up: Vec<Arc<str>>,
    principals: HashMap<PrincipalId, Principal>,
    /// Principals with a tool that may be called, the next one first.
    round: VecDeque<PrincipalId>,
    next: u64,
}

/// A call that waits.
#[derive(Debug, Clone)]
pub(super) struct Ticket {
    principal: PrincipalId,
    pub(super) tool: Arc<str>,
    number: u64,
}

/// The calls of one tool.
struct Tool {
    name: Arc<str>,
    running: usize,
    /// How many principals are in the round for it.
    in_round: usize,
    /// Whose calls wait until it may take another place, the longest first. Anyone who comes while some do joins them.
    aside: VecDeque<PrincipalId>,
}

/// The calls of one principal that wait.
#[derive(Default)]
struct Principal {
    /// By tool, in the order in which they came.
    lanes: HashMap<Arc<str>, BTreeMap<u64, oneshot::Sender<()>>>,
    /// Tools that are not set aside, the next one first.
    round: VecDeque<Arc<str>>,
}

// === impl Queue ===

impl Queue {
    pub(super) fn new(concurrency: Concurrency) -> Self {
        Self {
            concurrency,
            running: 0,
            waiting: 0,
            tools: HashMap::new(),
            held_up: Vec::new(),
            principals: HashMap::new(),
            round: VecDeque::new(),
            next: 0,
        }
    }

    pub(super) fn load(&self) -> Load {
        Load { concurrency: self.concurrency, running: self.running, waiting: self.waiting }
    }

    pub(super) fn running(&self, tool: &str) -> usize {
        self.tools.get(tool).map_or(0, |tool| tool.running)
    }

    /// A place at once, if no other call is before it: calls wait in the round because none is free.
    pub(super) fn take(&mut self, tool: &str) -> Option<Arc<str>> {
        let (free, concurrency) = (self.free(), self.concurrency);
        if !self.round.is_empty() {
            return None;
        }
        let tool = self.tool(tool);
        if !may_take(concurrency, free, tool.running) {
            return None;
        }
        tool.running += 1;
        let name = Arc::clone(&tool.name);
        self.running += 1;
        Some(name)
    }

    /// Stands in the queue; `None` when it is full.
    pub(super) fn enter(&mut self, who: &PrincipalId, tool: &str, turn: oneshot::Sender<()>) -> Option<Ticket> {
        if self.waiting >= WAITING {
            return None;
        }
        self.waiting += 1;
        self.next += 1;
        let tool = Arc::clone(&self.tool(tool).name);
        let principal = self.principals.entry(who.clone()).or_default();
        let lane = principal.lanes.entry(Arc::clone(&tool)).or_default();
        let is_new = lane.is_empty();
        lane.insert(self.next, turn);
        if is_new {
            self.line_up(who, &tool);
        }
        let ticket = Ticket { principal: who.clone(), tool, number: self.next };
        // It may be its tool alone that it waits for, which is seen here.
        self.serve();
        Some(ticket)
    }

    /// A call gives its place back, and others get theirs.
    pub(super) fn give_back(&mut self, tool: &Arc<str>) {
        self.running = self.running.saturating_sub(1);
        let tool = self.tool(tool);
        tool.running = tool.running.saturating_sub(1);
        self.serve();
    }

    /// A call that has waited goes away; if it was given its place in the meantime, that goes to the next.
    pub(super) fn leave(&mut self, ticket: &Ticket) {
        let Ticket { principal: who, tool, number } = ticket;
        let Some(principal) = self.principals.get_mut(who) else { return self.give_back(tool) };
        let Some(lane) = principal.lanes.get_mut(tool) else { return self.give_back(tool) };
        if lane.remove(number).is_none() {
            return self.give_back(tool);
        }
        self.waiting -= 1;
        if !lane.is_empty() {
            return;
        }
        principal.lanes.remove(tool);
        let is_gone = principal.lanes.is_empty();
        let stood = principal.round.len();
        principal.round.retain(|it| it != tool);
        let stands = principal.round.len();
        if stands < stood {
            if stands == 0 {
                self.round.retain(|it| it != who);
            }
            self.tool(tool).in_round -= 1;
        } else {
            self.tool(tool).aside.retain(|it| it != who);
            let tools = &self.tools;
            self.held_up.retain(|it| tools.get(it).is_some_and(|it| !it.aside.is_empty()));
        }
        if is_gone {
            self.principals.remove(who);
        }
    }

    fn free(&self) -> usize {
        self.concurrency.calls.saturating_sub(self.running)
    }

    /// Gives free places to those whose turn it is.
    fn serve(&mut self) {
        while self.free() > 0 {
            self.take_back_from_aside();
            let Some(who) = self.round.pop_front() else { return };
            let Some(name) = self.principals.get_mut(&who).and_then(|it| it.round.pop_front()) else { continue };
            let (free, concurrency) = (self.free(), self.concurrency);
            let tool = self.tool(&name);
            tool.in_round -= 1;
            if may_take(concurrency, free, tool.running) {
                self.give(&who, &name);
                continue;
            }
            let is_first = tool.aside.is_empty();
            tool.aside.push_back(who.clone());
            if is_first {
                self.held_up.push(name);
            }
            if self.principals.get(&who).is_some_and(|it| !it.round.is_empty()) {
                // It keeps its turn for its other tools.
                self.round.push_front(who);
            }
        }
    }

    /// Gives a place to the call of a principal's tool that waits longest.
    fn give(&mut self, who: &PrincipalId, name: &Arc<str>) {
        let Some(principal) = self.principals.get_mut(who) else { return };
        let Some(lane) = principal.lanes.get_mut(name) else { return };
        let Some((_, turn)) = lane.pop_first() else { return };
        let has_more = !lane.is_empty();
        if !has_more {
            principal.lanes.remove(name);
        }
        let (is_gone, stands) = (principal.lanes.is_empty(), !principal.round.is_empty());
        if stands {
            self.round.push_back(who.clone());
        }
        if has_more {
            self.line_up(who, name);
        }
        if is_gone {
            self.principals.remove(who);
        }
        self.waiting -= 1;
        self.running += 1;
        self.tool(name).running += 1;
        // One who has gone in this moment passes the place on as soon as it has the lock.
        let _ = turn.send(());
    }

    /// Has a principal are in the round for a tool, or aside with the others that wait for that tool.
    fn line_up(&mut self, who: &PrincipalId, name: &Arc<str>) {
        let tool = self.tool(name);
        if !tool.aside.is_empty() {
            return tool.aside.push_back(who.clone());
        }
        self.stand_in_round(who, name);
    }

    fn stand_in_round(&mut self, who: &PrincipalId, name: &Arc<str>) {
        self.tool(name).in_round += 1;
        let Some(principal) = self.principals.get_mut(who) else { return };
        if principal.round.is_empty() {
            self.round.push_back(who.clone());
        }
        principal.round.push_back(Arc::clone(name));
    }

    /// Of each tool that may take another place, anyone who waits longest for it is in the round again, one at a
    /// time.
    fn take_back_from_aside(&mut self) {
        if self.held_up.is_empty() {
            return;
        }
        let (free, concurrency) = (self.free(), self.concurrency);
        let mut held_up = std::mem::take(&mut self.held_up);
        held_up.retain(|name| {
            let tool = self.tool(name);
            if tool.in_round == 0
                && may_take(concurrency, free, tool.running)
                && let Some(who) = tool.aside.pop_front()
            {
                self.stand_in_round(&who, name);
            }
            !self.tool(name).aside.is_empty()
        });
        self.held_up = held_up;
    }

    fn tool(&mut self, name: &str) -> &mut Tool {
        if !self.tools.contains_key(name) {
            if self.tools.len() >= SWEEP_AT {
                self.tools.retain(|_, tool| tool.running + tool.in_round > 0 || !tool.aside.is_empty());
            }
            let key: Arc<str> = name.into();
            let tool = Tool { name: Arc::clone(&key), running: 0, in_round: 0, aside: VecDeque::new() };
            self.tools.insert(key, tool);
        }
        self.tools.get_mut(name).expect("it was put there if it was missing")
    }
}

/// Whether a tool with so many calls running may take one of the free places.
fn may_take(concurrency: Concurrency, free: usize, running: usize) -> bool {
    match concurrency.per_tool {
        _ if free == 0 => false,
        Some(most) => running < most,
        // The first one of a tool always may; the others leave some.
        None => running == 0 || running < SHARE * (free - 1),
    }
}
