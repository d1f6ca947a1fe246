//! A text that is no YAML, line by line: what is not known to be harmless stands as `****`, and comes back in the lines that
//! still say it. No line is added or lost, so errors stay at their lines.

use crate::private::{MASK, has_secret_word};

/// Keys whose values are no secrets, at the left margin. What stands below others may be.
const OPEN: [&str; 20] = [
    "name",
    "title",
    "description",
    "kind",
    "apiVersion",
    "transport",
    "command",
    "cwd",
    "start",
    "category",
    "servers",
    "exposure",
    "dialect",
    "read_only",
    "changed_tools",
    "tools",
    "allow",
    "deny",
    "inherit_env",
    "enabled",
];
/// Those below which items and such keys are no secrets either.
const LISTS: [&str; 3] = ["servers", "tools", "inherit_env"];

/// The text as people may read it.
pub(super) fn shown(text: &str) -> String {
    let mut is_open_below = false;
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        if line.starts_with(|first: char| !first.is_whitespace() && first != '#' && first != '-') {
            is_open_below = key(line).is_some_and(|(key, _)| LISTS.contains(&key));
        }
        match masked(line, is_open_below) {
            Some(line) => shown.push_str(&line),
            None => shown.push_str(line),
        }
        shown.push_str(end);
    }
    shown
}

/// The line with `****` for what may be a secret; `None` for one that may be read.
fn masked(line: &str, is_open_below: bool) -> Option<String> {
    let trimmed = line.trim();
    let indent = &line[..line.len() - line.trim_start().len()];
    if trimmed.is_empty() || ["---", "...", "-"].contains(&trimmed) {
        return None;
    }
    if trimmed.starts_with('#') {
        return has_secret_word(trimmed).then(|| format!("{indent}# {MASK}"));
    }
    let is_item = trimmed.starts_with("- ");
    let Some((key, value)) = key(trimmed.strip_prefix("- ").unwrap_or(trimmed)) else {
        // No key says what it is.
        let is_plain = is_open_below && !has_secret_word(trimmed);
        return (!is_plain).then(|| format!("{indent}{}{MASK}", if is_item { "- " } else { "" }));
    };
    // A map in one line may hold other keys.
    let is_open = OPEN.contains(&key)
        && (is_open_below || (indent.is_empty() && !is_item))
        && !has_secret_word(value)
        && !value.contains('{');
    let is_nothing = value.trim().is_empty() || value.trim().starts_with('#') && !has_secret_word(value);
    let is_known = !has_secret_word(key);
    if is_known && (is_open || is_nothing) {
        return None;
    }
    let begin = if is_item { "- " } else { "" };
    let key = if is_known { key } else { MASK };
    Some(format!("{indent}{begin}{key}: {MASK}"))
}

/// The key at the begin of a line, and what follows it.
fn key(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let key = key.trim().trim_matches(['"', '\'']);
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    (is_key && (value.is_empty() || value.starts_with(char::is_whitespace))).then_some((key, value))
}

/// A text that was shown and then changed, with what `there` says in each line that still stands as it was shown. Lines
/// that say the same keep their order.
pub(super) fn revealed(there: &str, text: &str) -> String {
    let shown = shown(there);
    let before: Vec<(&str, &str)> =
        shown.lines().zip(there.lines()).filter(|(shown, _)| shown.contains(MASK)).collect();
    let mut is_used = vec![false; before.len()];
    let mut from = 0;
    let mut revealed = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let fits = |index: &usize| !is_used[*index] && before[*index].0.trim() == line.trim();
        // The next one that says this, or else any: a line may have been moved.
        let place = (from..before.len()).find(fits).or_else(|| (0..before.len()).find(fits));
        match place.filter(|_| line.contains(MASK)) {
            Some(place) => {
                (is_used[place], from) = (true, place + 1);
                // Its indentation is what was typed.
                revealed.push_str(&line[..line.len() - line.trim_start().len()]);
                revealed.push_str(before[place].1.trim_start());
            }
            None => revealed.push_str(line),
        }
        revealed.push_str(end);
    }
    revealed
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROKEN: &str = "# was ghp_0123456789abcdefghij\nname: a # it\ncommand: [run\nargs: [--token, hunter1]\nargs:\n  \
                          - --token=hunter1\nenv:\n  KEY: hunter3 # old\n  OTHER: \"hunter4\"\nnotes: hunter5\nhunter6\n\
                          servers:\n  - a*\n\ttab: hunter7\n";

    #[test]
    fn what_is_not_known_to_be_harmless_is_hidden() {
        let shown = shown(BROKEN);
        assert!(!shown.contains("hunter") && !shown.contains("0123456789"), "{shown}");
        assert_eq!(shown.lines().count(), BROKEN.lines().count());
        for part in ["# ****", "name: a # it", "command: [run", "  KEY: ****", "  - a*", "  - ****", "env:"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn it_comes_back_where_it_still_stands_and_the_rest_is_as_typed() {
        assert_eq!(revealed(BROKEN, &shown(BROKEN)), BROKEN);
        let typed = "name: a\nenv:\n    OTHER: ****\n    KEY: ****\n    NEW: ****\n";
        let expected = "name: a\nenv:\n    OTHER: \"hunter4\"\n    KEY: hunter3 # old\n    NEW: ****\n";
        assert_eq!(revealed(BROKEN, typed), expected);
        // Two that look the same keep their order.
        let two = "x: [\nlist:\n  - one\n  - two\n";
        assert_eq!(revealed(two, "x: []\nlist:\n  - ****\n  - ****"), "x: []\nlist:\n  - one\n  - two");
    }
}
