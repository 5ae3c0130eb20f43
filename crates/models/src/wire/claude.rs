//! What a Claude takes, told by its name: each generation changed how thinking is asked for. Whoever serves it, Anthropic
//! or Amazon, passes the same fields on to it.

use serde_json::{Map, Value, json};
use tidegate_protocol::{Block, Message, ThinkingLevel};

use super::pieces::answer_limit;
use crate::catalogue::ModelInfo;
use crate::request::{Request, ToolChoice};
use crate::thinking::{budget, effort};

/// The smallest budget Anthropic takes.
const LEAST_BUDGET: u32 = 1024;

/// A model's generation; nothing is known of models with other names, which copy the older ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::wire) struct Generation {
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
    pub(in crate::wire) fn of(model: &str) -> Self {
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

    /// Whether it is a Claude at all.
    pub(in crate::wire) fn is_known(self) -> bool {
        self.version > (0, 0)
    }

    pub(in crate::wire) fn is_at_least(self, major: u32, minor: u32) -> bool {
        self.version >= (major, minor)
    }

    /// Decides itself how much to think, for an effort instead of a budget.
    pub(in crate::wire) fn thinks_adaptively(self) -> bool {
        self.version >= (4, 6)
    }

    /// Keeps its thoughts to itself unless asked to show them.
    fn hides_thoughts(self) -> bool {
        self.version >= (4, 7)
    }

    /// Refuses a temperature.
    fn has_no_temperature(self) -> bool {
        self.version >= (4, 7)
    }

    /// Thinks unless told not to.
    fn must_be_told_not_to_think(self) -> bool {
        self.version >= (5, 0) && self.family != Family::AlwaysThinking
    }

    /// The effort's name for a model that thinks adaptively.
    fn effort(self, level: ThinkingLevel) -> &'static str {
        match level {
            ThinkingLevel::Off | ThinkingLevel::Minimal => "low",
            ThinkingLevel::Xhigh if self.version >= (4, 7) => "xhigh",
            ThinkingLevel::Xhigh if self.family == Family::Opus => "max",
            ThinkingLevel::Xhigh => "high",
            level => effort(level),
        }
    }

    /// How many tokens, how much thought, and the temperature that goes with it. `conversation` is what will be sent.
    pub(in crate::wire) fn plan(
        self,
        request: &Request,
        model: &ModelInfo,
        conversation: &[Message],
    ) -> Plan {
        let options = &request.options;
        let base = answer_limit(options, model);
        // A model that must call a tool may not think before it.
        let forced = matches!(options.tool_choice, ToolChoice::Required | ToolChoice::Named(_))
            && model.tools
            && !request.tools.is_empty();
        let wanted = model.reasoning && options.thinking != ThinkingLevel::Off && !forced;
        let room = budget(options.thinking, base, model.max_tokens);
        let mut plan = Plan { max_tokens: base, fields: Map::new(), temperature: None };
        if wanted && self.thinks_adaptively() {
            let mut thinking = json!({ "type": "adaptive" });
            if self.hides_thoughts() {
                thinking["display"] = "summarized".into();
            }
            plan.fields.insert("thinking".to_owned(), thinking);
            let effort = json!({ "effort": self.effort(options.thinking) });
            plan.fields.insert("output_config".to_owned(), effort);
            return plan;
        }
        if wanted && room.thinking >= LEAST_BUDGET && !continues_without_thought(conversation) {
            plan.max_tokens = room.max_tokens;
            let thinking = json!({ "type": "enabled", "budget_tokens": room.thinking });
            plan.fields.insert("thinking".to_owned(), thinking);
            return plan;
        }
        if model.reasoning && self.must_be_told_not_to_think() {
            plan.fields.insert("thinking".to_owned(), json!({ "type": "disabled" }));
        }
        plan.temperature = options.temperature.filter(|_| !self.has_no_temperature());
        plan
    }
}

/// What a Claude is told about one answer.
pub(in crate::wire) struct Plan {
    pub(in crate::wire) max_tokens: u32,
    /// `thinking` and `output_config`, as Anthropic writes them.
    pub(in crate::wire) fields: Map<String, Value>,
    pub(in crate::wire) temperature: Option<f32>,
}

impl Plan {
    pub(in crate::wire) fn thinks_within_a_budget(&self) -> bool {
        self.fields.get("thinking").is_some_and(|thinking| thinking["type"] == "enabled")
    }
}

/// Whether the answer goes on after calls that were made without a thought, as another model made them. A budget for
/// thoughts is refused then until a person speaks again.
fn continues_without_thought(conversation: &[Message]) -> bool {
    let is_result = |message: &Message| matches!(message, Message::ToolResult { .. });
    // A person who speaks right after a result speaks within the same turn.
    let begins = |at: usize| {
        matches!(conversation[at], Message::User { .. }) && !(at > 0 && is_result(&conversation[at - 1]))
    };
    let begin = (0..conversation.len()).rev().find(|at| begins(*at)).unwrap_or(0);
    let answer = conversation[begin..].iter().find(|message| matches!(message, Message::Assistant { .. }));
    let blocks = answer.map(Message::content).unwrap_or_default();
    let proven = matches!(blocks.first(), Some(Block::Thinking { thinking_signature: Some(proof), .. }) if !proof.is_empty());
    blocks.iter().any(|block| matches!(block, Block::ToolCall { .. })) && !proven
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
