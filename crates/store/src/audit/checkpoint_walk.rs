//! The checkpoints on the way along the chain: whether each is signed for the rows that are there, follows the one before,
//! and has a key that is known.

use std::collections::VecDeque;

use super::checkpoint::{CHECKPOINT_EVENTS, Checkpoint, CheckpointKey};
use super::tree::HashTree;
use super::verify::Fault;
use super::{Head, checkpoints};
use crate::database::Database;

/// Rows that may have no checkpoint where a key is given: what is written while one is made, with room for a slow disk.
const UNSIGNED: u64 = 2 * CHECKPOINT_EVENTS;

/// The checkpoints, as far as they were read.
#[derive(Debug)]
pub(super) struct CheckpointWalk {
    /// What was read and not met yet.
    ahead: VecDeque<Checkpoint>,
    last: Option<Checkpoint>,
    read: u64,
    /// The newest that there was when the rows were counted.
    newest: u64,
    /// The rows since the last checkpoint.
    tree: HashTree,
    expected: Option<CheckpointKey>,
    /// Whether the expected key has signed one.
    is_seen: bool,
    /// One that was kept elsewhere.
    kept: Option<Checkpoint>,
}

impl CheckpointWalk {
    pub(super) fn new(newest: u64, expected: Option<CheckpointKey>, kept: Option<Checkpoint>) -> Self {
        let (is_seen, ahead) = (expected.is_none(), VecDeque::new());
        Self { ahead, last: None, read: 0, newest, tree: HashTree::default(), expected, is_seen, kept }
    }

    /// Meets the checkpoints of what was cut off, whose rows are gone; what is wrong with them, and at which row. A log that
    /// was cut anywhere but at a checkpoint was not cut by us.
    pub(super) fn start(&mut self, database: &Database, floor: Head) -> rusqlite::Result<Option<(u64, Fault)>> {
        self.fill(database)?;
        if floor.seq == 0 {
            return Ok(None);
        }
        while let Some(next) = self.next_up_to(floor.seq) {
            let fault = self.check_signed(&next);
            if let Some(fault) = fault {
                return Ok(Some((next.seq, fault)));
            }
            self.last = Some(next);
            self.fill(database)?;
        }
        let is_at_one = self.last.as_ref().is_some_and(|last| last.head() == floor);
        Ok((!is_at_one).then_some((1, Fault::Missing)))
    }

    /// Reads some more, so that there are enough for the next rows.
    pub(super) fn fill(&mut self, database: &Database) -> rusqlite::Result<()> {
        // The next chunk of rows meets no more than it has rows.
        while self.ahead.len() < checkpoints::CHECKPOINTS_MAX && self.read < self.newest {
            let more = checkpoints::after(&database.reader(), self.read, checkpoints::CHECKPOINTS_MAX)?;
            let Some(last) = more.last() else { return Ok(()) };
            self.read = last.number;
            self.ahead.extend(more.into_iter().filter(|checkpoint| checkpoint.number <= self.newest));
        }
        Ok(())
    }

    /// Takes the next row; what is wrong with a checkpoint that ends with it.
    pub(super) fn step(&mut self, row: Head) -> Option<Fault> {
        if row.seq == 1
            && let Some(fault) = self.meet(Head::EMPTY)
        {
            return Some(fault);
        }
        self.tree.push(row.hash);
        self.meet(row)
    }

    fn next_up_to(&mut self, seq: u64) -> Option<Checkpoint> {
        let is_next = self.ahead.front().is_some_and(|next| next.seq <= seq);
        if is_next { self.ahead.pop_front() } else { None }
    }

    /// Takes the checkpoints that end with a row.
    fn meet(&mut self, row: Head) -> Option<Fault> {
        // A change of the key may come right after another checkpoint, and then covers no row of its own.
        while let Some(next) = self.next_up_to(row.seq) {
            let fault = self.check(&next, row);
            if fault.is_some() {
                return fault;
            }
            self.last = Some(next);
            self.tree = HashTree::default();
        }
        None
    }

    fn check(&mut self, next: &Checkpoint, row: Head) -> Option<Fault> {
        let fault = self.check_signed(next);
        let is_of_rows = || next.head() == row && next.root == self.tree.root();
        fault.or_else(|| (!is_of_rows()).then_some(Fault::NotTheSigned))
    }

    /// What is wrong with a checkpoint, whatever rows there are.
    fn check_signed(&mut self, next: &Checkpoint) -> Option<Fault> {
        if !next.is_signed() {
            return Some(Fault::BadCheckpoint);
        }
        match &self.last {
            None if next.number != 1 || next.first != 1 => return Some(Fault::BadCheckpoint),
            Some(last) if next.key != last.next_key() => return Some(Fault::OtherKey),
            Some(last) if !next.follows(last) => return Some(Fault::BadCheckpoint),
            _ => {}
        }
        self.is_seen |= self.expected == Some(next.key) || next.next.is_some() && self.expected == next.next;
        let is_another = self.kept.as_ref().is_some_and(|kept| kept.number == next.number && kept != next);
        is_another.then_some(Fault::NotTheExpected)
    }

    /// What is wrong at the end of the rows, and at which row.
    pub(super) fn end(&mut self, last: u64) -> Option<(u64, Fault)> {
        if last == 0
            && let Some(fault) = self.meet(Head::EMPTY)
        {
            return Some((0, fault));
        }
        let (signed, _) = self.signed();
        if !self.ahead.is_empty() {
            return Some((last + 1, Fault::TailMissing));
        }
        let number = self.last.as_ref().map_or(0, |last| last.number);
        if self.kept.as_ref().is_some_and(|kept| kept.number > number) {
            return Some((signed + 1, Fault::TailMissing));
        }
        if !self.is_seen {
            return Some((signed, Fault::KeyNotSeen));
        }
        (self.expected.is_some() && last - signed > UNSIGNED).then_some((signed + 1, Fault::Unsigned))
    }

    /// Up to which row the log is signed, and with which key at last.
    pub(super) fn signed(&self) -> (u64, Option<CheckpointKey>) {
        self.last.as_ref().map_or((0, None), |last| (last.seq, Some(last.next_key())))
    }
}
