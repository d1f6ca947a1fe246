//! The texts of errors and logs side by side, as the sources have them: one table, printed with `--nocapture` to be
//! read aloud, and the rules that a program can check.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use toolcrib_base::Kind;

use crate::toolcrib::run;

/// Crates whose errors only developers see.
const SKIPPED: [&str; 3] = ["bench", "testkit", "scenario"];

/// Turns that a reader has to translate, with what says the same.
const ARCHAIC: [(&str, &str); 16] = [
    ("mend", "fix"),
    ("mended", "fixed"),
    ("anew", "again"),
    ("whoever", "anyone who"),
    ("nobody", "no one, or say what is missing"),
    ("somebody", "name the role: an admin, the client"),
    ("everybody", "everyone"),
    ("anybody", "anyone"),
    ("is told", "is notified, or the sentence without it"),
    ("are told", "are notified, or the sentence without it"),
    ("turned down", "rejected"),
    ("turn down", "reject"),
    ("taken over", "imported"),
    ("takes over", "imports"),
    ("do not mind", "are unaffected"),
    ("in good manners", "cleanly"),
];

/// Wordings of muster, which its scenarios compare.
const OF_MUSTER: [&str; 2] = ["Failed to create ServiceClass instance: {}", "ServiceClass"];

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Message,
    Hint,
    Log,
}

/// A text with its place and, where the same expression says so, its kind.
#[derive(Debug)]
struct Text {
    place: String,
    kind: Option<String>,
    role: Role,
    text: String,
}

#[test]
fn errors_read_alike() {
    let texts = texts();
    let table = table(&texts);
    println!("{table}");
    assert!(texts.len() > 400, "only {} texts found: does the reader of the sources still fit them?", texts.len());
    let faults: Vec<String> = texts.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{} texts to rewrite:\n{}", faults.len(), faults.join("\n"));
}

/// The manual pages hold every word of the help.
#[tokio::test]
async fn the_help_is_in_plain_words() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("man");
    assert_eq!(run(home.path(), &["man", "--dir", folder.to_str().unwrap()], &[]).await.code, 0);
    let (mut pages, mut faults) = (0, Vec::new());
    for page in fs::read_dir(&folder).unwrap() {
        let page = page.unwrap().path();
        let text = fs::read_to_string(&page).unwrap().to_lowercase();
        for line in text.lines() {
            faults
                .extend(archaic(line).map(|(turn, better)| format!("{page:?}: `{turn}` in `{line}`: write {better}")));
        }
        pages += 1;
    }
    assert!(pages > 50, "only {pages} pages");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_rules_find_what_they_are_about() {
    let of = |role, text: &str| {
        let text = Text { place: "x".to_owned(), kind: None, role, text: text.to_owned() };
        faults(&text).len()
    };
    assert_eq!(of(Role::Message, "cannot read `{}`: {error}"), 0);
    assert_eq!(of(Role::Message, "Cannot read `{}`"), 1);
    assert_eq!(of(Role::Message, "cannot read `{}`."), 1);
    assert_eq!(of(Role::Message, "whoever reads it must mend it"), 2);
    assert_eq!(of(Role::Message, "the recommended value"), 0);
    assert_eq!(of(Role::Hint, "Start it again."), 0);
    assert_eq!(of(Role::Hint, "start it anew"), 1);
    let source = "fn a() { Problem::new(\n  Kind::Busy,\n  format!(\"too \\\n     many {}\", 1)).hint(\"wait\") }";
    let read = read(source, "x");
    assert_eq!(read.len(), 2, "{read:?}");
    assert_eq!((read[0].kind.as_deref(), read[0].text.as_str()), (Some("Busy"), "too many {}"));
    assert_eq!((read[1].role, read[1].text.as_str()), (Role::Hint, "wait"));
    for log in ["tracing::warn!(%server, \"gone\");", "tracing::warn!(target: \"a::b\", %server, \"gone\");"] {
        let read = read_one(log);
        assert_eq!((read.role, read.text.as_str()), (Role::Log, "gone"), "{log}");
    }
}

/// The only text of a source.
fn read_one(source: &str) -> Text {
    let mut texts = read(source, "x");
    assert_eq!(texts.len(), 1, "{texts:?}");
    texts.remove(0)
}

/// What is wrong with a text by the rules of messages: a lower-case fragment without a final dot, in present-day words.
fn faults(text: &Text) -> Vec<String> {
    let Text { place, role, text, .. } = text;
    let mut faults = Vec::new();
    for (turn, better) in archaic(&text.to_lowercase()) {
        faults.push(format!("{place}: `{turn}` in `{text}`: write {better}"));
    }
    if *role != Role::Hint && !OF_MUSTER.iter().any(|prefix| text.starts_with(prefix)) {
        let word: String = text.chars().take_while(|letter| letter.is_alphanumeric()).collect();
        let is_name = word.chars().skip(1).any(char::is_uppercase) || word.len() == 1;
        if text.starts_with(char::is_uppercase) && !is_name {
            faults.push(format!("{place}: `{text}` begins with a capital: a message is a fragment"));
        }
        if text.ends_with('.') && !text.ends_with("..") {
            faults.push(format!("{place}: `{text}` ends with a dot: a message is a fragment"));
        }
    }
    faults
}

/// The archaic turns in a text of small letters.
fn archaic(text: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    ARCHAIC.into_iter().filter(move |(turn, _)| {
        text.match_indices(turn).any(|(at, _)| {
            !is_letter(text[..at].chars().next_back()) && !is_letter(text[at + turn.len()..].chars().next())
        })
    })
}

/// All texts by kind, below the row of the kind.
fn table(texts: &[Text]) -> String {
    let mut by_kind: BTreeMap<&str, Vec<&Text>> = BTreeMap::new();
    for text in texts {
        let other = if text.role == Role::Log { "Logs" } else { "Error types" };
        by_kind.entry(text.kind.as_deref().unwrap_or(other)).or_default().push(text);
    }
    let rows: BTreeMap<String, _> = Kind::ALL.iter().map(|kind| (format!("{kind:?}"), kind.row())).collect();
    let mut table = String::new();
    for (kind, texts) in by_kind {
        let row = rows.get(kind).map_or_else(String::new, |row| {
            format!(": {}, JSON-RPC {}, HTTP {}, exit code {}", row.name, row.code, row.status, row.exit)
        });
        let _ = writeln!(table, "\n{kind}{row}");
        for text in texts {
            let arrow = if text.role == Role::Hint { "  → " } else { "" };
            let _ = writeln!(table, "  {arrow}{}  [{}]", text.text, text.place);
        }
    }
    table
}

/// The texts of all errors in the sources of the product.
fn texts() -> Vec<Text> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut texts = Vec::new();
    let crates = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let skipped = |folder: &PathBuf| SKIPPED.iter().any(|name| folder.ends_with(name));
    for folder in crates.filter(|folder| folder.join("src").is_dir() && !skipped(folder)) {
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        files.sort();
        for file in files {
            let source = fs::read_to_string(&file).unwrap();
            // Tests make errors of their own.
            let source = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
            texts.extend(read(source, &file.strip_prefix(root).unwrap().display().to_string()));
        }
    }
    texts
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            sources(&path, files);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            files.push(path);
        }
    }
}

/// The first literal behind each beginning of an error or a hint.
fn read(source: &str, place: &str) -> Vec<Text> {
    const BEGINNINGS: [(&str, Role); 4] = [
        ("Problem::new(", Role::Message),
        ("#[error(", Role::Message),
        (".hint(", Role::Hint),
        ("let hint = ", Role::Hint),
    ];
    let mut texts = Vec::new();
    for (beginning, role) in BEGINNINGS {
        for (at, _) in source.match_indices(beginning) {
            let rest = &source[at + beginning.len()..];
            let kind = rest.trim_start().strip_prefix("Kind::");
            let kind = kind.map(|rest| rest.chars().take_while(|letter| letter.is_alphanumeric()).collect::<String>());
            let skipped = kind.as_ref().map_or(0, |kind| rest.find(kind.as_str()).unwrap_or_default() + kind.len());
            let rest = rest[skipped..].trim_start_matches([',', ' ', '\n']);
            let rest = rest.strip_prefix("format!(").unwrap_or(rest).trim_start();
            let Some(literal) = rest.strip_prefix('"') else {
                continue;
            };
            let line = source[..at].lines().count();
            let text = unescaped(literal);
            texts.push((at, Text { place: format!("{place}:{line}"), kind, role, text }));
        }
    }
    for (at, _) in source.match_indices("tracing::") {
        let rest = &source[at..];
        let levels = ["error!(", "warn!(", "info!(", "debug!("];
        let Some(rest) = levels.iter().find_map(|level| rest.strip_prefix("tracing::")?.strip_prefix(level)) else {
            continue;
        };
        let statement = &rest[..rest.find(");").unwrap_or(rest.len())];
        let literal = statement.match_indices('"').find(|(quote, _)| !statement[..*quote].ends_with("target: "));
        let literal = match literal {
            // The target's own closing quote, then the message.
            Some((quote, _))
                if statement[..quote].contains("target: \"") && statement[..quote].matches('"').count() == 1 =>
            {
                statement[quote + 1..].find('"').map(|next| &rest[quote + 2 + next..])
            }
            Some((quote, _)) => Some(&rest[quote + 1..]),
            None => None,
        };
        let Some(literal) = literal else { continue };
        let place = format!("{place}:{}", source[..at].lines().count());
        texts.push((at, Text { place, kind: None, role: Role::Log, text: unescaped(literal) }));
    }
    texts.sort_by_key(|(at, _)| *at);
    // A hint belongs to the kind of the message before it.
    let mut last = None;
    for (_, text) in &mut texts {
        match text.role {
            Role::Message => last.clone_from(&text.kind),
            Role::Hint => text.kind.clone_from(&last),
            Role::Log => {}
        }
    }
    texts.into_iter().map(|(_, text)| text).collect()
}

/// A literal up to its closing quote, lines joined as the compiler joins them.
fn unescaped(literal: &str) -> String {
    let mut text = String::new();
    let mut letters = literal.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                Some('\n') => while letters.next_if(|letter| letter.is_whitespace()).is_some() {},
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => {}
            },
            other => text.push(other),
        }
    }
    text
}
