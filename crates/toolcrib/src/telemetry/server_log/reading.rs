//! Reading the logs of servers from their files. A place in a log is the file's number and an offset, so that it is found
//! after the file was moved aside, and missing lines are noticed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_gateway::{LogLine, LogLines, LogQuery, ReadServerLogs};

/// How much of a file is read; it is moved aside at half of this.
const FILE_BYTES: u64 = 2 << 20;
/// Where a log begins that has no file yet.
const BEGINNING: Place = Place { file: 0, offset: 0 };

/// The logs in a folder.
#[derive(Debug)]
pub(crate) struct LogFolder(pub(crate) PathBuf);

/// A place in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    file: u64,
    offset: usize,
}

/// The whole lines of a file.
struct LogText {
    file: u64,
    text: String,
}

// === impl Place ===

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (file, offset) = text.split_once('-')?;
        Some(Self { file: file.parse().ok()?, offset: offset.parse().ok()? })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.file, self.offset)
    }
}

// === impl LogFolder ===

impl ReadServerLogs for LogFolder {
    fn read(&self, server: &ServerName, query: &LogQuery) -> Result<LogLines, Problem> {
        let after = query.after.as_deref().map(|text| Place::parse(text).ok_or_else(|| no_place(text))).transpose()?;
        let path = self.0.join(format!("{server}.log"));
        let failed = |path: &Path, error: &io::Error| {
            Problem::new(Kind::Internal, format!("cannot read `{}`: {error}", path.display()))
        };
        // The newer file first: one that is moved aside meanwhile is then seen twice, and not missed.
        let newer = read(&path).map_err(|error| failed(&path, &error))?;
        let aside = path.with_extension("log.1");
        let older = read(&aside).map_err(|error| failed(&aside, &error))?;
        let is_other = |older: &LogText| newer.as_ref().is_none_or(|newer| newer.file != older.file);
        let texts: Vec<&LogText> = older.as_ref().filter(|older| is_other(older)).into_iter().chain(&newer).collect();
        Ok(match after {
            Some(after) => following(&texts, after, query),
            None => newest(&texts, query),
        })
    }
}

fn no_place(text: &str) -> Problem {
    let text: String = text.chars().take(64).collect();
    Problem::new(Kind::InvalidParams, format!("`after` is `{text}`, which is no place in a log"))
        .hint("Give what an answer named as `next`, or leave it out for the newest lines.")
}

/// The newest lines that fit.
fn newest(texts: &[&LogText], query: &LogQuery) -> LogLines {
    let mut lines = VecDeque::new();
    let mut truncated = false;
    for line in texts.iter().flat_map(|text| text.text.lines()).map(parse).filter(|line| query.fits(line)) {
        if lines.len() >= query.limit {
            lines.pop_front();
            truncated = true;
        }
        lines.push_back(line);
    }
    let next = texts.last().map_or(BEGINNING, |text| Place { file: text.file, offset: text.text.len() });
    LogLines { lines: lines.into(), next: next.to_string(), missed: false, truncated }
}

/// The lines that fit after a place.
fn following(texts: &[&LogText], after: Place, query: &LogQuery) -> LogLines {
    let place = texts.iter().position(|text| text.file == after.file && text.text.is_char_boundary(after.offset));
    let missed = place.is_none() && after != BEGINNING;
    let (first, mut offset) = place.map_or((0, 0), |index| (index, after.offset));
    let mut found = LogLines { missed, next: after.to_string(), ..LogLines::default() };
    for text in &texts[first.min(texts.len())..] {
        for line in text.text[offset..].split_inclusive('\n') {
            let parsed = parse(line.trim_end_matches('\n'));
            let fits = query.fits(&parsed);
            if fits && found.lines.len() >= query.limit {
                found.truncated = true;
                return found;
            }
            offset += line.len();
            found.next = Place { file: text.file, offset }.to_string();
            found.lines.extend(fits.then_some(parsed));
        }
        offset = 0;
    }
    found
}

/// A line as it was written: time, level, text. Our own remarks have no time.
fn parse(line: &str) -> LogLine {
    let parts = line.split_once(' ').filter(|(at, _)| at.ends_with('Z') && at.len() >= 20);
    let level = |rest: &str| rest.split_once(' ').map(|(level, text)| (level.to_owned(), text.trim_start().to_owned()));
    match parts.and_then(|(at, rest)| Some((at, level(rest)?))) {
        Some((at, (level, line))) => LogLine { at: at.to_owned(), level, line },
        None => LogLine { at: String::new(), level: "INFO".to_owned(), line: line.to_owned() },
    }
}

/// The whole lines of a file; `None` where there is none.
fn read(path: &Path) -> io::Result<Option<LogText>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let number = file.metadata()?.ino();
    let mut bytes = Vec::new();
    file.take(FILE_BYTES).read_to_end(&mut bytes)?;
    // A line that is just being written is read the next time.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    bytes.truncate(whole);
    // What we write is UTF-8; a place in anything else would be another one.
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))?;
    Ok(Some(LogText { file: number, text }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn line(number: usize, level: &str, text: &str) -> String {
        format!("2026-11-20T12:00:{number:02}.000Z {level:5} {text}\n")
    }

    fn query(words: &str, after: Option<&str>, limit: usize) -> LogQuery {
        let words = words.split_whitespace().map(str::to_owned).collect();
        LogQuery { words, after: after.map(str::to_owned), limit, ..LogQuery::default() }
    }

    fn texts(found: &LogLines) -> Vec<&str> {
        found.lines.iter().map(|line| line.line.as_str()).collect()
    }

    #[test]
    fn lines_are_found_by_words_and_level_and_followed_over_a_change_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (logs, server) = (LogFolder(folder.path().to_owned()), ServerName::new("gh").unwrap());
        let path = folder.path().join("gh.log");
        let read = |query: &LogQuery| logs.read(&server, query).unwrap();
        let none = read(&query("", None, 10));
        assert_eq!((none.lines.len(), none.next.as_str(), none.missed), (0, "0-0", false));
        fs::write(&path, line(1, "INFO", "one") + &line(2, "WARN", "Port in use") + &line(3, "INFO", "three")).unwrap();
        assert_eq!(texts(&read(&query("", Some(&none.next), 10))), ["one", "Port in use", "three"]);
        let found = read(&query("use PORT", None, 10));
        assert_eq!((texts(&found), found.lines[0].level.as_str()), (vec!["Port in use"], "WARN"));
        let grave = LogQuery { levels: vec!["WARN".into(), "ERROR".into()], ..query("", None, 10) };
        assert_eq!(texts(&read(&grave)), ["Port in use"]);
        let last = read(&query("", None, 2));
        assert_eq!((texts(&last), last.truncated), (vec!["Port in use", "three"], true));
        // The file is moved aside, and what comes then follows.
        let place = read(&query("", Some("0-0"), 2)).next;
        fs::rename(&path, path.with_extension("log.1")).unwrap();
        fs::write(&path, line(4, "INFO", "four") + "half").unwrap();
        let rest = read(&query("", Some(&place), 10));
        assert_eq!((texts(&rest), rest.missed, rest.truncated), (vec!["three", "four"], false, false));
        assert_eq!(texts(&read(&query("", Some(&rest.next), 10))), [""; 0]);
        // A file that is gone left a gap, which is said.
        fs::rename(&path, path.with_extension("log.1")).unwrap();
        fs::write(&path, line(5, "INFO", "five")).unwrap();
        let gap = read(&query("", Some(&place), 10));
        assert_eq!((texts(&gap), gap.missed), (vec!["four", "five"], true));
        assert_eq!(logs.read(&server, &query("", Some("x"), 1)).unwrap_err().kind, Kind::InvalidParams);
    }
}
