//! Journals as JSON, an entry each: by themselves, or as lines. A last line that was cut and a newer version are told
//! apart.

use serde::{Deserialize, Serialize};
use toolcrib_base::Timestamp;

use crate::answer::FailureKind;
use crate::entry::{Entry, Event, WaitFor};

/// The newest version of lines that this program writes and reads. A line has the version of what it says, so that an
/// older program reads the journals of runs in which nothing new to it happened.
pub const VERSION: u32 = 3;

/// The version that first knew what an entry says.
fn version_of(event: &Event) -> u32 {
    let is_new_wait = |on: &WaitFor| matches!(on, WaitFor::Resume | WaitFor::Review(_));
    let is_new = match event {
        Event::Paused { .. } | Event::Replied { .. } | Event::Quarantined { .. } | Event::Reviewed { .. } => true,
        // An older program would begin with a task that is held, and call as the caller.
        Event::Started(start) => start.held.is_some() || start.runs_as.is_some(),
        Event::AskFailed { failure, .. } => failure.kind == FailureKind::Halted,
        Event::CallWaits { question, .. } => question.is_some(),
        Event::Waiting(on) => on.iter().any(is_new_wait),
        Event::Arrived(on) => is_new_wait(on),
        _ => false,
    };
    // An older program would not count what was spent, and forget whose results a run has read.
    let is_newest = match event {
        Event::Judged { .. } => true,
        Event::Started(start) => !start.judged.is_nothing(),
        Event::Result { result, .. } => !result.seen.is_empty(),
        _ => false,
    };
    match (is_newest, is_new) {
        (true, _) => 3,
        (false, true) => 2,
        (false, false) => 1,
    }
}

/// Why a journal cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// It was written by a newer program.
    #[error("line {line} of the journal has version {version}, and this program reads up to {VERSION}: update it")]
    Newer {
        /// From 1.
        line: usize,
        /// The version of the line.
        version: u32,
    },
    /// A line is no entry. It is not the last one, so more than the end is lost.
    #[error("line {line} of the journal is broken: {problem}")]
    Broken {
        /// From 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// The run ended, and nothing goes on after that.
    #[error("the run ended ({0}); start another one, or fork this one at a round")]
    Ended(&'static str),
    /// An entry does not fit what stands above it.
    #[error("entry {entry} of the journal does not fit: {problem}")]
    Misplaced {
        /// From 1.
        entry: usize,
        /// What is wrong.
        problem: String,
    },
}

/// What a journal's bytes hold.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Its entries.
    pub entries: Vec<Entry>,
    /// The bytes that hold them. What follows is a last line that was cut: whoever goes on cuts it off first.
    pub whole: usize,
}

#[derive(Serialize)]
struct WrittenLine<'a> {
    v: u32,
    at: Timestamp,
    event: &'a Event,
}

#[derive(Deserialize)]
struct Line {
    at: Timestamp,
    event: Event,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

/// An entry as JSON. What models and servers sent is in it byte for byte, line feeds between its tokens included.
pub fn text(entry: &Entry) -> String {
    let written = WrittenLine { v: version_of(&entry.event), at: entry.at, event: &entry.event };
    serde_json::to_string(&written).expect("entries have string keys and no failing writers")
}

/// An entry as a line, its line feed included. Others become spaces: JSON has them between tokens only.
pub fn line(entry: &Entry) -> String {
    text(entry).replace(['\n', '\r'], " ") + "\n"
}

/// Reads entries that were written as [`text`].
///
/// # Errors
/// One is broken, or newer than this program.
pub fn entries(texts: &[String]) -> Result<Vec<Entry>, JournalError> {
    texts.iter().enumerate().map(|(place, text)| entry(text.as_bytes(), place + 1)).collect()
}

/// Reads a journal. What follows the last line feed was cut and is left out: it was never acknowledged.
///
/// # Errors
/// A line above is broken, or any line is newer than this program.
pub fn read(bytes: &[u8]) -> Result<Reading, JournalError> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    let mut entries = Vec::new();
    for (place, text) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
        entries.push(entry(text, place + 1)?);
    }
    Ok(Reading { entries, whole })
}

fn entry(text: &[u8], line: usize) -> Result<Entry, JournalError> {
    let broken = |error: serde_json::Error| JournalError::Broken { line, problem: error.to_string() };
    let version = serde_json::from_slice::<Version>(text).map_err(broken)?.v;
    if version > VERSION {
        return Err(JournalError::Newer { line, version });
    }
    let Line { at, event } = serde_json::from_slice(text).map_err(broken)?;
    Ok(Entry { at, event })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;
    use crate::answer::{Answer, Finish};
    use crate::entry::{CallId, CallResult, End, Question};
    use crate::spending::Cost;

    fn two_lines() -> String {
        let entry = |event| line(&Entry { at: Timestamp(7), event });
        entry(Event::Resumed) + &entry(Event::Ended(End::Done("Ä".to_owned())))
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        let text = two_lines();
        assert_eq!(text.lines().next(), Some(r#"{"v":1,"at":7,"event":"resumed"}"#));
        let reading = read(text.as_bytes()).unwrap();
        assert_eq!(reading.whole, text.len());
        assert_eq!(reading.entries.iter().map(line).collect::<String>(), text);
    }

    #[test]
    fn what_a_model_sent_in_several_lines_is_kept_byte_for_byte() {
        let raw = "{\"input\":{\r\n  \"a\": \"x\\ny\"\n}}";
        let raw = serde_json::value::RawValue::from_string(raw.to_owned()).unwrap();
        let answer = Answer {
            raw: raw.into(),
            text: String::new(),
            calls: Vec::new(),
            finish: Finish::Stop,
            context: 1,
            spent: Cost::default(),
        };
        let answered = Entry { at: Timestamp(7), event: Event::Answered { number: 1, answer: Box::new(answer) } };
        let texts = [text(&answered), text(&Entry { at: Timestamp(8), event: Event::Resumed })];
        let read_back = entries(&texts).unwrap();
        assert_eq!(read_back.iter().map(text).collect::<Vec<_>>(), texts);
        let lines: String = read_back.iter().map(line).collect();
        assert_eq!((lines.lines().count(), read(lines.as_bytes()).unwrap().entries.len()), (2, 2));
        let broken = [texts[0].clone(), "{".to_owned()];
        assert!(matches!(entries(&broken), Err(JournalError::Broken { line: 2, .. })));
    }

    #[test]
    fn only_what_an_older_program_would_misread_has_a_newer_version() {
        let written = |event| line(&Entry { at: Timestamp(7), event });
        let call = CallId { round: 1, place: 2 };
        let on = WaitFor::Person("1.2".to_owned());
        let raw = |text: &str| Arc::<RawValue>::from(RawValue::from_string(text.to_owned()).unwrap());
        let started = |more: Value| {
            let mut start = json!({"run": "r", "agent": "a", "task": "Go.", "tools": [], "models": [{"name": "m", "max_output": 10}]});
            start.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            Event::Started(serde_json::from_value(start).unwrap())
        };
        let asks = |question| Event::CallWaits { call, on: on.clone(), question };
        let question = Question { asked: raw(r#"{"k":{}}"#), state: None, in_process: true };
        for (event, version) in [
            (Event::Continued, 1),
            (Event::Arrived(on.clone()), 1),
            (asks(None), 1),
            (asks(Some(Box::new(question))), 2),
            (Event::Replied { call, answers: raw("{}"), by: "local".to_owned() }, 2),
            (Event::Paused { by: "local".to_owned() }, 2),
            (Event::Waiting(vec![WaitFor::Resume]), 2),
            (Event::Arrived(WaitFor::Resume), 2),
            (Event::Quarantined { text: "x".to_owned(), why: "rule".to_owned() }, 2),
            (Event::Reviewed { item: 1, released: true, by: "ann".to_owned() }, 2),
            (Event::Waiting(vec![WaitFor::Review(1)]), 2),
            (started(json!({})), 1),
            (started(json!({"held": "rule"})), 2),
            (started(json!({"runs_as": "service:agent/a"})), 2),
            (started(json!({"held": "rule", "judged": {"tokens": 7, "money": 0}})), 3),
            (Event::Judged { reserved: Cost::default(), spent: None }, 3),
            (Event::Result { call, result: CallResult::default() }, 1),
            (Event::Result { call, result: CallResult { seen: vec!["a/b".to_owned()], ..CallResult::default() } }, 3),
        ] {
            let text = written(event);
            assert!(text.starts_with(&format!("{{\"v\":{version},")), "{text}");
            assert_eq!(read(text.as_bytes()).unwrap().entries.iter().map(line).collect::<String>(), text);
        }
        // As version 1 wrote it.
        let old = r#"{"v":1,"at":7,"event":{"call_waits":{"call":"1.2","on":{"person":"1.2"}}}}"#.to_owned() + "\n";
        assert_eq!(written(asks(None)), old);
    }

    #[test]
    fn a_last_line_may_be_cut_at_every_byte() {
        let text = two_lines();
        let first = text.find('\n').unwrap() + 1;
        for cut in first..text.len() {
            let reading = read(&text.as_bytes()[..cut]).unwrap();
            assert_eq!((reading.entries.len(), reading.whole), (1, first), "cut at {cut}");
        }
    }

    #[test]
    fn a_newer_journal_and_a_broken_one_are_told_apart() {
        let newer = two_lines() + "{\"v\":4,\"at\":7,\"event\":{\"teleported\":{}},\"more\":1}\n";
        assert_eq!(read(newer.as_bytes()).unwrap_err(), JournalError::Newer { line: 3, version: 4 });
        let text = "line 3 of the journal has version 4, and this program reads up to 3: update it";
        assert_eq!(read(newer.as_bytes()).unwrap_err().to_string(), text);
        for broken in ["{\"v\":1,\"at\":7,\"ev\n", "\n", "{\"v\":1,\"at\":7,\"event\":\"vanished\"}\n"] {
            let text = broken.to_owned() + &two_lines();
            assert!(matches!(read(text.as_bytes()), Err(JournalError::Broken { line: 1, .. })), "{broken}");
        }
    }
}
