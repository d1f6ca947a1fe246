//! One automaton for everything that is looked for: it finds beginnings, and what stands there is looked at closely.

use std::fmt;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, MatchKind};

use crate::encoding::Encodings;
use crate::format::{FORMATS, Format};

/// So much of each form is in the automaton: enough to be rare in texts, little enough for thousands of forms.
const ANCHOR: usize = 6;
/// Up to so many forms the automaton is the fast one, of at most some 8 MB.
const FAST: usize = 2_500;
/// Shorter values stand in innocent texts.
pub const SHORTEST: usize = 8;

/// Looks for all that it was built of.
pub struct Scanner {
    /// `None` where nothing is looked for.
    automaton: Option<AhoCorasick>,
    /// By pattern of the automaton.
    forms: Vec<Form>,
    values: Vec<Box<str>>,
}

/// What an anchor may be the beginning of.
enum Form {
    Format(&'static Format),
    Value { value: u32, text: Box<[u8]> },
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Where, in bytes.
    pub at: Range<usize>,
    /// What.
    pub what: Finding,
}

/// What was found, never the secret itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// A token of a known format.
    Format(&'static str),
    /// The value with this index; see [`Scanner::name_of`].
    Value(u32),
}

/// What a scanner is built of.
#[derive(Default)]
pub struct ScannerBuilder {
    forms: Vec<Form>,
    values: Vec<Box<str>>,
}

impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The forms are secrets.
        f.debug_struct("Scanner").field("values", &self.values.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ScannerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScannerBuilder").field("values", &self.values.len()).finish_non_exhaustive()
    }
}

// === impl ScannerBuilder ===

impl ScannerBuilder {
    /// Also looks for tokens of all known formats.
    #[must_use]
    pub fn formats(mut self) -> Self {
        self.forms.extend(FORMATS.iter().map(Form::Format));
        self
    }

    /// Also looks for a value in these encodings. One of less than [`SHORTEST`] bytes is left out: it would be found
    /// everywhere.
    #[must_use]
    pub fn value(mut self, name: &str, value: &str, encodings: Encodings) -> Self {
        if value.trim().len() < SHORTEST {
            return self;
        }
        let index = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.push(name.into());
        // A form that lost its ends to its surroundings may be short.
        let forms = encodings.forms(value).into_iter().filter(|form| form.len() >= SHORTEST);
        self.forms.extend(forms.map(|form| Form::Value { value: index, text: form.into_bytes().into() }));
        self
    }

    /// The scanner.
    ///
    /// # Errors
    /// There are more forms than an automaton can have.
    pub fn build(self) -> Result<Scanner, BuildError> {
        let Self { forms, values } = self;
        if forms.is_empty() {
            return Ok(Scanner { automaton: None, forms, values });
        }
        let fast = forms.len() <= FAST;
        let kind = if fast { AhoCorasickKind::DFA } else { AhoCorasickKind::ContiguousNFA };
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .kind(Some(kind))
            .prefilter(false)
            .build(forms.iter().map(Form::anchor))?;
        Ok(Scanner { automaton: Some(automaton), forms, values })
    }
}

// === impl Form ===

impl Form {
    fn anchor(&self) -> &[u8] {
        let text = match self {
            Self::Format(format) => format.begins.as_bytes(),
            Self::Value { text, .. } => text,
        };
        &text[..text.len().min(ANCHOR)]
    }

    /// What it is and where it ends, if it stands at `start`.
    fn at(&self, text: &[u8], start: usize) -> Option<(Finding, usize)> {
        match self {
            Self::Format(format) => {
                let stands = text[start..].starts_with(format.begins.as_bytes());
                let end = stands.then(|| format.end(text, start)).flatten()?;
                Some((Finding::Format(format.name), end))
            }
            Self::Value { value, text: form } => {
                text[start..].starts_with(form).then(|| (Finding::Value(*value), start + form.len()))
            }
        }
    }
}

// === impl Scanner ===

impl Scanner {
    /// What to build one of.
    pub fn builder() -> ScannerBuilder {
        ScannerBuilder::default()
    }

    /// The name of what was found: that of a format, or the one that a value was given.
    pub fn name_of(&self, finding: Finding) -> &str {
        match finding {
            Finding::Format(name) => name,
            Finding::Value(index) => self.values.get(index as usize).map_or("", |name| name),
        }
    }

    /// Everything that is found, in the order of its places; what overlaps is one hit, that of what begins first.
    pub fn scan(&self, text: &str) -> Vec<Hit> {
        let Some(automaton) = &self.automaton else { return Vec::new() };
        let bytes = text.as_bytes();
        let mut hits: Vec<Hit> = Vec::new();
        for found in automaton.find_overlapping_iter(bytes) {
            let form = &self.forms[found.pattern().as_usize()];
            if let Some((what, end)) = form.at(bytes, found.start()) {
                hits.push(Hit { at: found.start()..end, what });
            }
        }
        merged(hits)
    }
}

/// Hits in the order of their places, those that overlap as one.
pub(crate) fn merged(mut hits: Vec<Hit>) -> Vec<Hit> {
    if hits.len() < 2 {
        return hits;
    }
    // Of two that begin together the longer one says more, and of equal ones that with the longer beginning, which was
    // found later.
    hits.reverse();
    hits.sort_by_key(|hit| (hit.at.start, std::cmp::Reverse(hit.at.end)));
    let mut merged: Vec<Hit> = Vec::with_capacity(hits.len());
    for hit in hits {
        match merged.last_mut() {
            Some(last) if hit.at.start < last.at.end => last.at.end = last.at.end.max(hit.at.end),
            _ => merged.push(hit),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formats() -> Scanner {
        Scanner::builder().formats().build().unwrap()
    }

    fn found(scanner: &Scanner, text: &str) -> Vec<(String, String)> {
        let hit = |hit: Hit| (scanner.name_of(hit.what).to_owned(), text[hit.at].to_owned());
        scanner.scan(text).into_iter().map(hit).collect()
    }

    #[test]
    fn tokens_of_known_formats_are_found_whole() {
        let scanner = formats();
        for (name, token) in [
            ("github-token", format!("ghp_{}", "aB3".repeat(12))),
            ("github-token", format!("github_pat_{}", "aB3_".repeat(20))),
            ("gitlab-token", format!("glpat-{}", "aB3-x".repeat(4))),
            ("slack-token", "xoxb-123456789012-abcDEF123456".to_owned()),
            ("aws-access-key", "AKIAIOSFODNN7EXAMPLE".to_owned()),
            ("google-api-key", format!("AIza{}", "aB3_-".repeat(7))),
            ("anthropic-key", format!("sk-ant-api03-{}", "aB3_-".repeat(10))),
            ("openai-key", format!("sk-proj-{}", "aB3_-".repeat(10))),
            ("stripe-key", format!("sk_live_{}", "aB3".repeat(8))),
            ("npm-token", format!("npm_{}", "aB3".repeat(12))),
            ("toolcrib-key", format!("tcb_{}", "0f".repeat(32))),
            ("signed-token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N".to_owned()),
            ("private-key", "-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----".to_owned()),
        ] {
            for (before, after) in [("", ""), ("{\"a\":\"", "\"}"), ("key=", " and"), ("\\n", "\\n"), ("(", ").")] {
                let text = format!("{before}{token}{after}");
                assert_eq!(found(&scanner, &text), [(name.to_owned(), token.clone())], "{text}");
            }
        }
    }

    #[test]
    fn innocent_texts_have_no_hits() {
        let scanner = formats();
        for text in [
            "task-management-for-people-who-like-very-long-names-with-hyphens",
            "a risk-adjusted-return-of-the-portfolio-in-the-long-run-since-nineteen",
            "sk-learn and sk-image are packages; see sk-0123456789",
            "ghp_short, ghp_ and AKIA are beginnings of keys",
            "AKIAIOSFODNN7EXAMPLEANDMORE is longer than a key, XAKIAIOSFODNN7EXAMPLE begins otherwise",
            "eyJ.eyJ.x and eyJhbGciOiJub25lIn0 alone",
            "the commit 9fceb02d0ae598e95dc970b74767f19372d61af8 of npm_config_registry",
            "-----BEGIN PUBLIC KEY-----\\nMIIB\\n-----END PUBLIC KEY-----",
            "hf_hub_download, SG.1, glpat-, xoxb-a-b",
            "550e8400-e29b-41d4-a716-446655440000 sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ] {
            assert_eq!(scanner.scan(text), [], "{text}");
        }
    }

    #[test]
    fn values_are_found_in_their_encodings_and_named() {
        let value = "correct horse/battery";
        let scanner = Scanner::builder()
            .value("vault:horse", value, Encodings::ALL)
            .value("short", "abc", Encodings::ALL)
            .build()
            .unwrap();
        for text in [
            "it is correct horse/battery, isn't it",
            "aXQgaXMgY29ycmVjdCBob3JzZS9iYXR0ZXJ5",
            "Y29ycmVjdCBob3JzZS9iYXR0ZXJ5",
            "eGNvcnJlY3QgaG9yc2UvYmF0dGVyeXg=",
            "636f727265637420686f7273652f62617474657279",
            "correct%20horse%2Fbattery",
            "&#99;&#111;&#114;&#114;&#101;&#99;&#116;&#32;&#104;&#111;&#114;&#115;&#101;&#47;&#98;&#97;&#116;&#116;&#101;&#114;&#121;",
            "yrettab/esroh tcerroc",
        ] {
            let hits = scanner.scan(text);
            assert_eq!(hits.len(), 1, "{text}: {hits:?}");
            assert_eq!(scanner.name_of(hits[0].what), "vault:horse");
        }
        assert_eq!(scanner.scan("abc, correct horse, battery"), []);
        assert!(!format!("{scanner:?}").contains("horse"));
    }

    #[test]
    fn many_values_are_found_as_well_as_one() {
        let mut builder = Scanner::builder().formats();
        let value = |number: u32| format!("value-{number}-of-many-{}", number.wrapping_mul(2_654_435_761));
        for number in 0..4_096 {
            builder = builder.value(&number.to_string(), &value(number), Encodings::USUAL);
        }
        let scanner = builder.build().unwrap();
        for number in [0, 1, 77, 4_095] {
            let hits = found(&scanner, &format!("before {} after", value(number)));
            assert_eq!(hits, [(number.to_string(), value(number))]);
        }
        assert_eq!(scanner.scan(&value(4_096)), []);
    }
}
