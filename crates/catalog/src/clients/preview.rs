//! A change of a settings file as people read it: the lines that go and come with a few around them, secrets as `****`.

use crate::endpoint::ShownAddress;
use crate::private::{is_harmless, is_secret_name, is_secret_value};

/// How many lines are shown around a change.
const AROUND: usize = 3;
/// How many characters of a line are shown.
const WIDTH: usize = 200;
/// How many characters are shown beside what is different in a long line, and how many of that itself.
const BESIDE: usize = 40;
const EXCERPT: usize = 1_000;

/// The difference of two texts, one part for all of it; nothing when they are equal.
pub fn preview(before: &str, after: &str) -> String {
    difference(before, after, &masked)
}

/// The same of texts that are shown line by line as `show` says.
pub(crate) fn difference(before: &str, after: &str, show: &dyn Fn(&str) -> String) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - same;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    if same == old.len() && same == new.len() {
        return String::new();
    }
    let from = same.saturating_sub(AROUND);
    let around = (old.len() - tail)..(old.len() - tail + tail.min(AROUND));
    let mut text = String::new();
    let mut line = |mark: char, line: &str| {
        text.push(mark);
        text.push_str(line);
        text.push('\n');
    };
    old[from..same].iter().for_each(|kept| line(' ', &cut(&show(kept))));
    let shown = |lines: &[&str]| -> Vec<String> { lines.iter().map(|line| show(line)).collect() };
    let (gone, come) = (shown(&old[same..old.len() - tail]), shown(&new[same..new.len() - tail]));
    match (gone.as_slice(), come.as_slice()) {
        // A file on one line: only what is different is shown of it.
        ([gone], [come]) if gone.chars().count().max(come.chars().count()) > WIDTH => {
            let (gone, come) = excerpts(gone, come);
            line('-', &gone);
            line('+', &come);
        }
        _ => {
            gone.iter().for_each(|gone| line('-', &cut(gone)));
            come.iter().for_each(|come| line('+', &cut(come)));
        }
    }
    old[around].iter().for_each(|kept| line(' ', &cut(&show(kept))));
    text
}

/// What is different in two long lines, with a little around it.
fn excerpts(gone: &str, come: &str) -> (String, String) {
    let (old, new): (Vec<char>, Vec<char>) = (gone.chars().collect(), come.chars().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - same;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    let excerpt = |line: &[char]| {
        let (from, to) = (same.saturating_sub(BESIDE), (line.len() - tail + BESIDE).min(line.len()));
        let part: String = line[from..to].iter().take(EXCERPT).collect();
        let is_cut = to < line.len() || to - from > EXCERPT;
        format!("{}{part}{}", if from > 0 { "…" } else { "" }, if is_cut { "…" } else { "" })
    };
    (excerpt(&old), excerpt(&new))
}

/// A line that is no longer than people read.
fn cut(line: &str) -> String {
    match line.char_indices().nth(WIDTH) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

/// A line with `****` for the texts in quotes that are secrets, and for the secrets of addresses.
fn masked(line: &str) -> String {
    let mut shown = String::new();
    let mut rest = line;
    // A name in TOML needs no quotes.
    let mut name = line.split('=').next().unwrap_or_default().trim().to_owned();
    while let Some(start) = rest.find('"') {
        let length = end_of_text(&rest[start + 1..]);
        let inside = &rest[start + 1..start + 1 + length];
        let behind = &rest[start + 1 + length..];
        let is_name = behind.trim_start_matches('"').trim_start().starts_with([':', '=']);
        let hide = !is_name && ((is_secret_name(&name) && !is_harmless(inside)) || is_secret_value(inside));
        shown.push_str(&rest[..=start]);
        match hide {
            true => shown.push_str("****"),
            false if inside.contains("://") => shown.push_str(&ShownAddress(inside).to_string()),
            false => shown.push_str(inside),
        }
        if is_name {
            inside.clone_into(&mut name);
        }
        let quote = usize::from(behind.starts_with('"'));
        shown.push_str(&behind[..quote]);
        rest = &behind[quote..];
    }
    shown.push_str(rest);
    shown
}

/// How long the text is that ends in a quote without a backslash before it.
fn end_of_text(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_what_is_around_it() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n";
        let after = "1\n2\n3\n4\n4a\n5\n6\n7\n8\n";
        assert_eq!(preview(before, after), " 2\n 3\n 4\n+4a\n 5\n 6\n 7\n");
        assert_eq!(preview("", "a\nb\n"), "+a\n+b\n");
        assert_eq!(preview("a\na\n", "a\n"), " a\n-a\n");
        assert_eq!(preview("a\n", "a\n"), "");
    }

    #[test]
    fn secrets_are_not_shown() {
        for (line, expected) in [
            (r#"  "API_KEY": "abc", "x": "y""#, r#"  "API_KEY": "****", "x": "y""#),
            (r#"{ "env": { "TOKEN": "a\"b" } }"#, r#"{ "env": { "TOKEN": "****" } }"#),
            (r#"api_key = "abc""#, r#"api_key = "****""#),
            (r#""args": ["--key", "ghp_0123456789"]"#, r#""args": ["--key", "****"]"#),
            (r#""token": "unended"#, r#""token": "****"#),
        ] {
            assert_eq!(masked(line), expected);
        }
        assert_eq!(cut(&masked(&"x".repeat(500))).chars().count(), WIDTH + 1);
        let line = r#""url": "https://h/mcp?api_key=abc""#;
        assert_eq!(masked(line), r#""url": "https://h/mcp?****""#);
    }

    #[test]
    fn of_a_file_on_one_line_only_the_difference_is_shown() {
        let many: Vec<String> = (0..40).map(|number| format!(r#""s{number}":{{"command":"x"}}"#)).collect();
        let before = format!(r#"{{"mcpServers":{{{}}}}}"#, many.join(","));
        let after = before.replace(r#""s20":{"command":"x"},"#, r#""ours":{"url":"u"},"#);
        let shown = preview(&before, &after);
        let [gone, come] = shown.lines().collect::<Vec<_>>()[..] else { panic!("{shown}") };
        assert!(gone.starts_with("-…") && gone.contains("s20") && gone.ends_with('…'), "{gone}");
        assert!(come.starts_with("+…") && come.contains("ours") && !come.contains("s20"), "{come}");
        assert!(gone.chars().count() < 150 && come.chars().count() < 150, "{shown}");
    }
}
