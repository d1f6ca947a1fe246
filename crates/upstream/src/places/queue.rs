//! Who comes next: principals take turns, and within each its tools. Plain state, without waiting.
//!
//! A principal is in the round while one of its tools may be called. A tool that may take no more places is set
//! aside with the principals that wait for it, and they come back one by one as its places become free: so what hangs
//! is not looked at again for every call of the others.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;
use toolcrib_base::PrincipalId;

use super::shares::Shares;
use super::{Concurrency, Lane, Load, NoPlace, PlaceLimits, SHARE, Turn};

/// So many tools are remembered before those without calls are forgotten: servers may rename theirs without end.
const SWEEP_AT: usize = 1_024;

/// The state of a server's places.
pub(super) struct Queue {
    limits: PlaceLimits,
    running: usize,
    waiting: Shares,
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
    /// What its own limits allow; for what is no tool, everything.
    bounds: ToolBounds,
    is_tool: bool,
    running: usize,
    waiting: Shares,
    /// How many principals are in the round for it.
    in_round: usize,
    /// Whose calls wait until it may take another place, the longest first. Anyone who comes while some do joins them.
    aside: VecDeque<PrincipalId>,
}

/// What the definition says of one tool; `None` is as if it said nothing.
#[derive(Debug, Clone, Copy, Default)]
struct ToolBounds {
    concurrent: Option<usize>,
    queue: Option<usize>,
}

/// The calls of one principal that wait.
#[derive(Default)]
struct Principal {
    /// By tool, in the order in which they came.
    lanes: HashMap<Arc<str>, BTreeMap<u64, oneshot::Sender<Turn>>>,
    /// Tools that are not set aside, the next one first.
    round: VecDeque<Arc<str>>,
}

// === impl Queue ===

impl Queue {
    pub(super) fn new(limits: PlaceLimits) -> Self {
        Self {
            limits,
            running: 0,
            waiting: Shares::default(),
            tools: HashMap::new(),
            held_up: Vec::new(),
            principals: HashMap::new(),
            round: VecDeque::new(),
            next: 0,
        }
    }

    pub(super) fn load(&self) -> Load {
        let PlaceLimits { concurrency, queue, .. } = self.limits;
        Load { concurrency, queue, running: self.running, waiting: self.waiting.total() }
    }

    /// What runs and what waits stays, also where there is more of it than may be from now on.
    pub(super) fn set_limits(&mut self, limits: PlaceLimits) {
        self.limits = limits;
        for tool in self.tools.values_mut() {
            tool.bounds = bounds(&self.limits, &tool.name, tool.is_tool);
        }
        self.serve();
    }

    pub(super) fn running(&self, tool: &str) -> usize {
        self.tools.get(tool).map_or(0, |tool| tool.running)
    }

    /// A place at once, if no other call is before it: calls wait in the round because none is free.
    pub(super) fn take(&mut self, lane: Lane<'_>) -> Option<Arc<str>> {
        let (free, concurrency) = (self.free(), self.limits.concurrency);
        if !self.round.is_empty() {
            return None;
        }
        let tool = self.lane(lane);
        if !tool.may_take(concurrency, free) {
            return None;
        }
        tool.running += 1;
        let name = Arc::clone(&tool.name);
        self.running += 1;
        Some(name)
    }

    /// Stands in the queue; in one that is full, for another who has more calls in it.
    pub(super) fn enter(
        &mut self,
        who: &PrincipalId,
        lane: Lane<'_>,
        turn: oneshot::Sender<Turn>,
    ) -> Result<Ticket, NoPlace> {
        let tool = Arc::clone(&self.lane(lane).name);
        self.make_room(who, &tool)?;
        self.waiting.add(who);
        self.tool(&tool).waiting.add(who);
        self.next += 1;
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
        Ok(ticket)
    }

    /// Sees to it that one more call of `who` may wait: first among those of its tool, then among all.
    fn make_room(&mut self, who: &PrincipalId, name: &Arc<str>) -> Result<(), NoPlace> {
        let tool = self.tool(name);
        if let Some(most) = tool.bounds.queue.filter(|most| tool.waiting.total() >= *most) {
            let full = NoPlace::ToolFull { most };
            let greedy = tool.waiting.above(who, most).cloned().ok_or(full)?;
            self.send_away(&greedy, Some(name), full);
        }
        let most = self.limits.queue;
        if self.waiting.total() >= most {
            let full = NoPlace::Full { most };
            let greedy = self.waiting.above(who, most).cloned().ok_or(full)?;
            self.send_away(&greedy, None, full);
        }
        Ok(())
    }

    /// Takes the newest call of a principal out of the queue, of one tool or of any.
    fn send_away(&mut self, who: &PrincipalId, only: Option<&Arc<str>>, why: NoPlace) {
        let Some(principal) = self.principals.get_mut(who) else { return };
        let lanes = principal.lanes.iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
        let newest = lanes.filter_map(|(name, lane)| Some((*lane.last_key_value()?.0, Arc::clone(name)))).max();
        let Some((number, tool)) = newest else { return };
        let turn = principal.lanes.get_mut(&tool).and_then(|lane| lane.remove(&number));
        self.has_left(who, &tool);
        if let Some(turn) = turn {
            // One who has gone in this moment has nothing to give back.
            let _ = turn.send(Err(why));
        }
    }

    /// A call gives its place back, and others get theirs.
    pub(super) fn give_back(&mut self, tool: &Arc<str>) {
        self.running = self.running.saturating_sub(1);
        let tool = self.tool(tool);
        tool.running = tool.running.saturating_sub(1);
        self.serve();
    }

    /// A call that waits goes away.
    pub(super) fn leave(&mut self, ticket: &Ticket) {
        let Ticket { principal: who, tool, number } = ticket;
        let lane = self.principals.get_mut(who).and_then(|principal| principal.lanes.get_mut(tool));
        if lane.and_then(|lane| lane.remove(number)).is_some() {
            self.has_left(who, tool);
        }
    }

    /// A call was taken out of its lane without its turn.
    fn has_left(&mut self, who: &PrincipalId, tool: &Arc<str>) {
        self.waiting.remove(who);
        self.tool(tool).waiting.remove(who);
        let Some(principal) = self.principals.get_mut(who) else { return };
        if principal.lanes.get(tool).is_none_or(|lane| !lane.is_empty()) {
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
        self.limits.concurrency.calls.saturating_sub(self.running)
    }

    /// Gives free places to those whose turn it is.
    fn serve(&mut self) {
        while self.free() > 0 {
            self.take_back_from_aside();
            let Some(who) = self.round.pop_front() else { return };
            let Some(name) = self.principals.get_mut(&who).and_then(|it| it.round.pop_front()) else { continue };
            let (free, concurrency) = (self.free(), self.limits.concurrency);
            let tool = self.tool(&name);
            tool.in_round -= 1;
            if tool.may_take(concurrency, free) {
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
        self.waiting.remove(who);
        self.running += 1;
        let tool = self.tool(name);
        tool.waiting.remove(who);
        tool.running += 1;
        // One who has gone in this moment passes the place on as soon as it has the lock: the receiver lives as long.
        let _ = turn.send(Ok(()));
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
        let (free, concurrency) = (self.free(), self.limits.concurrency);
        let mut held_up = std::mem::take(&mut self.held_up);
        held_up.retain(|name| {
            let tool = self.tool(name);
            if tool.in_round == 0
                && tool.may_take(concurrency, free)
                && let Some(who) = tool.aside.pop_front()
            {
                self.stand_in_round(&who, name);
            }
            !self.tool(name).aside.is_empty()
        });
        self.held_up = held_up;
    }

    /// What is known of a lane. A tool that is named like a method shares its lane, and brings its limits along.
    fn lane(&mut self, lane: Lane<'_>) -> &mut Tool {
        let is_known = self.tools.get(lane.name).is_some_and(|tool| tool.is_tool || !lane.is_tool);
        let bounds = (!is_known).then(|| bounds(&self.limits, lane.name, lane.is_tool));
        let tool = self.tool(lane.name);
        if let Some(bounds) = bounds {
            (tool.bounds, tool.is_tool) = (bounds, lane.is_tool);
        }
        tool
    }

    fn tool(&mut self, name: &str) -> &mut Tool {
        if !self.tools.contains_key(name) {
            if self.tools.len() >= SWEEP_AT {
                self.tools.retain(|_, tool| tool.running + tool.in_round > 0 || !tool.aside.is_empty());
            }
            let key: Arc<str> = name.into();
            self.tools.insert(Arc::clone(&key), Tool::new(key));
        }
        self.tools.get_mut(name).expect("it was put there if it was missing")
    }
}

// === impl Tool ===

impl Tool {
    fn new(name: Arc<str>) -> Self {
        let (bounds, aside) = (ToolBounds::default(), VecDeque::new());
        Self { name, bounds, is_tool: false, running: 0, waiting: Shares::default(), in_round: 0, aside }
    }

    /// Whether it may take one of the free places.
    fn may_take(&self, concurrency: Concurrency, free: usize) -> bool {
        let running = self.running;
        let own = self.bounds.concurrent.is_none_or(|most| running < most);
        let shared = match concurrency.per_tool {
            _ if free == 0 => false,
            Some(most) => running < most,
            // What has a number of its own needs no share.
            None if self.bounds.concurrent.is_some() => true,
            // The first one of a tool always may; the others leave some.
            None => running == 0 || running < SHARE * (free - 1),
        };
        own && shared
    }
}

/// What the limits say of a tool: the least number of all patterns that it fits.
fn bounds(limits: &PlaceLimits, name: &str, is_tool: bool) -> ToolBounds {
    let fitting = || limits.tools.iter().filter(|tool| is_tool && tool.pattern.matches(name));
    ToolBounds {
        concurrent: fitting().filter_map(|tool| tool.concurrent).min(),
        queue: fitting().filter_map(|tool| tool.queue).min(),
    }
}
