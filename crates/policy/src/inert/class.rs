//! Characters that are not what they seem: they are invisible, look like a blank, change how their neighbours are
//! shown, or have no agreed look at all.

/// Inclusive ranges, in order.
const DECEPTIVE: &[(u32, u32)] = &[
    (0x0000, 0x001F),     // C0 controls
    (0x007F, 0x00A0),     // delete, C1 controls, no-break space
    (0x00AD, 0x00AD),     // soft hyphen
    (0x0334, 0x0338),     // overlays that strike out what they sit on
    (0x034F, 0x034F),     // grapheme joiner
    (0x0600, 0x0605),     // Arabic signs that spread over the digits after them
    (0x061C, 0x061C),     // Arabic letter mark
    (0x06DD, 0x06DD),     // end of ayah
    (0x070F, 0x070F),     // Syriac abbreviation
    (0x0890, 0x0891),     // Arabic marks above
    (0x08E2, 0x08E2),     // disputed end of ayah
    (0x115F, 0x1160),     // Hangul fillers
    (0x1680, 0x1680),     // Ogham space
    (0x17B4, 0x17B5),     // Khmer inherent vowels
    (0x180B, 0x180F),     // Mongolian selectors
    (0x2000, 0x200F),     // spaces, zero widths, direction marks
    (0x2028, 0x202F),     // line separators, embeddings, overrides, narrow space
    (0x205F, 0x206F),     // spaces, invisible operators, isolates
    (0x20D0, 0x20F0),     // marks that enclose or strike out
    (0x2800, 0x2800),     // blank Braille pattern
    (0x3000, 0x3000),     // ideographic space
    (0x3164, 0x3164),     // Hangul filler
    (0xE000, 0xF8FF),     // private use
    (0xFDD0, 0xFDEF),     // no characters
    (0xFE00, 0xFE0F),     // variation selectors
    (0xFEFF, 0xFEFF),     // byte order mark
    (0xFFA0, 0xFFA0),     // half-width Hangul filler
    (0xFFF0, 0xFFFC),     // annotations, object replacement
    (0xFFFE, 0xFFFF),     // no characters
    (0x110BD, 0x110BD),   // Kaithi number signs
    (0x110CD, 0x110CD),   //
    (0x13430, 0x1345F),   // hieroglyph format controls
    (0x16FE4, 0x16FE4),   // Khitan filler
    (0x1BCA0, 0x1BCA3),   // shorthand format controls
    (0x1D159, 0x1D159),   // null note head
    (0x1D173, 0x1D17A),   // musical format controls
    (0xE0000, 0x10_FFFF), // tags, selectors, private use
];

/// Whether a character may not be shown as it is.
pub(super) fn is_deceptive(character: char) -> bool {
    let code = u32::from(character);
    // The last two of every plane are no characters.
    if code & 0xFFFE == 0xFFFE {
        return true;
    }
    let after = DECEPTIVE.partition_point(|(_, last)| *last < code);
    DECEPTIVE.get(after).is_some_and(|(first, _)| *first <= code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_are_in_order_and_their_ends_belong_to_them() {
        for pair in DECEPTIVE.windows(2) {
            assert!(pair[0].1 + 1 < pair[1].0, "{pair:x?}");
        }
        for (first, last) in DECEPTIVE {
            assert!(first <= last);
            for code in [*first, *last] {
                assert!(char::from_u32(code).is_none_or(is_deceptive), "{code:x}");
            }
            for beside in [first.wrapping_sub(1), last + 1] {
                let plane_end = beside & 0xFFFE == 0xFFFE;
                let shown = char::from_u32(beside).is_none_or(|character| !is_deceptive(character));
                assert!(shown || plane_end, "{beside:x}");
            }
        }
    }

    #[test]
    fn the_last_two_of_every_plane_are_no_characters() {
        for code in [0x1_FFFE, 0x1_FFFF, 0x3_FFFE] {
            assert!(is_deceptive(char::from_u32(code).unwrap()));
        }
        assert!(!is_deceptive(char::from_u32(0x1_FFFD).unwrap()));
    }

    #[test]
    fn letters_and_signs_of_every_script_are_shown() {
        for character in "aZ09~ é ß Ж א ع ह ไ 你 好 한 🙂 ❤ € → \u{FFFD}".chars() {
            assert!(!is_deceptive(character), "{character:?}");
        }
    }
}
