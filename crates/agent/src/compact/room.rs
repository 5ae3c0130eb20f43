//! How the window is shared out between the summary and the lines that stay.

use crate::run::Window;

/// The summary may have so many tokens also where nothing is kept free for answers.
const LEAST_SUMMARY: u64 = 1_024;
/// What stands around a summary in a request.
const WRAPPING: u64 = 100;
/// Not even a window that is full of instructions leaves a summary without a word.
const FEWEST: u64 = 32;

/// Tokens, by our own count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    /// About so many of the newest lines stay.
    pub(super) keep: u64,
    /// At most so many can.
    pub(super) tail: u64,
    /// Of the summary at most.
    pub(super) summary: u64,
}

impl Room {
    /// `tokens` is what the conversation came to, `estimated` what we count of it without the `fixed` part.
    pub(super) fn new(window: &Window, fixed: u64, tokens: u64, estimated: u64) -> Self {
        let line = window.line();
        let free = line.saturating_sub(fixed).max(line / 4);
        let kept_free = window.tokens.saturating_sub(line);
        let summary = (kept_free / 2).max(LEAST_SUMMARY).min(free / 4).max(FEWEST);
        let tail = free.saturating_sub(summary).saturating_sub(WRAPPING.min(free / 8));
        let keep = window.keep_recent.min(free / 2);
        let measured = tokens.saturating_sub(fixed);
        if tokens <= line || measured <= estimated {
            return Self { keep, tail, summary };
        }
        // A token is less than we think: many scripts have more of them a character.
        let scaled = |count: u64| {
            let scaled = u128::from(count) * u128::from(estimated) / u128::from(measured);
            u64::try_from(scaled).unwrap_or(count)
        };
        Self { keep: scaled(keep), tail: scaled(tail), summary }
    }

    /// The summary's bound, as a text is measured.
    pub(super) fn summary_characters(&self) -> usize {
        usize::try_from(self.summary.saturating_mul(4)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::tests::window;

    #[test]
    fn the_usual_window_keeps_what_is_configured() {
        let room = Room::new(&window(200_000), 5_000, 181_000, 176_000);
        assert_eq!(room, Room { keep: 20_000, tail: 164_900, summary: 10_000 });
    }

    #[test]
    fn in_a_small_window_everything_is_smaller() {
        let room = Room::new(&window(16_000), 0, 9_000, 9_000);
        assert_eq!(room, Room { keep: 6_000, tail: 9_900, summary: 2_000 });
        let full_of_instructions = Room::new(&window(16_000), 20_000, 29_000, 9_000);
        assert_eq!(full_of_instructions, Room { keep: 1_500, tail: 2_150, summary: 750 });
    }

    #[test]
    fn less_stays_when_the_model_counts_more_than_we_do() {
        let room = Room::new(&window(200_000), 0, 240_000, 60_000);
        assert_eq!((room.keep, room.tail), (5_000, 42_475));
        // Within the line nothing has to go.
        assert_eq!(Room::new(&window(200_000), 0, 100_000, 60_000).keep, 20_000);
    }
}
