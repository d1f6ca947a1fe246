//! The known word that a mistyped one is nearest to.

/// Longer words are compared with nothing.
const WORD_MAX: usize = 40;

/// The nearest of `known` if it is near enough to be meant; the first of equals.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > WORD_MAX {
        return None;
    }
    let lower = word.to_lowercase().replace('-', "_");
    let most = (lower.chars().count() / 3).clamp(1, 3);
    let distances = known.into_iter().map(|candidate| (distance(&lower, &candidate.replace('-', "_")), candidate));
    distances.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

/// Insertions, deletions, replacements and swaps of neighbours that make one of the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replaced = last[j] + usize::from(a != b);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let known = ["command", "args", "env", "cwd", "timeouts", "read_only", "description"];
        for (word, expected) in [
            ("comand", Some("command")),
            ("Command", Some("command")),
            ("timeout", Some("timeouts")),
            ("read-only", Some("read_only")),
            ("readonly", Some("read_only")),
            ("enb", Some("env")),
            ("arsg", Some("args")),
            ("descripton", Some("description")),
            ("wholly_else", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"command".repeat(100_000), known), None);
    }
}
