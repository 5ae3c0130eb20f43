//! What a Claude takes, told by its name: each generation changed how thinking is asked for.

use tidegate_protocol::ThinkingLevel;

use crate::thinking::effort;

/// A model's generation; nothing is known of models with other names, which copy the older ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation {
    version: (u32, u32),
    family: Family,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Opus,
    /// Thinks always, and refuses to be told not to.
    AlwaysThinking,
    Other,
}

impl Generation {
    pub(super) fn of(model: &str) -> Self {
        let model = model.to_ascii_lowercase();
        let Some((_, name)) = model.rsplit_once("claude-") else {
            return Self { version: (0, 0), family: Family::Other };
        };
        let words = || name.split(['-', '.', ':', '@', '_']);
        // A date has more digits than a version.
        let number = |word: &str| word.parse::<u32>().ok().filter(|_| word.len() <= 2);
        let mut from_version = words().skip_while(|word| number(word).is_none());
        let mut next = || from_version.next().and_then(number);
        let version = next().map(|major| (major, next().unwrap_or_default()));
        let family = match words().find(|word| word.chars().all(char::is_alphabetic)) {
            Some("opus") => Family::Opus,
            Some("mythos" | "fable") => Family::AlwaysThinking,
            _ => Family::Other,
        };
        // A preview of that family has no number.
        let unnumbered = if family == Family::AlwaysThinking { (5, 0) } else { (0, 0) };
        Self { version: version.unwrap_or(unnumbered), family }
    }

    /// Decides itself how much to think, for an effort instead of a budget.
    pub(super) fn thinks_adaptively(self) -> bool {
        self.version >= (4, 6)
    }

    /// Keeps its thoughts to itself unless asked to show them.
    pub(super) fn hides_thoughts(self) -> bool {
        self.version >= (4, 7)
    }

    /// Refuses a temperature.
    pub(super) fn has_no_temperature(self) -> bool {
        self.version >= (4, 7)
    }

    /// Thinks unless told not to.
    pub(super) fn must_be_told_not_to_think(self) -> bool {
        self.version >= (5, 0) && self.family != Family::AlwaysThinking
    }

    /// The effort's name for a model that thinks adaptively.
    pub(super) fn effort(self, level: ThinkingLevel) -> &'static str {
        match level {
            ThinkingLevel::Off | ThinkingLevel::Minimal => "low",
            ThinkingLevel::Xhigh if self.version >= (4, 7) => "xhigh",
            ThinkingLevel::Xhigh if self.family == Family::Opus => "max",
            ThinkingLevel::Xhigh => "high",
            level => effort(level),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_read_from_any_spelling() {
        for (model, version) in [
            ("claude-opus-4-6", (4, 6)),
            ("claude-sonnet-4-5-20250929", (4, 5)),
            ("claude-sonnet-4-20250514", (4, 0)),
            ("claude-3-7-sonnet-20250219", (3, 7)),
            ("claude-3-5-haiku@20241022", (3, 5)),
            ("claude-opus-4.7", (4, 7)),
            ("anthropic/claude-opus-4.6", (4, 6)),
            ("us.anthropic.claude-opus-4-6-v1:0", (4, 6)),
            ("claude-opus-5", (5, 0)),
            ("claude-fable-5-1", (5, 1)),
            ("claude-mythos-preview", (5, 0)),
            ("MiniMax-M2.5", (0, 0)),
            ("kimi-k2-5", (0, 0)),
            ("", (0, 0)),
        ] {
            assert_eq!(Generation::of(model).version, version, "{model}");
        }
    }

    #[test]
    fn the_highest_effort_has_another_name_in_each_generation() {
        let xhigh = |model| Generation::of(model).effort(ThinkingLevel::Xhigh);
        let models = ["claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-7", "claude-opus-5"];
        assert_eq!(models.map(xhigh), ["max", "high", "xhigh", "xhigh"]);
    }
}
