//! "Did you mean": the known names that are near to one that does not exist.

/// Longer words are compared with nothing.
const WORD_BYTES: usize = 40;
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
    /// Lower-case letters and digits without separators, and how many there are.
    letters: String,
    count: usize,
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
struct UnknownName {
    shape: Shape,
    sketch: Sketch,
}

/// The word of `known` that was meant by a mistyped one, such as the key of a file: few slips of the keyboard away (at
/// most a third of its letters and 3), whatever the letter case and the kind of dash. The first of equals.
pub fn nearest<'a>(mistyped: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if mistyped.len() > WORD_BYTES {
        return None;
    }
    let plain = |word: &str| word.to_lowercase().replace('-', "_");
    let meant = plain(mistyped);
    let most = (meant.chars().count() / 3).clamp(1, 3);
    let distances = known.into_iter().map(|word| (strsim::osa_distance(&meant, &plain(word)), word));
    distances.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

/// At most three of `known` that are near to `unknown`, the nearest first, equal ones by name. Near are few slips of
/// the keyboard (Damerau-Levenshtein, at most a quarter of the letters and 4) and names that share at least half of
/// their parts. A known `server/tool` is also compared by its `tool` alone.
pub fn similar<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = UnknownName::new(unknown);
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

// === impl UnknownName ===

impl UnknownName {
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
        let letters = parts.concat();
        let count = letters.chars().count();
        parts.sort_unstable();
        parts.dedup();
        Self { letters, count, parts }
    }

    fn likeness(&self, other: &Self, may_slip: bool) -> Option<f32> {
        let longest = self.count.max(other.count);
        if longest == 0 {
            return None;
        }
        let edits = may_slip.then(|| strsim::osa_distance(&self.letters, &other.letters));
        let edits = edits.filter(|edits| *edits <= bound(longest));
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
        let letters = part.chars().count();
        let is_near = |own: &String| own.chars().count().abs_diff(letters) <= 1 && strsim::osa_distance(own, part) <= 1;
        letters >= NEARLY_LETTERS && self.parts.iter().any(is_near)
    }
}

/// The lower-case parts of an identifier: cut at `_ - . /` and other signs, and at changes of case.
pub fn parts(identifier: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for word in identifier.split(|c| !(is_letter(c) || is_apostrophe(c))) {
        let mut part = String::new();
        let mut letters = word.chars().filter(|c| !is_apostrophe(*c)).peekable();
        let mut before: Option<char> = None;
        while let Some(letter) = letters.next() {
            let follows_lower = before.is_some_and(|b| b.is_lowercase() || b.is_numeric());
            let ends_acronym =
                before.is_some_and(char::is_uppercase) && letters.peek().is_some_and(|next| next.is_lowercase());
            if letter.is_uppercase() && (follows_lower || ends_acronym) && !part.is_empty() {
                parts.push(std::mem::take(&mut part));
            }
            part.extend(letter.to_lowercase());
            before = Some(letter);
        }
        if !part.is_empty() {
            parts.push(part);
        }
    }
    parts
}

/// Letters and digits of every script, and the marks that combine with them.
pub fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '\u{300}'..='\u{36f}')
}

/// Apostrophes, which stand within words.
pub fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’')
}

/// The longest prefix of at most `bound` bytes that ends at a character.
pub fn prefix(text: &str, bound: usize) -> &str {
    let mut end = bound.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
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
        assert_eq!(similar(unknown, KNOWN), expect, "{unknown}");
        assert_eq!(similar(unknown, KNOWN.iter().rev().copied()), expect, "{unknown}, known names in another order");
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
    fn the_keys_of_a_file_are_near_when_they_are_mistyped() {
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
