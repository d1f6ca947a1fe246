//! Characters that a screen does not show, or shows as something else.

/// Whether a character is a control, has no width, changes the direction, looks like a blank, or means nothing to all.
pub fn is_hidden(c: char) -> bool {
    if c == ' ' || c.is_ascii_graphic() {
        return false;
    }
    c.is_control()
        || c.is_whitespace()
        || matches!(u32::from(c),
            // Soft hyphen, joiners, and what Unicode calls format characters (category Cf).
            0xAD | 0x034F | 0x0600..=0x0605 | 0x061C | 0x06DD | 0x070F | 0x0890..=0x0891 | 0x08E2 | 0x180B..=0x180F
            | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0xFEFF | 0xFFF0..=0xFFFB | 0x110BD | 0x110CD
            | 0x13430..=0x1343F | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A
            // Fillers and blanks that are letters or symbols to Unicode.
            | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x2800 | 0x3164 | 0xFFA0
            // Variation selectors and tags carry whole texts that no one sees.
            | 0xFE00..=0xFE0F | 0xE0000..=0xE0FFF
            // Private use, and what is no character.
            | 0xE000..=0xF8FF | 0xFFFE..=0xFFFF | 0xF0000..=0x10_FFFF)
}
