//! Ids of the events on our streams, by which a legacy client takes a broken stream up again.

use std::fmt;

/// One event of one stream of a session.
///
/// It is not a secret: it counts only together with the session that the stream belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventId {
    /// Which stream.
    pub stream: u64,
    /// Which event of it; the first is 1, so 0 stands for what comes before any.
    pub sequence: u64,
}

impl EventId {
    /// Reads what `Display` wrote and nothing else: decimal numbers without leading zeros around one dash.
    pub fn parse(text: &str) -> Option<Self> {
        let (stream, sequence) = text.split_once('-')?;
        Some(Self { stream: number(stream)?, sequence: number(sequence)? })
    }
}

fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_our_own_spelling_is_read() {
        assert_eq!(EventId::parse("3-14"), Some(EventId { stream: 3, sequence: 14 }));
        assert_eq!(EventId::parse("0-0"), Some(EventId { stream: 0, sequence: 0 }));
        for odd in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "1-2-3",
            "01-2",
            "1-02",
            "+1-2",
            "1--2",
            " 1-2",
            "1-2 ",
            "x-1",
            "1-18446744073709551616",
        ] {
            assert_eq!(EventId::parse(odd), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn ids_survive_a_round_trip(stream: u64, sequence: u64) {
            let id = EventId { stream, sequence };
            prop_assert_eq!(EventId::parse(&id.to_string()), Some(id));
        }

        #[test]
        fn what_is_read_is_written_the_same(text in "[0-9+-]{0,8}") {
            if let Some(id) = EventId::parse(&text) {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
