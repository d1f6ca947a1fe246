//! Formats of tokens that well-known services give out: a beginning that nothing else has, and what follows it.
//!
//! To add one, add a row. Its beginning must be rare in texts, and what follows long enough that no word is taken for it.

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
    Run { set: fn(u8) -> bool, least: usize, most: usize },
    /// The same, with letters and digits mixed, so that no words with hyphens between them are taken for it.
    Mixed { set: fn(u8) -> bool, least: usize },
    /// Three parts with dots between them, as in signed tokens.
    Parts,
    /// Everything up to the end of a private key in PEM.
    Pem,
}

/// Every format.
pub static FORMATS: [Format; 34] = [
    run("github-token", "ghp_", alphanumeric, 36, 255),
    run("github-token", "gho_", alphanumeric, 36, 255),
    run("github-token", "ghu_", alphanumeric, 36, 255),
    run("github-token", "ghs_", alphanumeric, 36, 255),
    run("github-token", "ghr_", alphanumeric, 36, 255),
    run("github-token", "github_pat_", word, 50, 255),
    run("gitlab-token", "glpat-", name, 20, 64),
    mixed("slack-token", "xoxb-", dashed, 20),
    mixed("slack-token", "xoxp-", dashed, 20),
    mixed("slack-token", "xoxa-", dashed, 20),
    mixed("slack-token", "xapp-", dashed, 20),
    run("aws-access-key", "AKIA", upper, 16, 16),
    run("aws-access-key", "ASIA", upper, 16, 16),
    run("google-api-key", "AIza", name, 35, 35),
    mixed("google-token", "ya29.", dotted, 40),
    mixed("anthropic-key", "sk-ant-", name, 40),
    mixed("openai-key", "sk-", name, 32),
    run("stripe-key", "sk_live_", alphanumeric, 24, 255),
    run("stripe-key", "rk_live_", alphanumeric, 24, 255),
    run("npm-token", "npm_", alphanumeric, 36, 36),
    run("pypi-token", "pypi-AgEI", name, 50, 255),
    run("huggingface-token", "hf_", alphanumeric, 34, 40),
    run("digitalocean-token", "dop_v1_", hexadecimal, 64, 64),
    mixed("sendgrid-key", "SG.", dotted, 60),
    run("shopify-token", "shpat_", hexadecimal, 32, 32),
    run("linear-key", "lin_api_", alphanumeric, 40, 40),
    run("toolcrib-key", "tcb_", hexadecimal, 64, 64),
    run("toolcrib-token", "tca_", hexadecimal, 64, 64),
    mixed("toolcrib-token", "tcr_", dotted, 40),
    Format { name: "signed-token", begins: "eyJ", tail: Tail::Parts },
    Format { name: "private-key", begins: "-----BEGIN PRIVATE KEY-----", tail: Tail::Pem },
    Format { name: "private-key", begins: "-----BEGIN RSA PRIVATE KEY-----", tail: Tail::Pem },
    Format { name: "private-key", begins: "-----BEGIN EC PRIVATE KEY-----", tail: Tail::Pem },
    Format { name: "private-key", begins: "-----BEGIN OPENSSH PRIVATE KEY-----", tail: Tail::Pem },
];

/// The shortest part of a signed token: `{}` would be one, and nothing is signed in less.
const PART: usize = 10;
/// What ends a private key.
const PEM_END: &[u8] = b"PRIVATE KEY-----";

// === impl Format ===

const fn run(name: &'static str, begins: &'static str, set: fn(u8) -> bool, least: usize, most: usize) -> Format {
    Format { name, begins, tail: Tail::Run { set, least, most } }
}

const fn mixed(name: &'static str, begins: &'static str, set: fn(u8) -> bool, least: usize) -> Format {
    Format { name, begins, tail: Tail::Mixed { set, least } }
}

impl Format {
    /// Where a token ends whose beginning stands at `start`; `None` where there is none.
    pub(crate) fn end(&self, text: &[u8], start: usize) -> Option<usize> {
        if !matches!(self.tail, Tail::Pem) && start > 0 && word(text[start - 1]) && !is_escape(text, start - 1) {
            return None;
        }
        let rest = &text[start + self.begins.len()..];
        let count = |set: fn(u8) -> bool| rest.iter().take_while(|byte| set(**byte)).count();
        let length = match self.tail {
            Tail::Run { set, least, most } => Some(count(set)).filter(|length| (least..=most).contains(length)),
            Tail::Mixed { set, least } => Some(count(set)).filter(|length| {
                let tail = &rest[..*length];
                *length >= least
                    && tail.iter().filter(|byte| byte.is_ascii_digit()).count() >= 3
                    && tail.iter().any(u8::is_ascii_alphabetic)
            }),
            Tail::Parts => parts(rest),
            Tail::Pem => {
                let end = rest.windows(PEM_END.len()).position(|window| window == PEM_END);
                Some(end.map_or(0, |end| end + PEM_END.len()))
            }
        };
        length.map(|length| start + self.begins.len() + length)
    }
}

/// Whether the byte belongs to an escape of JSON such as `\n`, after which a token may well begin.
fn is_escape(text: &[u8], at: usize) -> bool {
    let before = text[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
    before % 2 == 1
}

/// How long the rest of a signed token is: its first part has begun.
fn parts(rest: &[u8]) -> Option<usize> {
    let mut length = 0;
    for part in 0..3 {
        let run = rest[length..].iter().take_while(|byte| name(**byte)).count();
        if run < PART {
            return None;
        }
        length += run;
        if part < 2 {
            if rest.get(length) != Some(&b'.') {
                return None;
            }
            length += 1;
        }
    }
    Some(length)
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn hexadecimal(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn dashed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn name(byte: u8) -> bool {
    word(byte) || byte == b'-'
}

fn dotted(byte: u8) -> bool {
    name(byte) || byte == b'.'
}
