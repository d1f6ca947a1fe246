//! Names of others as parts of ids of principals.

/// A name as a part of a principal's id: what could be mistaken for another part, or is not plain, as `%XX`.
pub fn encoded(name: &str) -> String {
    use std::fmt::Write as _;
    name.bytes().fold(String::with_capacity(name.len()), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~@|:".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}
