//! Formats of tokens that well-known services give out: a beginning that nothing else has, and what follows it.
//!
//! To add one, add a row. Its beginning must be rare in texts and have three characters at least, and what follows must
//! be so long that no word is taken for it. A format whose beginning is more of another's comes after that one.

use std::collections::BTreeMap;

use memchr::memmem;

use crate::filter::{self, GramFilter, gram};

/// One format.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The name that settings, logs and answers have for it.
    pub name: &'static str,
    pub(crate) begins: &'static str,
    pub(crate) tail: Tail,
}

/// What follows the beginning.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tail {
    /// So many characters of a set, the least and the most; with more it is something else.
    Run { set: Set, least: usize, most: usize },
    /// The same, with letters and digits mixed, so that no words with hyphens between them are taken for it.
    Mixed { set: Set, least: usize },
    /// Three parts with dots between them, as in signed tokens.
    Parts,
    /// Everything up to the end of a private key in PEM.
    Pem,
}

/// Characters that tokens are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Set {
    Alphanumeric,
    /// Capital letters and digits.
    Upper,
    Hexadecimal,
    /// Letters, digits, `_`.
    Word,
    /// Letters, digits, `-`.
    Dashed,
    /// Letters, digits, `_`, `-`.
    Name,
    /// Letters, digits, `_`, `-`, `.`.
    Dotted,
}

/// Where runs of characters end that were looked at before: each is read once, however many tokens may begin in it.
#[derive(Debug, Default)]
pub(crate) struct RunEnds {
    /// The end of each run, by the set and the place that it was read from.
    ends: BTreeMap<(Set, usize), usize>,
}

/// Every format.
pub static FORMATS: [Format; 34] = [
    run("github-token", "ghp_", Set::Alphanumeric, 36, 255),
    run("github-token", "gho_", Set::Alphanumeric, 36, 255),
    run("github-token", "ghu_", Set::Alphanumeric, 36, 255),
    run("github-token", "ghs_", Set::Alphanumeric, 36, 255),
    run("github-token", "ghr_", Set::Alphanumeric, 36, 255),
    run("github-token", "github_pat_", Set::Word, 50, 255),
    run("gitlab-token", "glpat-", Set::Name, 20, 64),
    mixed("slack-token", "xoxb-", Set::Dashed, 20),
    mixed("slack-token", "xoxp-", Set::Dashed, 20),
    mixed("slack-token", "xoxa-", Set::Dashed, 20),
    mixed("slack-token", "xapp-", Set::Dashed, 20),
    run("aws-access-key", "AKIA", Set::Upper, 16, 16),
    run("aws-access-key", "ASIA", Set::Upper, 16, 16),
    run("google-api-key", "AIza", Set::Name, 35, 35),
    mixed("google-token", "ya29.", Set::Dotted, 40),
    mixed("openai-key", "sk-", Set::Name, 32),
    mixed("anthropic-key", "sk-ant-", Set::Name, 40),
    run("stripe-key", "sk_live_", Set::Alphanumeric, 24, 255),
    run("stripe-key", "rk_live_", Set::Alphanumeric, 24, 255),
    run("npm-token", "npm_", Set::Alphanumeric, 36, 36),
    run("pypi-token", "pypi-AgEI", Set::Name, 50, 255),
    run("huggingface-token", "hf_", Set::Alphanumeric, 34, 40),
    run("digitalocean-token", "dop_v1_", Set::Hexadecimal, 64, 64),
    mixed("sendgrid-key", "SG.", Set::Dotted, 60),
    run("shopify-token", "shpat_", Set::Hexadecimal, 32, 32),
    run("linear-key", "lin_api_", Set::Alphanumeric, 40, 40),
    run("toolcrib-key", "tcb_", Set::Hexadecimal, 64, 64),
    run("toolcrib-token", "tca_", Set::Hexadecimal, 64, 64),
    mixed("toolcrib-token", "tcr_", Set::Dotted, 40),
    Format { name: "signed-token", begins: "eyJ", tail: Tail::Parts },
    Format { name: "private-key", begins: "-----BEGIN PRIVATE KEY-----", tail: Tail::Pem },
    Format { name: "private-key", begins: "-----BEGIN RSA PRIVATE KEY-----", tail: Tail::Pem },
    Format { name: "private-key", begins: "-----BEGIN EC PRIVATE KEY-----", tail: Tail::Pem },
    Format { name: "private-key", begins: "-----BEGIN OPENSSH PRIVATE KEY-----", tail: Tail::Pem },
];

/// The shortest part of a signed token: `{}` would be one, and nothing is signed in less.
const PART: usize = 10;
/// So much of a token is looked at for letters and digits.
const MIXED: usize = 256;
/// What ends a private key.
const PEM_END: &[u8] = b"PRIVATE KEY-----";

/// How many characters of a beginning are looked at first, and at every which place.
const GRAM: usize = 3;
const STRIDE: usize = 2;
/// So many that most places that pass by chance find an empty one.
const BUCKETS: usize = 256;

/// Finds the beginnings of all formats.
pub(crate) struct Beginnings {
    filter: GramFilter<GRAM, STRIDE>,
    /// By a hash of the first characters.
    buckets: Vec<Vec<&'static Format>>,
}

// === impl Beginnings ===

impl Beginnings {
    pub(crate) fn new() -> Self {
        let mut grams = Vec::new();
        for format in &FORMATS {
            let begins = format.begins.as_bytes();
            grams.push(gram::<GRAM>(begins, 0));
            match begins.len() {
                // Any character may follow a short one.
                GRAM => grams.extend((0..=u8::MAX).map(|next| gram::<GRAM>(&[begins[1], begins[2], next], 0))),
                _ => grams.push(gram::<GRAM>(begins, 1)),
            }
        }
        let mut buckets = vec![Vec::new(); BUCKETS];
        for format in &FORMATS {
            buckets[bucket(format.begins.as_bytes(), 0)].push(format);
        }
        Self { filter: GramFilter::new(&grams), buckets }
    }

    /// Where they begin, in order, and of those at one place the more precise last.
    pub(crate) fn each(&self, text: &[u8], mut found: impl FnMut(usize, &'static Format)) {
        for at in self.filter.passing(text) {
            for start in at.saturating_sub(1)..=at {
                for format in &self.buckets[bucket(text, start)] {
                    if text[start..].starts_with(format.begins.as_bytes()) {
                        found(start, format);
                    }
                }
            }
        }
    }
}

fn bucket(text: &[u8], at: usize) -> usize {
    let hash = filter::hash(gram::<GRAM>(text, at), 0);
    usize::try_from(hash).unwrap_or_default() % BUCKETS
}

// === impl Format ===

const fn run(name: &'static str, begins: &'static str, set: Set, least: usize, most: usize) -> Format {
    Format { name, begins, tail: Tail::Run { set, least, most } }
}

const fn mixed(name: &'static str, begins: &'static str, set: Set, least: usize) -> Format {
    Format { name, begins, tail: Tail::Mixed { set, least } }
}

impl Format {
    /// Where a token ends whose beginning stands at `start`; `None` where there is none.
    pub(crate) fn end(&self, text: &[u8], start: usize, runs: &mut RunEnds) -> Option<usize> {
        let is_pem = matches!(self.tail, Tail::Pem);
        if !is_pem && start > 0 && Set::Word.has(text[start - 1]) && !is_escape(text, start - 1) {
            return None;
        }
        let tail = start + self.begins.len();
        match self.tail {
            Tail::Run { set, least, most } => {
                Some(runs.end(text, tail, set)).filter(|end| (least..=most).contains(&(end - tail)))
            }
            Tail::Mixed { set, least } => Some(runs.end(text, tail, set)).filter(|end| {
                let tail = &text[tail..*end];
                let looked_at = &tail[..tail.len().min(MIXED)];
                tail.len() >= least
                    && looked_at.iter().filter(|byte| byte.is_ascii_digit()).count() >= 3
                    && looked_at.iter().any(u8::is_ascii_alphabetic)
            }),
            Tail::Parts => parts(text, tail, runs),
            Tail::Pem => Some(memmem::find(&text[tail..], PEM_END).map_or(tail, |end| tail + end + PEM_END.len())),
        }
    }
}

/// Whether the byte belongs to an escape of JSON such as `\n`, after which a token may well begin.
fn is_escape(text: &[u8], at: usize) -> bool {
    let before = text[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
    before % 2 == 1
}

/// Where a signed token ends, of which the first part has begun before `tail`.
fn parts(text: &[u8], tail: usize, runs: &mut RunEnds) -> Option<usize> {
    let mut at = tail;
    for part in 0..3 {
        let end = runs.end(text, at, Set::Name);
        if end - at < PART {
            return None;
        }
        at = end;
        if part < 2 {
            if text.get(at) != Some(&b'.') {
                return None;
            }
            at += 1;
        }
    }
    Some(at)
}

// === impl Set ===

impl Set {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Alphanumeric => byte.is_ascii_alphanumeric(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hexadecimal => byte.is_ascii_hexdigit(),
            Self::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Self::Dashed => byte.is_ascii_alphanumeric() || byte == b'-',
            Self::Name => byte.is_ascii_alphanumeric() || b"_-".contains(&byte),
            Self::Dotted => byte.is_ascii_alphanumeric() || b"_-.".contains(&byte),
        }
    }
}

// === impl RunEnds ===

impl RunEnds {
    /// Where the run of such characters ends that a place lies in; that place itself if it lies in none.
    fn end(&mut self, text: &[u8], at: usize, set: Set) -> usize {
        let known = self.ends.range((set, 0)..=(set, at)).next_back();
        if let Some(end) = known.map(|(_, end)| *end).filter(|end| at < *end) {
            return end;
        }
        let end = at + text[at..].iter().take_while(|byte| set.has(**byte)).count();
        self.ends.insert((set, at), end);
        end
    }
}
