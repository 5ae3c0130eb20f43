//! How much a model thinks: which levels it knows, and what each vendor is told.

use tidegate_protocol::ThinkingLevel::{self, High, Low, Medium, Minimal, Off, Xhigh};

use crate::catalogue::ModelInfo;

const ALL: [ThinkingLevel; 6] = ThinkingLevel::ALL;

/// The levels a model knows. So far the model's name tells, whoever serves it.
pub fn levels(_provider: &str, model: &str) -> &'static [ThinkingLevel] {
    const WITHOUT_HIGHEST: [ThinkingLevel; 5] = [Off, Minimal, Low, Medium, High];
    if knows_xhigh(model) { &ALL } else { &WITHOUT_HIGHEST }
}

/// What the levels are called where a person chooses one. Some vendors only know on and off.
pub fn labels(provider: &str, model: &str) -> Vec<&'static str> {
    if matches!(provider.trim().to_lowercase().as_str(), "zai" | "z.ai" | "z-ai") {
        return vec!["off", "on"];
    }
    levels(provider, model).iter().map(|level| level.as_str()).collect()
}

/// The nearest level the model knows; none for one that does not think.
pub(crate) fn clamp(level: ThinkingLevel, model: &ModelInfo) -> ThinkingLevel {
    if !model.reasoning {
        return Off;
    }
    if level == Xhigh && !knows_xhigh(&model.id) { High } else { level }
}

/// The model's name without the vendor some resellers put before it.
fn bare(model: &str) -> String {
    let model = model.trim().to_lowercase();
    model.rsplit_once('/').map_or(model.clone(), |(_, bare)| bare.to_owned())
}

/// Whether the name is that of a model, or of a variant or a dated edition of it.
fn is_of(model: &str, family: &str) -> bool {
    model.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '@', ':']))
}

/// Which edition of GPT-5 it is: 2 of `gpt-5.2-codex`, 0 of `gpt-5-mini`. What one edition takes, later ones take too.
fn edition(model: &str) -> Option<u32> {
    let rest = model.strip_prefix("gpt-5")?;
    match rest.strip_prefix('.') {
        Some(number) => number.split(['-', '@', ':']).next()?.parse().ok(),
        None => is_of(model, "gpt-5").then_some(0),
    }
}

fn knows_xhigh(model: &str) -> bool {
    let model = bare(model);
    edition(&model) >= Some(2)
        || ["gpt-5.1-codex", "gpt-5.1-codex-max"].contains(&model.as_str())
        || model.contains("opus-4-6")
        || model.contains("opus-4.6")
}

/// Tokens of an answer and, within them, of the thinking before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) max_tokens: u32,
    pub(crate) thinking: u32,
}

/// For models that are told a number of tokens: thinking comes on top of the answer as far as the model's limit allows,
/// and always leaves something for the answer.
pub(crate) fn budget(level: ThinkingLevel, base: u32, model_max: u32) -> Budget {
    /// What is left for the answer at the least.
    const ANSWER: u32 = 1024;
    let thinking = match level {
        Off => 0,
        Minimal => 1024,
        Low => 2048,
        Medium => 8192,
        High | Xhigh => 16384,
    };
    let max_tokens = base.saturating_add(thinking).min(model_max);
    let thinking = if max_tokens <= thinking { max_tokens.saturating_sub(ANSWER) } else { thinking };
    Budget { max_tokens, thinking }
}

/// OpenAI's word for a level.
pub(crate) fn effort(level: ThinkingLevel) -> &'static str {
    match level {
        Off => "none",
        _ => level.as_str(),
    }
}

/// OpenAI's word for a level of this model. With no word at all these models think as much as they like, so "off" is the
/// least each of them takes; where that is not known, nothing is said.
pub(crate) fn openai_effort(model_id: &str, level: ThinkingLevel) -> Option<&'static str> {
    if level != Off {
        return Some(effort(level));
    }
    let model = bare(model_id);
    if model.contains("-pro") || model.contains("-chat") {
        return None;
    }
    let older = ["o1", "o3", "o4-mini"].iter().any(|family| is_of(&model, family));
    match edition(&model) {
        _ if older || model.contains("codex") => Some(effort(Low)),
        Some(0) => Some(effort(Minimal)),
        Some(_) => Some(effort(Off)),
        None => None,
    }
}

/// The word as the Codex server takes it for this model.
pub(crate) fn codex_effort(model_id: &str, level: ThinkingLevel) -> Option<&'static str> {
    let model = bare(model_id);
    if is_of(&model, "gpt-5.1-codex-mini") {
        return Some(effort(if level >= High { High } else { Medium }));
    }
    match level {
        Minimal if edition(&model) >= Some(2) => Some(effort(Low)),
        Xhigh if is_of(&model, "gpt-5.1") && !is_of(&model, "gpt-5.1-codex-max") => Some(effort(High)),
        level => openai_effort(model_id, level),
    }
}

/// How Google's models are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GoogleThinking {
    /// Tokens; -1 leaves it to the model.
    Budget(i32),
    Level(&'static str),
}

pub(crate) fn google_thinking(model_id: &str, level: ThinkingLevel) -> GoogleThinking {
    let model = bare(model_id);
    let has = |part: &str| model.contains(part);
    if has("gemini-3") {
        // The larger one knows two levels and is never without.
        return GoogleThinking::Level(match level {
            Off | Minimal if has("flash") => "MINIMAL",
            Off | Minimal | Low => "LOW",
            Medium if has("flash") => "MEDIUM",
            Medium | High | Xhigh => "HIGH",
        });
    }
    // Off, minimal, low, medium, high.
    let steps = if has("2.5-pro") {
        [128, 128, 2048, 8192, 32768]
    } else if has("2.5-flash-lite") {
        [0, 512, 2048, 8192, 24576]
    } else if has("2.5-flash") {
        [0, 128, 2048, 8192, 24576]
    } else {
        [0, -1, -1, -1, -1]
    };
    GoogleThinking::Budget(match level {
        Off => steps[0],
        Minimal => steps[1],
        Low => steps[2],
        Medium => steps[3],
        High | Xhigh => steps[4],
    })
}

/// The levels a provider's refusal says it takes instead.
pub(crate) fn supported_in(error_text: &str) -> Option<Vec<ThinkingLevel>> {
    let text = error_text.to_lowercase();
    let (_, listed) =
        text.split_once("supported values are").or_else(|| text.split_once("supported values:"))?;
    let listed = listed.split(['.', '\n', '}']).next().unwrap_or_default();
    let mut found = Vec::new();
    for word in listed.split(|c: char| !c.is_ascii_alphanumeric()) {
        let level = ALL.into_iter().find(|level| word == level.as_str() || word == effort(*level));
        found.extend(level.filter(|level| !found.contains(level)));
    }
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_models_know_the_highest_level() {
        let with = ["off", "minimal", "low", "medium", "high", "xhigh"];
        let without = &with[..5];
        let models: [(&str, &str, &[&str]); 9] = [
            ("openai", "gpt-5.2", &with),
            ("openai-codex", "gpt-5.2-codex", &with),
            ("", "gpt-5.1-codex", &with),
            ("", "gpt-5.2", &with),
            ("openrouter", "openai/gpt-5.10-2027-01-01", &with),
            ("openai", "gpt-5.1-codex-mini", without),
            ("openai", "gpt-5", without),
            ("anthropic", "claude-opus-4-5", without),
            ("z.ai", "glm", &["off", "on"]),
        ];
        for (provider, model, expected) in models {
            assert_eq!(labels(provider, model), expected, "{provider}/{model}");
        }
        assert_eq!(levels("z.ai", "glm"), [Off, Minimal, Low, Medium, High]);
        assert_eq!(levels("openai", "gpt-5.2"), ALL);
    }

    #[test]
    fn thinking_comes_on_top_of_the_answer_and_leaves_room_for_it() {
        let cases = [
            (Low, 32_000, 64_000, 34_048, 2048),
            (Xhigh, 32_000, 64_000, 48_384, 16_384),
            (Medium, 8192, 8192, 8192, 7168),
            (High, 500, 500, 500, 0),
            (Off, 32_000, 64_000, 32_000, 0),
            (High, u32::MAX, u32::MAX, u32::MAX, 16_384),
        ];
        for (level, base, model_max, max_tokens, thinking) in cases {
            assert_eq!(budget(level, base, model_max), Budget { max_tokens, thinking }, "{level:?} {base}");
        }
    }

    #[test]
    fn off_is_the_least_an_openai_model_takes() {
        let cases = [
            ("gpt-5.2", Some("none")),
            ("openai/gpt-5.1-2025-11-13", Some("none")),
            ("gpt-5-mini", Some("minimal")),
            ("gpt-5-codex", Some("low")),
            ("o4-mini", Some("low")),
            ("gpt-5-pro", None),
            ("some-open-model", None),
        ];
        for (model, expected) in cases {
            assert_eq!(openai_effort(model, Off), expected, "{model}");
            assert_eq!(openai_effort(model, Medium), Some("medium"), "{model}");
        }
    }

    #[test]
    fn codex_is_told_only_the_efforts_it_takes() {
        let cases = [
            ("gpt-5.3-codex", Minimal, Some("low")),
            ("gpt-5.3-codex", Xhigh, Some("xhigh")),
            ("gpt-5.3-codex", Off, Some("low")),
            ("gpt-5.2", Off, Some("none")),
            ("gpt-5.1", Xhigh, Some("high")),
            ("gpt-5.1-codex", Xhigh, Some("high")),
            ("gpt-5.1-codex-max", Xhigh, Some("xhigh")),
            ("gpt-5.1-codex-mini", Off, Some("medium")),
            ("gpt-5.1-codex-mini", Low, Some("medium")),
            ("gpt-5.1-codex-mini", Xhigh, Some("high")),
        ];
        for (model, level, expected) in cases {
            assert_eq!(codex_effort(model, level), expected, "{model} {level:?}");
        }
    }

    #[test]
    fn google_is_told_tokens_or_a_level_by_generation() {
        let tokens = |model, level| match google_thinking(model, level) {
            GoogleThinking::Budget(tokens) => tokens,
            GoogleThinking::Level(level) => panic!("{model}: {level}"),
        };
        assert_eq!(ALL.map(|level| tokens("gemini-2.5-pro", level)), [128, 128, 2048, 8192, 32768, 32768]);
        assert_eq!(ALL.map(|level| tokens("gemini-2.5-flash", level)), [0, 128, 2048, 8192, 24576, 24576]);
        assert_eq!(ALL.map(|level| tokens("gemini-2.5-flash-lite", level))[..2], [0, 512]);
        assert_eq!(ALL.map(|level| tokens("gemini-flash-latest", level)), [0, -1, -1, -1, -1, -1]);
        let named = |model| ALL.map(|level| google_thinking(model, level));
        let pro = ["LOW", "LOW", "LOW", "HIGH", "HIGH", "HIGH"];
        let flash = ["MINIMAL", "MINIMAL", "LOW", "MEDIUM", "HIGH", "HIGH"];
        assert_eq!(named("models/gemini-3-pro-preview"), pro.map(GoogleThinking::Level));
        assert_eq!(named("gemini-3-flash-preview"), flash.map(GoogleThinking::Level));
    }

    #[test]
    fn a_refusal_tells_which_levels_are_taken() {
        let text = "Unsupported value: 'minimal' is not supported with the 'gpt-5.2' model. \
                    Supported values are: 'none', 'low', 'medium', 'high', and 'xhigh'.";
        assert_eq!(supported_in(text), Some(vec![Off, Low, Medium, High, Xhigh]));
        let text = r#"{"error":{"message":"bad effort, supported values: \"high\", \"high\""},"low":1}"#;
        assert_eq!(supported_in(text), Some(vec![High]));
        assert_eq!(supported_in("Supported values are: 'png' and 'gif'. Use high quality."), None);
        assert_eq!(supported_in("too much thinking"), None);
    }
}
