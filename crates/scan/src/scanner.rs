//! Finds beginnings of tokens and parts of values, each fast in its own way, and looks closely at what stands there.

use std::fmt;
use std::ops::Range;

use crate::encoding::Encodings;
use crate::filter::{GramFilter, gram};
use crate::format::{Beginnings, RunEnds};

/// How many characters of values the filter looks at, and at every which place.
const GRAM: usize = 6;
const STRIDE: usize = 3;
/// So much of a value is found wherever it begins.
const WINDOW: usize = GRAM + STRIDE - 1;
/// Shorter values stand in innocent texts.
pub const SHORTEST: usize = WINDOW;

/// Looks for all that it was built of.
pub struct Scanner {
    /// The beginnings of tokens; `None` where they are not looked for.
    beginnings: Option<Beginnings>,
    filter: GramFilter<GRAM, STRIDE>,
    /// Where six characters stand in forms, sorted.
    grams: Vec<Place>,
    forms: Vec<Form>,
    values: Vec<Box<str>>,
}

/// How a value may be written.
struct Form {
    value: u32,
    text: Box<[u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    key: u64,
    form: u32,
    at: u32,
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
    has_formats: bool,
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
        self.has_formats = true;
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
        self.forms.extend(forms.map(|form| Form { value: index, text: form.into_bytes().into() }));
        self
    }

    /// The scanner.
    pub fn build(self) -> Scanner {
        let Self { has_formats, forms, values } = self;
        let mut grams = Vec::with_capacity(forms.len() * STRIDE);
        for (form, it) in (0..).zip(&forms) {
            // The middle: tokens of one kind begin alike.
            let middle = (it.text.len() - WINDOW) / 2;
            for at in middle..middle + STRIDE {
                grams.push(Place { key: gram::<GRAM>(&it.text, at), form, at: u32::try_from(at).unwrap_or(u32::MAX) });
            }
        }
        grams.sort_unstable();
        let filter = GramFilter::new(&grams.iter().map(|place| place.key).collect::<Vec<_>>());
        Scanner { beginnings: has_formats.then(Beginnings::new), filter, grams, forms, values }
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
        let mut hits = Vec::new();
        self.tokens(text.as_bytes(), &mut hits);
        self.values(text.as_bytes(), &mut hits);
        merged(hits)
    }

    /// Tokens of known formats.
    fn tokens(&self, text: &[u8], hits: &mut Vec<Hit>) {
        let Some(beginnings) = &self.beginnings else { return };
        let mut runs = RunEnds::default();
        beginnings.each(text, |start, format| {
            let end = format.end(text, start, &mut runs);
            hits.extend(end.map(|end| Hit { at: start..end, what: Finding::Format(format.name) }));
        });
    }

    /// Given values.
    fn values(&self, text: &[u8], hits: &mut Vec<Hit>) {
        for at in self.filter.passing(text) {
            let key = gram::<GRAM>(text, at);
            let first = self.grams.partition_point(|place| place.key < key);
            for place in self.grams[first..].iter().take_while(|place| place.key == key) {
                let form = &self.forms[place.form as usize];
                let start = at.checked_sub(place.at as usize);
                let Some(start) = start.filter(|start| text[*start..].starts_with(&form.text)) else { continue };
                hits.push(Hit { at: start..start + form.text.len(), what: Finding::Value(form.value) });
            }
        }
    }
}

/// Hits in the order of their places, those that overlap as one.
pub(crate) fn merged(mut hits: Vec<Hit>) -> Vec<Hit> {
    if hits.len() < 2 {
        return hits;
    }
    // Of two that begin together the longer one says more, and of equal ones a value, and a format with a longer
    // beginning: what was found later.
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
        Scanner::builder().formats().build()
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
            .build();
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
    fn a_value_that_is_a_token_is_named_as_the_value() {
        let token = format!("ghp_{}", "aB3".repeat(12));
        let scanner = Scanner::builder().formats().value("vault:github", &token, Encodings::USUAL).build();
        assert_eq!(found(&scanner, &format!("it is {token}.")), [("vault:github".to_owned(), token)]);
    }

    #[test]
    fn values_are_found_at_every_place_and_as_often_as_they_stand_there() {
        let scanner = Scanner::builder()
            .value("long", "a needle in a haystack", Encodings::USUAL)
            .value("short", "needle12", Encodings::USUAL)
            .value("even", "aaaaaaaaaa", Encodings::USUAL)
            .build();
        for before in 0..7 {
            for after in 0..4 {
                for (name, value) in [("long", "a needle in a haystack"), ("short", "needle12"), ("even", "aaaaaaaaaa")]
                {
                    let text = format!("{}{value}{}", ".".repeat(before), ".".repeat(after));
                    assert_eq!(found(&scanner, &text), [(name.to_owned(), value.to_owned())], "{text}");
                    let text = format!("{text}{value}");
                    let hits = scanner.scan(&text);
                    let covered: usize = hits.iter().map(|hit| hit.at.len()).sum();
                    assert_eq!(covered, 2 * value.len(), "{text}");
                }
            }
        }
        assert_eq!(scanner.scan("a needle in a haystac, needle1, aaaaaaaaa"), []);
    }

    #[test]
    fn texts_full_of_beginnings_are_read_once() {
        // Read once for each beginning, one of these would take many minutes.
        let scanner = Scanner::builder().formats().value("v", "sk-sk-sk-sk-1", Encodings::ALL).build();
        for unit in ["-sk-", ".SG.", "-eyJ", "-ya29.", "-xoxb-", "-glpat-", "\\nsk-", "-----BEGIN PRIVATE KEY-----"] {
            let text = unit.repeat((1 << 19) / unit.len());
            assert!(scanner.scan(&text).len() <= text.len() / unit.len(), "{unit}");
        }
        let parts = format!("{}.{}.{}", "-eyJ".repeat(1 << 15), "a".repeat(1 << 17), "b".repeat(1 << 17));
        assert_eq!(scanner.scan(&parts).len(), 1);
    }

    #[test]
    fn many_values_are_found_as_well_as_one() {
        let mut builder = Scanner::builder().formats();
        let value = |number: u32| format!("value-{number}-of-many-{}", number.wrapping_mul(2_654_435_761));
        for number in 0..4_096 {
            builder = builder.value(&number.to_string(), &value(number), Encodings::USUAL);
        }
        let scanner = builder.build();
        for number in [0, 1, 77, 4_095] {
            let hits = found(&scanner, &format!("before {} after", value(number)));
            assert_eq!(hits, [(number.to_string(), value(number))]);
        }
        assert_eq!(scanner.scan(&value(4_096)), []);
    }
}
