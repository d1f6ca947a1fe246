//! A corpus of messages that take a canary away, in every listed form, nested and split, and of innocent ones. It is made
//! by a generator with a seed; `TOOLCRIB_CORPUS` makes it so many times larger.

use toolcrib_scan::CanaryScanner;
use toolcrib_scan::canary::Piece;

const EXFILTRATIONS: usize = 5_000;
const INNOCENT: usize = 10_000;
const CANARIES: usize = 100;

/// A generator of numbers (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.below(texts.len())]
    }

    fn text(&mut self, alphabet: &str, length: usize) -> String {
        let alphabet = alphabet.as_bytes();
        (0..length).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }

    fn words(&mut self, count: usize) -> String {
        let words: Vec<&str> = (0..count).map(|_| self.of(WORDS)).collect();
        words.join(" ")
    }
}

const WORDS: &[&str] = &[
    "the",
    "report",
    "of",
    "last",
    "quarter",
    "is",
    "ready",
    "please",
    "review",
    "invoice",
    "customer",
    "build",
    "failed",
    "at",
    "line",
    "deploy",
    "to",
    "staging",
    "Ångström",
    "naïve",
    "100%",
    "a&b",
    "C:\\temp",
    "x=y",
    "https://example.com/a?b=c",
    "src/main.rs",
    "SELECT",
    "FROM",
    "orders",
    "WHERE",
    "id",
    "42",
    "3.14",
    "🙂",
    "\"quoted\"",
    "line\nbreak",
    "end.",
];
const BASE32: &str = "abcdefghijklmnopqrstuvwxyz234567";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn tokens(dice: &mut Dice) -> Vec<String> {
    let token = |number: usize, dice: &mut Dice| match number % 4 {
        0 => format!("https://intranet.example.com/d/{}", dice.text(BASE32, 24)),
        1 => format!("AKIA{} {}", dice.text(BASE32, 16).to_uppercase(), dice.text(&BASE64[..62], 40)),
        2 => format!("svc-{}@example.com", dice.text(BASE32, 24)),
        _ => dice.text(BASE32, 24),
    };
    (0..CANARIES).map(|number| token(number, dice)).collect()
}

// What others write.

fn base64(bytes: &[u8], is_url: bool) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(group.get(at).copied().unwrap_or(0)));
        for digit in 0..=group.len() {
            text.push(char::from(BASE64.as_bytes()[(bits >> (18 - 6 * digit) & 63) as usize]));
        }
        if !is_url {
            text.push_str(&"=="[..3 - group.len()]);
        }
    }
    if is_url { text.replace('+', "-").replace('/', "_") } else { text }
}

fn each(text: &str, write: impl Fn(u8) -> String) -> String {
    text.bytes().map(write).collect()
}

/// One of the listed encodings.
fn encoded(text: &str, dice: &mut Dice) -> (&'static str, String) {
    let around = |dice: &mut Dice| dice.text("abcdefgh {}:", 7);
    match dice.below(12) {
        0 => ("plain", text.to_owned()),
        1 => {
            let cases = text
                .bytes()
                .map(|byte| if dice.below(2) == 0 { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() });
            ("any case", String::from_utf8(cases.collect()).unwrap())
        }
        2 | 3 => {
            // At each of the three offsets, alone or within more.
            let length = dice.below(4);
            let before = dice.text(BASE32, length);
            let whole = format!("{before}{text}{}", around(dice));
            ("base64", base64(whole.as_bytes(), dice.below(2) == 0))
        }
        4 => ("hex", each(text, |byte| format!("{byte:02x}"))),
        5 => {
            let separator = dice.of(&[" ", ":", "-", "\\x", ", 0x"]);
            let hex: Vec<String> = text.bytes().map(|byte| format!("{byte:02X}")).collect();
            if separator == ", 0x" { ("hex", hex.concat()) } else { ("hex", hex.join(separator)) }
        }
        6 => ("percent", each(text, |byte| format!("%{byte:02X}"))),
        7 => (
            "percent in part",
            each(text, |byte| if byte % 3 == 0 { format!("%{byte:02x}") } else { char::from(byte).into() }),
        ),
        8 => ("\\u", each(text, |byte| format!("\\u{byte:04x}"))),
        9 => (
            "html",
            match dice.below(3) {
                0 => each(text, |byte| format!("&#{byte};")),
                1 => each(text, |byte| format!("&#x{byte:x};")),
                _ => each(text, |byte| format!("&#X{byte:04X};")),
            },
        ),
        10 => ("reversed", text.chars().rev().collect()),
        _ => {
            let space = dice.of(&[" ", "-", ".", "_", "\u{200b}", "\n", ", "]);
            let spaced: Vec<String> = text.chars().map(String::from).collect();
            ("spaced", spaced.join(space))
        }
    }
}

/// A JSON string; one in two writers escapes more than is needed.
fn string(text: &str, dice: &mut Dice) -> String {
    let is_wordy = dice.below(4) == 0;
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' || is_wordy && c.is_ascii() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out + "\""
}

/// A message with these texts in its fields, among others.
fn message(texts: &[String], dice: &mut Dice) -> String {
    let mut out = String::from("{");
    for (index, text) in texts.iter().enumerate() {
        let (title, count) = (dice.of(WORDS), dice.below(6));
        let words = dice.words(count);
        let filler = string(&words, dice);
        match dice.below(3) {
            0 => out.push_str(&format!("\"f{index}\":{},", string(text, dice))),
            1 => out.push_str(&format!("\"f{index}\":{{\"n\":{},\"v\":[{}]}},", index * 7, string(text, dice))),
            _ => {
                let inner = format!("{{\"title\":{},\"v\":{}}}", string(title, dice), string(text, dice));
                out.push_str(&format!("\"f{index}\":{},", string(&inner, dice)));
            }
        }
        // What is between the pieces must not be between the letters of the canary.
        if index + 1 == texts.len() {
            out.push_str(&format!("\"more\":{filler},"));
        }
    }
    out.push_str("\"last\":null}");
    out
}

fn random_part(token: &str) -> &str {
    let run = token.split(|c: char| !c.is_ascii_alphanumeric()).find(|run| run.len() >= 16).unwrap();
    run.strip_prefix("AKIA").unwrap_or(run)
}

/// The messages of one exfiltration, and what it is.
fn exfiltration(token: &str, dice: &mut Dice) -> (&'static str, Vec<String>) {
    let core = random_part(token);
    let (whole, (name, once)) = (token.to_owned(), encoded(token, dice));
    match dice.below(6) {
        0 | 1 => {
            let around = format!("{} {once} {}", dice.words(5), dice.words(5));
            (name, vec![message(&[around], dice)])
        }
        2 => {
            // base64 or hex of a listed encoding that keeps the token in one piece.
            let inner = match dice.below(5) {
                0 => base64(whole.as_bytes(), false),
                1 => each(&whole, |byte| format!("{byte:02x}")),
                2 => each(&whole, |byte| format!("%{byte:02X}")),
                3 => each(&whole, |byte| format!("&#{byte};")),
                _ => whole.chars().rev().collect(),
            };
            let nested = match dice.below(3) {
                0 => each(&inner, |byte| format!("{byte:02x}")),
                1 => each(&base64(inner.as_bytes(), true), |byte| format!("%{byte:02x}")),
                _ => base64(format!("{}{inner}", &"xy"[..dice.below(3)]).as_bytes(), false),
            };
            ("nested", vec![message(&[nested], dice)])
        }
        3 => {
            // Over fields of one message, in order, in pieces of any length.
            let mut rest = core;
            let mut pieces = Vec::new();
            while !rest.is_empty() {
                let (piece, more) = rest.split_at((1 + dice.below(9)).min(rest.len()));
                pieces.push(piece.to_owned());
                rest = more;
            }
            let list: Vec<String> = pieces.iter().map(|piece| string(piece, dice)).collect();
            ("over fields", vec![format!("{{\"parts\":[{}],\"n\":1}}", list.join(","))])
        }
        4 => {
            // Over fields or calls, in any order, with words around.
            let (first, second) = core.split_at(core.len() / 2);
            let texts: Vec<String> =
                [second, first].map(|piece| format!("{} {piece}! {}", dice.words(2), dice.words(2))).into();
            match dice.below(2) {
                0 => ("over fields", vec![message(&texts, dice)]),
                _ => ("over calls", texts.iter().map(|text| message(std::slice::from_ref(text), dice)).collect()),
            }
        }
        _ => {
            // Pieces of base64 or hex digits over calls.
            let (digits, name) = match dice.below(2) {
                0 => (base64(core.as_bytes(), true), "base64 over calls"),
                _ => (each(core, |byte| format!("{byte:02x}")), "hex over calls"),
            };
            let (first, second) = digits.split_at(digits.len() / 2);
            (name, [first, second].map(|piece| message(&[piece.to_owned()], dice)).into())
        }
    }
}

/// What adds up over the messages of one principal, as those who call do it.
fn is_found(scanner: &CanaryScanner, messages: &[String]) -> bool {
    let mut known: Vec<Piece> = Vec::new();
    for piece in messages.iter().flat_map(|message| scanner.scan(message)) {
        match known.iter_mut().find(|it| it.adds_to(&piece)) {
            Some(it) => it.seen |= piece.seen,
            None => known.push(piece),
        }
    }
    known.iter().any(Piece::is_enough)
}

fn innocent(tokens: &[String], dice: &mut Dice) -> String {
    let (length, digits) = (20 + dice.below(150), "0123456789abcdef");
    let text = match dice.below(10) {
        0 => dice.text(BASE64, length),
        1 => dice.text(digits, 64),
        2 => dice.text(BASE32, length),
        // The canary of somebody else, and what is public of ours.
        3 => format!("https://intranet.example.com/d/{}", dice.text(BASE32, 24)),
        4 => format!("AKIA{}", dice.text(BASE32, 16).to_uppercase()),
        5 => format!("550e8400-e29b-{}-a716-{}", dice.text(digits, 4), dice.text(digits, 12)),
        6 => {
            // The beginning of one of ours, as chance may have it.
            let core = random_part(&tokens[dice.below(tokens.len())]);
            format!("{} {}", dice.words(3), &core[..5])
        }
        7 => each(&dice.words(30), |byte| format!("{byte:02x}")),
        8 => base64(dice.words(60).as_bytes(), false),
        _ => dice.words(length / 4),
    };
    message(&[text, dice.words(8)], dice)
}

fn times() -> usize {
    std::env::var("TOOLCRIB_CORPUS").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

#[test]
fn canaries_are_found_in_every_listed_form_and_innocent_messages_pass() {
    let mut dice = Dice(14);
    let tokens = tokens(&mut dice);
    let scanner = CanaryScanner::new(&tokens);
    let (mut missed, total) = (std::collections::BTreeMap::<&str, Vec<String>>::new(), EXFILTRATIONS * times());
    for number in 0..total {
        let (name, messages) = exfiltration(&tokens[number % CANARIES], &mut dice);
        if !is_found(&scanner, &messages) {
            missed.entry(name).or_default().push(messages.concat().chars().take(200).collect());
        }
    }
    let count: usize = missed.values().map(Vec::len).sum();
    let samples = missed.iter().map(|(name, texts)| format!("{name}: {} such as {}", texts.len(), texts[0]));
    assert!(count * 100 <= total, "{count} of {total} were missed:\n{}", samples.collect::<Vec<_>>().join("\n"));
    // One principal makes all innocent calls: its pieces add up.
    let messages: Vec<String> = (0..INNOCENT * times()).map(|_| innocent(&tokens, &mut dice)).collect();
    assert!(!is_found(&scanner, &messages), "a false alarm");
}
