//! Joins blocks that are too short to be messages of their own. Pure: whoever owns it tells it how long
//! nothing came.

use std::time::Duration;

use super::chunk::Preference;

/// When joined blocks are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coalescing {
    /// Fewer characters than this wait for more, however long nothing comes.
    pub min: usize,
    /// No more characters than this are joined.
    pub max: usize,
    /// Enough characters are sent when nothing came for this long.
    pub idle: Duration,
    /// What stands between two blocks.
    pub joiner: &'static str,
}

impl Default for Coalescing {
    fn default() -> Self {
        let idle = Duration::from_secs(1);
        Self { min: 800, max: 1200, idle, joiner: joiner(Preference::default()) }
    }
}

impl Coalescing {
    /// The same with the joiner that puts back what was cut there.
    pub fn joining(self, preference: Preference) -> Self {
        Self { joiner: joiner(preference), ..self }
    }
}

fn joiner(preference: Preference) -> &'static str {
    match preference {
        Preference::Paragraph => "\n\n",
        Preference::Newline => "\n",
        Preference::Sentence => " ",
    }
}

/// What is sent as one message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Portion {
    pub text: String,
    pub media: Vec<String>,
    /// The message it answers.
    pub reply_to: Option<String>,
    pub audio_as_voice: bool,
}

impl Portion {
    fn is_like(&self, other: &Self) -> bool {
        self.reply_to == other.reply_to && self.audio_as_voice == other.audio_as_voice
    }
}

/// Holds one portion that may still grow.
#[derive(Debug, Default)]
pub struct Coalescer {
    coalescing: Coalescing,
    held: Option<Portion>,
}

impl Coalescer {
    pub fn new(coalescing: Coalescing) -> Self {
        Self { coalescing, held: None }
    }

    /// Takes the next portion, returns those to be sent now, in order.
    pub fn push(&mut self, portion: Portion) -> Vec<Portion> {
        let mut ready = Vec::new();
        // Media are not joined with anything, and nothing passes them by.
        if !portion.media.is_empty() {
            ready.extend(self.flush());
            ready.push(portion);
            return ready;
        }
        if portion.text.trim().is_empty() {
            return ready;
        }
        let joined = match &self.held {
            Some(held) if held.is_like(&portion) => {
                let text = [&held.text, self.coalescing.joiner, &portion.text].concat();
                (length(&text) <= self.coalescing.max).then_some(text)
            }
            _ => None,
        };
        if let Some(text) = joined {
            self.held = Some(Portion { text, ..portion });
        } else {
            ready.extend(self.held.replace(portion));
        }
        if self.held_length() >= self.coalescing.max {
            ready.extend(self.flush());
        }
        ready
    }

    /// Nothing came for so long: returns what is held if it is time and there is enough of it.
    pub fn idle(&mut self, waited: Duration) -> Option<Portion> {
        let is_due = waited >= self.coalescing.idle && self.held_length() >= self.coalescing.min;
        if is_due { self.flush() } else { None }
    }

    /// Returns what is held: the text is over, or a tool begins.
    pub fn flush(&mut self) -> Option<Portion> {
        self.held.take()
    }

    fn held_length(&self) -> usize {
        self.held.as_ref().map_or(0, |held| length(&held.text))
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn coalescer() -> Coalescer {
        let coalescing = Coalescing { min: 5, max: 12, ..Coalescing::default() };
        Coalescer::new(coalescing.joining(Preference::Newline))
    }

    fn text(text: &str) -> Portion {
        Portion { text: text.to_owned(), ..Portion::default() }
    }

    #[test]
    fn short_blocks_are_joined_until_the_next_does_not_fit() {
        let mut coalescer = coalescer();
        assert_eq!(coalescer.push(text("one")), []);
        assert_eq!(coalescer.push(text("two")), []);
        assert_eq!(coalescer.push(text("  ")), []);
        assert_eq!(coalescer.push(text("three!")), [text("one\ntwo")]);
        assert_eq!(coalescer.flush(), Some(text("three!")));
        assert_eq!(coalescer.flush(), None);
    }

    #[test]
    fn what_is_full_does_not_wait() {
        let mut coalescer = coalescer();
        assert_eq!(coalescer.push(text("a")), []);
        let full = text("twelve chars");
        assert_eq!(coalescer.push(full.clone()), [text("a"), full]);
    }

    #[test]
    fn silence_sends_what_is_long_enough() {
        let (short, long) = (Duration::from_millis(999), Duration::from_secs(1));
        let mut coalescer = coalescer();
        assert_eq!(coalescer.idle(long), None);
        coalescer.push(text("four"));
        assert_eq!(coalescer.idle(long), None);
        coalescer.push(text("x"));
        assert_eq!(coalescer.idle(short), None);
        assert_eq!(coalescer.idle(long), Some(text("four\nx")));
    }

    #[test]
    fn media_and_another_target_send_what_came_before() {
        let mut coalescer = coalescer();
        let picture = Portion { media: vec!["/a.png".to_owned()], ..text("look") };
        let answer = Portion { reply_to: Some("m1".to_owned()), ..text("a") };
        let spoken = Portion { audio_as_voice: true, ..answer.clone() };
        coalescer.push(text("one"));
        assert_eq!(coalescer.push(picture.clone()), [text("one"), picture]);
        coalescer.push(text("two"));
        assert_eq!(coalescer.push(answer.clone()), [text("two")]);
        assert_eq!(coalescer.push(spoken.clone()), [answer]);
        assert_eq!(coalescer.flush(), Some(spoken));
    }

    proptest! {
        #[test]
        fn every_block_is_sent_once_and_in_order(blocks in prop::collection::vec("[a-z]{1,15}", 0..20)) {
            let mut coalescer = coalescer();
            let mut sent: Vec<_> = blocks.iter().flat_map(|block| coalescer.push(text(block))).collect();
            sent.extend(coalescer.flush());
            let joined: Vec<_> = sent.iter().map(|portion| portion.text.as_str()).collect();
            prop_assert_eq!(joined.join("\n"), blocks.join("\n"));
        }
    }
}
