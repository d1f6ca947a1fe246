//! Numbers of bytes as people write them: `4096`, `64KiB`, `4MiB`.

use std::fmt;
use std::str::FromStr;

/// The largest one: more than any message may have.
const LARGEST: u64 = 1 << 30;
const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Why a text is not a number of bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a number of bytes above 0 such as `4096`, `64KiB` or `4MiB`, at most `1GiB`")]
pub struct SizeError;

/// A number of bytes, at least one and at most a GiB. Prints in the largest unit that it is whole in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u32);

// === impl Size ===

impl Size {
    /// The number.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl crate::reader::TextPattern for Size {
    const PATTERN: &'static str = "^[0-9]+(KiB|MiB|GiB)?$";
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let unit = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
        let (digits, size) = unit.unwrap_or((text, 1));
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(SizeError);
        }
        let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(size));
        let bytes = bytes.filter(|bytes| (1..=LARGEST).contains(bytes)).ok_or(SizeError)?;
        u32::try_from(bytes).map(Self).map_err(|_| SizeError)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = u64::from(self.0);
        match UNITS.iter().find(|(_, size)| bytes.is_multiple_of(*size)) {
            Some((unit, size)) => write!(f, "{}{unit}", bytes / size),
            None => write!(f, "{bytes}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_printed_as_they_are_written() {
        for (text, bytes) in [("1", 1), ("4096", 4_096), ("64KiB", 65_536), ("3MiB", 3 << 20), ("1GiB", 1 << 30)] {
            assert_eq!(text.parse::<Size>().map(Size::bytes), Ok(bytes), "{text}");
        }
        assert_eq!("2048".parse::<Size>().unwrap().to_string(), "2KiB");
        for wrong in ["", "0", "KiB", "-1", "+1", "1.5MiB", "1 KiB", "1kb", "2GiB", "99999999999999999999"] {
            assert_eq!(wrong.parse::<Size>(), Err(SizeError), "{wrong}");
        }
    }
}
