//! The names nearest to one that does not exist, for "did you mean".

use crate::text::{parts, prefix};

/// How many names are proposed.
const PROPOSALS: usize = 3;
/// Longer names are compared by their first bytes.
const NAME_BYTES: usize = 128;
/// More edits than this are no slip.
const EDITS: usize = 6;
/// Which share of the parts of two names must be equal to make them near without being alike in letters.
const SHARED: f32 = 0.5;

/// A name as it is compared.
struct Shape {
    /// Lower-case letters and digits without separators.
    letters: Vec<char>,
    /// The distinct parts, sorted.
    parts: Vec<String>,
    /// Which of 64 classes of characters occur, to refuse most pairs without looking at them.
    set: u64,
}

/// At most three of `known` that are near to `unknown`, the nearest first, equal ones by name. Near are few slips of
/// the keyboard (Damerau-Levenshtein, at most a third of the letters and 6) and names that share at least half of their
/// parts. A known `server/tool` is also compared by its `tool` alone.
pub fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = Shape::new(unknown);
    let mut best: Vec<(f32, &'a str)> = Vec::new();
    for name in known {
        let Some(likeness) = likeness(&wanted, name) else { continue };
        let at = best.partition_point(|(other, text)| *other > likeness || (*other == likeness && *text <= name));
        if at < PROPOSALS && best.iter().all(|(_, text)| *text != name) {
            best.insert(at, (likeness, name));
            best.truncate(PROPOSALS);
        }
    }
    best.into_iter().map(|(_, name)| name).collect()
}

/// Above 0 when the names are near, and higher the nearer they are.
fn likeness(wanted: &Shape, name: &str) -> Option<f32> {
    let whole = wanted.likeness(&Shape::new(name));
    let tool = name.split_once('/').and_then(|(_, tool)| wanted.likeness(&Shape::new(tool)));
    match (whole, tool) {
        (Some(whole), Some(tool)) => Some(whole.max(tool)),
        (whole, tool) => whole.or(tool),
    }
}

// === impl Shape ===

impl Shape {
    fn new(name: &str) -> Self {
        let mut parts = parts(prefix(name, NAME_BYTES));
        let letters: Vec<char> = parts.iter().flat_map(|part| part.chars()).collect();
        let set = letters.iter().fold(0, |set, letter| set | 1 << (u32::from(*letter) % 64));
        parts.sort_unstable();
        parts.dedup();
        Self { letters, parts, set }
    }

    fn likeness(&self, other: &Self) -> Option<f32> {
        let longest = self.letters.len().max(other.letters.len());
        if longest == 0 {
            return None;
        }
        let bound = (longest / 3).min(EDITS);
        let unlike = (self.set & !other.set).count_ones().max((other.set & !self.set).count_ones()) as usize;
        let edits = if unlike > bound { None } else { edits(&self.letters, &other.letters, bound) };
        let shared = other.parts.iter().filter(|part| self.parts.binary_search(part).is_ok()).count();
        let shared = 2.0 * shared as f32 / (self.parts.len() + other.parts.len()) as f32;
        if edits.is_none() && shared < SHARED {
            return None;
        }
        let alike = edits.map_or(0.0, |edits| 1.0 - edits as f32 / longest as f32);
        Some(alike.max(shared) + 0.5 * alike.min(shared))
    }
}

/// The number of insertions, deletions, replacements and swaps of neighbours between two names (optimal string
/// alignment); `None` above `bound`.
fn edits(a: &[char], b: &[char], bound: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > bound {
        return None;
    }
    let mut before: Vec<usize> = vec![usize::MAX / 2; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut row = last.clone();
    for i in 1..=a.len() {
        row[0] = i;
        let mut least = i;
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
            least = least.min(row[j]);
        }
        // A swap reaches back two rows, hence one more.
        if least > bound + 1 {
            return None;
        }
        std::mem::swap(&mut before, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    Some(last[b.len()]).filter(|edits| *edits <= bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 7] = [
        "files/read_file",
        "files/write_file",
        "github/create_issue",
        "gitlab/create_issue",
        "github/list_issues",
        "time/convert_time",
        "x/q",
    ];

    fn check(unknown: &str, expect: &[&str]) {
        assert_eq!(nearest(unknown, KNOWN), expect, "{unknown}");
        assert_eq!(nearest(unknown, KNOWN.iter().rev().copied()), expect, "{unknown}, known names in another order");
    }

    #[test]
    fn slips_and_shared_parts_are_near() {
        check("raed_file", &["files/read_file", "files/write_file"]);
        check("readFile", &["files/read_file", "files/write_file"]);
        check("github_create_isue", &["github/create_issue", "gitlab/create_issue"]);
        check("create_issue", &["github/create_issue", "gitlab/create_issue"]);
        check("time_convert", &["time/convert_time"]);
    }

    #[test]
    fn nothing_is_near_to_nonsense() {
        check("", &[]);
        check("///", &[]);
        check("kubernetes_deploy", &[]);
    }

    #[test]
    fn edits_count_swaps_once_and_stop_at_the_bound() {
        let check = |a: &str, b: &str, bound, expect| {
            let letters = |text: &str| text.chars().collect::<Vec<_>>();
            assert_eq!(edits(&letters(a), &letters(b), bound), expect, "{a} {b}");
        };
        check("abcd", "abcd", 1, Some(0));
        check("abcd", "abdc", 1, Some(1));
        check("abcd", "badc", 2, Some(2));
        check("abcd", "xyz", 2, None);
        check("", "ab", 2, Some(2));
        check("kitten", "sitting", 3, Some(3));
    }
}
