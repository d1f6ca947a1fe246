//! The names nearest to one that does not exist, for "did you mean".

use crate::text::{parts, prefix};

/// How many names are proposed.
const PROPOSALS: usize = 3;
/// Longer names are compared by their first bytes.
const NAME_BYTES: usize = 128;
/// More edits than this are no slip.
const EDITS: usize = 4;
/// Which share of the parts of two names must be equal to make them near without being alike in letters.
const SHARED: f32 = 0.5;
/// What a part that is equal but for one edit counts, and how many letters it needs.
const NEARLY: f32 = 0.8;
const NEARLY_LETTERS: usize = 4;

/// A name as it is compared.
struct Shape {
    /// Lower-case letters and digits without separators.
    letters: Vec<char>,
    /// The distinct parts, sorted.
    parts: Vec<String>,
}

/// What can be said of a name without taking memory: enough to refuse most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sketch {
    /// How many letters and digits there are.
    letters: usize,
    /// Which of 64 classes of them occur.
    set: u64,
}

/// The unknown name.
struct Wanted {
    shape: Shape,
    sketch: Sketch,
}

/// At most three of `known` that are near to `unknown`, the nearest first, equal ones by name. Near are few slips of
/// the keyboard (Damerau-Levenshtein, at most a quarter of the letters and 4) and names that share at least half of
/// their parts. A known `server/tool` is also compared by its `tool` alone.
pub fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = Wanted::new(unknown);
    let mut best: Vec<(f32, &'a str)> = Vec::new();
    for name in known {
        let Some(likeness) = wanted.likeness(name) else { continue };
        let at = best.partition_point(|(other, text)| *other > likeness || (*other == likeness && *text <= name));
        if at < PROPOSALS && best.iter().all(|(_, text)| *text != name) {
            best.insert(at, (likeness, name));
            best.truncate(PROPOSALS);
        }
    }
    best.into_iter().map(|(_, name)| name).collect()
}

fn bound(longest: usize) -> usize {
    (longest / 4).clamp(usize::from(longest > 2), EDITS)
}

// === impl Wanted ===

impl Wanted {
    fn new(name: &str) -> Self {
        let shape = Shape::new(name);
        Self { sketch: Sketch::new(prefix(name, NAME_BYTES)), shape }
    }

    /// Above 0 when a known name is near, and higher the nearer it is.
    fn likeness(&self, name: &str) -> Option<f32> {
        let name = prefix(name, NAME_BYTES);
        let tool = name.split_once('/').map(|(_, tool)| tool);
        let contained = self.shape.parts.iter().filter(|part| may_contain(name, part)).count();
        let may_share = 4 * contained > self.shape.parts.len();
        let near = |name: &str| {
            let may_slip = self.sketch.may_slip(&Sketch::new(name));
            if may_share || may_slip { self.shape.likeness(&Shape::new(name), may_slip) } else { None }
        };
        let whole = near(name);
        let tool = tool.and_then(near);
        match (whole, tool) {
            (Some(whole), Some(tool)) => Some(whole.max(tool)),
            (whole, tool) => whole.or(tool),
        }
    }
}

/// Whether a lower-case part may occur in a name; certain when the answer is no.
fn may_contain(name: &str, part: &str) -> bool {
    let (name, part) = (name.as_bytes(), part.as_bytes());
    // Apostrophes are no letters, and other alphabets have their own small letters: no short answer for these.
    !name.is_ascii() || name.contains(&b'\'') || name.windows(part.len()).any(|at| at.eq_ignore_ascii_case(part))
}

// === impl Sketch ===

impl Sketch {
    fn new(name: &str) -> Self {
        let mut sketch = Self { letters: 0, set: 0 };
        let mut add = |letter: char| {
            sketch.letters += 1;
            sketch.set |= 1 << (u32::from(letter) % 64);
        };
        for letter in name.chars() {
            if letter.is_ascii_alphanumeric() {
                add(letter.to_ascii_lowercase());
            } else if !letter.is_ascii() {
                letter.to_lowercase().for_each(&mut add);
            }
        }
        sketch
    }

    /// Whether few edits may lead from one to the other. Each edit brings or takes one letter at most.
    fn may_slip(&self, other: &Self) -> bool {
        let bound = bound(self.letters.max(other.letters));
        let unlike = (self.set & !other.set).count_ones().max((other.set & !self.set).count_ones()) as usize;
        unlike <= bound && self.letters.abs_diff(other.letters) <= bound
    }
}

// === impl Shape ===

impl Shape {
    fn new(name: &str) -> Self {
        let mut parts = parts(prefix(name, NAME_BYTES));
        let letters: Vec<char> = parts.iter().flat_map(|part| part.chars()).collect();
        parts.sort_unstable();
        parts.dedup();
        Self { letters, parts }
    }

    fn likeness(&self, other: &Self, may_slip: bool) -> Option<f32> {
        let longest = self.letters.len().max(other.letters.len());
        if longest == 0 {
            return None;
        }
        let edits = if may_slip { edits(&self.letters, &other.letters, bound(longest)) } else { None };
        let (equal, unlike): (Vec<_>, Vec<_>) =
            other.parts.iter().partition(|part| self.parts.binary_search(part).is_ok());
        let share = |parts: f32| 2.0 * parts / (self.parts.len() + other.parts.len()) as f32;
        if edits.is_none() && share(equal.len() as f32) < SHARED {
            return None;
        }
        let nearly = unlike.iter().filter(|part| self.has_nearly(part)).count();
        let shared = share(equal.len() as f32 + NEARLY * nearly as f32);
        let alike = edits.map_or(0.0, |edits| 1.0 - edits as f32 / longest as f32);
        Some(alike.max(shared) + 0.5 * alike.min(shared))
    }

    fn has_nearly(&self, part: &str) -> bool {
        let letters: Vec<char> = part.chars().collect();
        let mut own = self.parts.iter().map(|own| own.chars().collect::<Vec<_>>());
        letters.len() >= NEARLY_LETTERS && own.any(|own| edits(&own, &letters, 1).is_some())
    }
}

/// The number of insertions, deletions, replacements and swaps of neighbours between two names (optimal string
/// alignment); `None` above `bound`.
pub(crate) fn edits(a: &[char], b: &[char], bound: usize) -> Option<usize> {
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
        check("github_list_all_isues", &["github/list_issues"]);
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
