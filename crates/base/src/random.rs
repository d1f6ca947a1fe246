//! Unguessable texts for sessions and tokens.

use crate::Secret;

/// 128 random bits as 32 hexadecimal digits, from the operating system.
///
/// # Panics
/// When the operating system has no randomness to give; nothing that needs a secret may go on then.
pub fn hex_128() -> String {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes.iter().fold(String::with_capacity(32), |mut text, byte| {
        use std::fmt::Write;
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// 256 random bits as a secret of 64 hexadecimal digits.
pub fn token() -> Secret {
    Secret::new(hex_128() + &hex_128())
}

/// A random number below `bound`, for jitter; 0 when `bound` is 0. Slightly biased, so not for keys.
pub fn below(bound: u64) -> u64 {
    let mut bytes = [0_u8; 8];
    if bound == 0 || getrandom::fill(&mut bytes).is_err() {
        return 0;
    }
    u64::from_le_bytes(bytes) % bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_texts_differ_and_have_their_length() {
        assert_eq!(hex_128().len(), 32);
        assert_ne!(hex_128(), hex_128());
        assert_eq!(token().expose().len(), 64);
        assert_eq!(below(0), 0);
        assert!((0..100).all(|_| below(7) < 7));
    }
}
