//! What a messaging tool already sent need not be sent again as the answer.

use std::collections::VecDeque;

/// So many texts are remembered.
const MOST_TEXTS: usize = 200;
/// A shorter text says too little to be told from another.
const LEAST_CHARACTERS: usize = 10;

/// A text as it is compared: small letters, no emoji, one blank for many.
pub fn normalize(text: &str) -> String {
    let text: String = text.to_lowercase().chars().filter(|c| !is_emoji(*c)).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether two texts say the same: one contains the other.
pub fn is_duplicate(one: &str, other: &str) -> bool {
    contains_either(&normalize(one), &normalize(other))
}

fn contains_either(one: &str, other: &str) -> bool {
    let is_long = |text: &str| text.chars().nth(LEAST_CHARACTERS - 1).is_some();
    is_long(one) && is_long(other) && (one.contains(other) || other.contains(one))
}

/// Pictures, and the marks that join them.
fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
        | '\u{2194}'..='\u{21aa}' | '\u{231a}'..='\u{23ff}' | '\u{25aa}'..='\u{27bf}'
        | '\u{2934}'..='\u{2935}' | '\u{2b05}'..='\u{2b55}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
        | '\u{1f000}'..='\u{1faff}' | '\u{200d}' | '\u{fe0f}')
}

/// The texts that messaging tools sent in a run, the latest ones.
#[derive(Debug, Clone, Default)]
pub struct SentTexts {
    texts: VecDeque<String>,
}

impl SentTexts {
    /// A tool sent this, and it arrived.
    pub fn note(&mut self, text: &str) {
        if self.texts.len() == MOST_TEXTS {
            self.texts.pop_front();
        }
        self.texts.push_back(normalize(text));
    }

    /// Whether a person has read this already.
    pub fn contains(&self, text: &str) -> bool {
        let text = normalize(text);
        self.texts.iter().any(|sent| contains_either(sent, &text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_without_case_blanks_and_emoji() {
        assert_eq!(normalize("  Hello 👋  World "), "hello world");
        assert_eq!(normalize("Go 👩‍👩‍👧 ❤️ 🇫🇷 ☀️!"), "go !");
        assert_eq!(normalize("你好，世界 #1"), "你好，世界 #1");
    }

    #[test]
    fn a_text_within_another_is_a_duplicate() {
        assert!(is_duplicate("Hello there friend", "hello there friend!"));
        assert!(is_duplicate("I sent the report to Bob as asked", "sent the report to bob"));
        assert!(!is_duplicate("Hello there friend", "hello there, friend"));
    }

    #[test]
    fn short_texts_are_never_duplicates() {
        assert!(!is_duplicate("ok thanks", "ok thanks"));
        assert!(!is_duplicate("all done", "it is all done now"));
        assert!(is_duplicate("ok, thanks", "OK, thanks 🎉"));
    }

    #[test]
    fn the_latest_texts_are_remembered() {
        let mut sent = SentTexts::default();
        assert!(!sent.contains("message number 0 of many"));
        for number in 0..=MOST_TEXTS {
            sent.note(&format!("message number {number} of many"));
        }
        assert!(!sent.contains("Message number 0 of many"));
        assert!(sent.contains("Message number 1 of many"));
        assert!(sent.contains("I said: message number 200 of many!"));
    }
}
