//! The tokens of canaries: they look like something worth taking and open nothing.

use toolcrib_base::{Secret, random};

/// How many random characters a canary has, of 32 kinds: 120 bits.
const RANDOM: usize = 24;
/// The same of a key of AWS, whose length is given, and of its secret.
const AWS_ID: usize = 16;
const AWS_SECRET: usize = 40;
const LOWER: &[u8] = b"abcdefghijklmnopqrstuvwxyz234567";
const UPPER: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const MIXED: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// What a canary looks like.
pub const KINDS: [&str; 4] = ["url", "aws", "email", "text"];

/// A new token of a kind; `None` where there is no such kind.
pub fn token(kind: &str) -> Option<Secret> {
    Some(Secret::new(match kind {
        "url" => format!("https://intranet.example.com/d/{}", letters(LOWER, RANDOM)),
        "aws" => {
            let (id, secret) = (letters(UPPER, AWS_ID), letters(MIXED, AWS_SECRET));
            format!("aws_access_key_id = AKIA{id}\naws_secret_access_key = {secret}")
        }
        "email" => format!("svc-{}@example.com", letters(LOWER, RANDOM)),
        "text" => letters(LOWER, RANDOM),
        _ => return None,
    }))
}

fn letters(alphabet: &[u8], count: usize) -> String {
    let mut text = String::with_capacity(count);
    while text.len() < count {
        let digits = random::hex_128();
        let bytes =
            digits.as_bytes().chunks(2).filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        // No letter is more likely than another.
        let even = bytes.filter(|byte| usize::from(*byte) < 256 / alphabet.len() * alphabet.len());
        text.extend(even.map(|byte| char::from(alphabet[usize::from(byte) % alphabet.len()])).take(count - text.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use toolcrib_scan::CanaryScanner;

    use super::*;

    #[test]
    fn every_kind_is_found_by_what_is_random_of_it() {
        for kind in KINDS {
            let (one, other) = (token(kind).unwrap(), token(kind).unwrap());
            let scanner = CanaryScanner::new(&[one.expose()]);
            let found = |token: &Secret| scanner.scan(&serde_json::json!([token.expose()]).to_string());
            assert!(
                found(&one).iter().all(toolcrib_scan::canary::Piece::is_enough) && !found(&one).is_empty(),
                "{kind}"
            );
            assert_eq!(found(&other), [], "{kind}");
        }
        assert!(token("gif").is_none());
        assert_eq!(letters(LOWER, 100).len(), 100);
    }
}
