//! The end of the filter: `NO_REPLY` beside words is taken out, and an answer that is nothing else comes in one piece.

use super::tokens::{certain, may_turn_silent, spoken, without_leading, without_trailing};

/// Holds back what may become the token, at the beginning of a text and at its end.
#[derive(Debug, Default)]
pub(super) struct Silence {
    held: String,
    /// The last character that was let through.
    last: Option<char>,
}

impl Silence {
    /// Takes more of the text, returns what is certain.
    pub(super) fn push(&mut self, more: &str) -> String {
        self.held.push_str(more);
        if self.last.is_none() && may_turn_silent(&self.held) {
            return String::new();
        }
        let rest = self.held.split_off(certain(&self.held, self.last));
        let sure = std::mem::replace(&mut self.held, rest);
        let said = if self.last.is_none() { without_leading(&sure) } else { &sure };
        if said.is_empty() {
            self.held.insert_str(0, &sure);
            return String::new();
        }
        self.last = said.chars().next_back();
        said.to_owned()
    }

    /// The text is over. Of one that is silent the token is left, whole: whoever shows or sends it can tell.
    pub(super) fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if self.last.is_some() {
            return without_trailing(&held, self.last).to_owned();
        }
        let said = spoken(&held);
        if said.is_empty() { held } else { said.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(text: &str, size: usize) -> Vec<String> {
        let mut silence = Silence::default();
        let characters: Vec<char> = text.chars().collect();
        let portions = characters.chunks(size).map(|portion| portion.iter().collect::<String>());
        let mut pieces: Vec<String> = portions.map(|portion| silence.push(&portion)).collect();
        pieces.push(silence.finish());
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }

    #[test]
    fn the_token_is_never_seen_in_parts() {
        for size in 1..12 {
            assert_eq!(pieces("NO_REPLY", size), ["NO_REPLY"]);
            assert_eq!(pieces("**NO_REPLY**", size), ["**NO_REPLY**"]);
            assert_eq!(pieces("Finished. NO_REPLY", size).concat(), "Finished.");
            assert_eq!(pieces("NO_REPLY so", size).concat(), "so");
        }
    }

    #[test]
    fn only_what_may_become_the_token_waits() {
        let mut silence = Silence::default();
        assert_eq!(silence.push("NO"), "");
        assert_eq!(silence.push("TE: it is N"), "NOTE: it is");
        assert_eq!(silence.push("ew."), " New.");
        assert_eq!(silence.finish(), "");
    }

    fn any_text() -> impl Strategy<Value = String> {
        let parts = vec![
            "NO_REPLY", "NO", "_REPLY", "N", "_", " ", "\n", "*", "**", "~", "`", ".", "!", "x", "word",
            "好", "🎉", "1",
        ];
        prop::collection::vec(prop::sample::select(parts), 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn what_is_said_does_not_depend_on_where_it_is_cut(text in any_text(), size in 1..9usize) {
            // The stage before this one trims.
            let text = text.trim();
            let said = spoken(text);
            let expected = if said.is_empty() { text } else { said };
            prop_assert_eq!(pieces(text, size).concat(), expected);
        }

        #[test]
        fn silence_is_one_piece(before in "[*~ ]{0,3}", after in "[*~.! ]{0,3}", size in 1..9usize) {
            let text = format!("{before}NO_REPLY{after}");
            prop_assert_eq!(pieces(text.trim(), size), [text.trim()]);
        }
    }
}
