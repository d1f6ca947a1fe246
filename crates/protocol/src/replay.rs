//! The last events of one stream, kept for a client that lost the connection and asks for what it missed.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::event_id::EventId;

/// The last events of one stream, bounded in number and in bytes; the oldest go first.
#[derive(Debug)]
pub struct Replay {
    stream: u64,
    events: VecDeque<Bytes>,
    /// The sequence of the last event that was pushed, kept or not.
    last: u64,
    bytes: usize,
    most_events: usize,
    most_bytes: usize,
}

impl Replay {
    /// Keeps at most `most_events` events of `most_bytes` bytes in all.
    pub fn new(stream: u64, most_events: usize, most_bytes: usize) -> Self {
        Self { stream, events: VecDeque::new(), last: 0, bytes: 0, most_events, most_bytes }
    }

    /// The id that the next event gets.
    pub fn next_id(&self) -> EventId {
        EventId { stream: self.stream, sequence: self.last.saturating_add(1) }
    }

    /// Keeps an event. One that is too large by itself is not kept, nor is anything before it.
    pub fn push(&mut self, event: Bytes) -> EventId {
        let id = self.next_id();
        self.last = id.sequence;
        self.bytes += event.len();
        self.events.push_back(event);
        while self.events.len() > self.most_events || self.bytes > self.most_bytes {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.len();
        }
        id
    }

    /// The events after `id`, oldest first.
    ///
    /// `None` when one of them is no longer kept, when `id` was never given, or when it is of another stream.
    pub fn after(&self, id: EventId) -> Option<impl Iterator<Item = (EventId, Bytes)> + use<'_>> {
        let missed = usize::try_from(self.last.checked_sub(id.sequence)?).ok()?;
        if id.stream != self.stream || missed > self.events.len() {
            return None;
        }
        let events = self.events.iter().skip(self.events.len() - missed);
        let ids = (id.sequence + 1..).map(|sequence| EventId { stream: self.stream, sequence });
        Some(ids.zip(events.cloned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn after(replay: &Replay, stream: u64, sequence: u64) -> Option<Vec<(u64, Bytes)>> {
        let events = replay.after(EventId { stream, sequence })?;
        Some(events.map(|(id, event)| (id.sequence, event)).collect())
    }

    #[test]
    fn what_was_missed_comes_again() {
        let mut replay = Replay::new(4, 2, 100);
        assert_eq!(after(&replay, 4, 0), Some(vec![]));
        assert_eq!(after(&replay, 4, 1), None, "never given");
        assert_eq!(replay.next_id().to_string(), "4-1");
        for text in ["a", "b", "c"] {
            replay.push(event(text));
        }
        assert_eq!(after(&replay, 4, 3), Some(vec![]));
        assert_eq!(after(&replay, 4, 2), Some(vec![(3, event("c"))]));
        assert_eq!(after(&replay, 4, 1), Some(vec![(2, event("b")), (3, event("c"))]));
        assert_eq!(after(&replay, 4, 0), None, "the first one is gone");
        assert_eq!(after(&replay, 5, 2), None, "another stream");
        assert_eq!(after(&replay, 4, 4), None, "never given");
        assert_eq!(after(&replay, 4, u64::MAX), None);
    }

    #[test]
    fn an_event_that_is_too_large_leaves_a_gap() {
        let mut replay = Replay::new(1, 10, 3);
        replay.push(event("ab"));
        replay.push(event("four"));
        assert_eq!(after(&replay, 1, 1), None);
        assert_eq!(after(&replay, 1, 2), Some(vec![]));
        replay.push(event("abc"));
        assert_eq!(after(&replay, 1, 2), Some(vec![(3, event("abc"))]));
        let mut none = Replay::new(1, 0, 100);
        none.push(event("a"));
        assert_eq!(after(&none, 1, 0), None);
    }

    proptest! {
        #[test]
        fn bounds_hold_and_nothing_is_skipped(
            sizes in prop::collection::vec(0usize..6, 0..40), most_events in 0usize..8, most_bytes in 0usize..20, from in 0u64..45,
        ) {
            let mut replay = Replay::new(1, most_events, most_bytes);
            for size in &sizes {
                replay.push(vec![b'x'; *size].into());
                prop_assert!(replay.events.len() <= most_events);
                prop_assert_eq!(replay.bytes, replay.events.iter().map(Bytes::len).sum::<usize>());
                prop_assert!(replay.bytes <= most_bytes);
            }
            if let Some(events) = after(&replay, 1, from) {
                let got: Vec<_> = events.into_iter().map(|(sequence, event)| (sequence, event.len())).collect();
                let expect: Vec<_> = (1u64..).zip(sizes).skip(usize::try_from(from).unwrap()).collect();
                prop_assert_eq!(got, expect);
            }
        }
    }
}
