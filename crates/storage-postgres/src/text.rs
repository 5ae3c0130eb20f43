//! Text from outside in TEXT columns.
//!
//! Postgres refuses the NUL character in text, while a model, a network or a caller may well send one; a run must not
//! be stuck because of it. So NUL is stored as two characters that are unlikely in real text, and comes back as it
//! was. Columns that hold JSON need none of this: JSON writes NUL as an escape.

use std::borrow::Cow;

/// Introduces an escape. A text that has it by itself is escaped too, so that every text comes back exactly.
const MARK: char = '\u{1}';

/// What is stored for `text`. Two texts never share a stored form: keys stay keys.
pub(crate) fn store(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', MARK]) {
        return Cow::Borrowed(text);
    }
    let mut stored = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => stored.extend([MARK, '0']),
            MARK => stored.extend([MARK, '1']),
            other => stored.push(other),
        }
    }
    Cow::Owned(stored)
}

/// The text that was stored.
pub(crate) fn restore(stored: String) -> String {
    if !stored.contains(MARK) {
        return stored;
    }
    let mut text = String::with_capacity(stored.len());
    let mut characters = stored.chars();
    while let Some(character) = characters.next() {
        if character != MARK {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('0') => text.push('\0'),
            Some('1') | None => text.push(MARK),
            // Not written by us; shown as it is.
            Some(other) => text.extend([MARK, other]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_text_is_stored_as_it_is() {
        assert!(matches!(store("hi 你好\n"), Cow::Borrowed("hi 你好\n")));
    }

    proptest! {
        #[test]
        fn any_text_comes_back_and_never_holds_a_nul(text in "[\\x00\\x0101a\u{4f60}]{0,12}") {
            let stored = store(&text).into_owned();
            prop_assert!(!stored.contains('\0'));
            prop_assert_eq!(restore(stored), text);
        }

        #[test]
        fn two_texts_never_share_a_stored_form(a in "[\\x00\\x0101]{0,6}", b in "[\\x00\\x0101]{0,6}") {
            prop_assert_eq!(a == b, store(&a) == store(&b));
        }
    }
}
