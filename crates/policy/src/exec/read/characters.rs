//! Characters that hide, move or imitate text.

use super::Reason;

/// Refuses text that does not look like what it is.
pub(super) fn check(text: &str) -> Result<(), Reason> {
    for character in text.chars() {
        if character == '\r' {
            return Err("it has a carriage return".to_owned());
        }
        if character.is_control() && !matches!(character, '\n' | '\t') {
            return Err(format!("it has the control character U+{:04X}", u32::from(character)));
        }
        if is_invisible(character) {
            return Err(format!("it has the invisible character U+{:04X}", u32::from(character)));
        }
    }
    Ok(())
}

/// Formatting, filling and separating characters, and those with no shape of their own.
fn is_invisible(character: char) -> bool {
    matches!(u32::from(character),
        0x00AD | 0x034F | 0x061C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
        | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x2800 | 0x3164
        | 0xE000..=0xF8FF | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFD
        | 0x110BD | 0x110CD | 0x13430..=0x1345F | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A
        | 0xE0000..=0x10_FFFF)
        // Spaces that are not the space: some locales split words at them.
        || (character.is_whitespace() && !character.is_ascii())
}
