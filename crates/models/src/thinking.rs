//! Thinking levels, as people write them and as models take them.

use tidegate_protocol::ThinkingLevel;

/// Tokens of a whole answer, and how many of them are for thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) max_tokens: u32,
    pub(crate) thinking: u32,
}

/// Room for thinking, added to that for the answer as far as the model has it.
pub(crate) fn budget(level: ThinkingLevel, base: u32, model_max: u32) -> Budget {
    let thinking = match level {
        ThinkingLevel::Off => 0,
        ThinkingLevel::Minimal => 1024,
        ThinkingLevel::Low => 2048,
        ThinkingLevel::Medium => 8192,
        ThinkingLevel::High | ThinkingLevel::Xhigh => 16384,
    };
    let max_tokens = base.saturating_add(thinking).min(model_max);
    let thinking = if max_tokens <= thinking { max_tokens.saturating_sub(1024) } else { thinking };
    Budget { max_tokens, thinking }
}

/// The level's name where a provider takes names.
pub(crate) fn effort(level: ThinkingLevel) -> &'static str {
    match level {
        ThinkingLevel::Off | ThinkingLevel::Minimal => "minimal",
        ThinkingLevel::Low => "low",
        ThinkingLevel::Medium => "medium",
        ThinkingLevel::High => "high",
        ThinkingLevel::Xhigh => "xhigh",
    }
}

pub(crate) fn supported_in(_error: &str) -> Option<Vec<ThinkingLevel>> {
    None
}

pub fn parse_level(_text: &str) -> Option<ThinkingLevel> {
    None
}
