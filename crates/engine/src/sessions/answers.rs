//! What commands answer: where a conversation stands, what is chosen, what can be said.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use tidegate_protocol::{RunSpec, SessionSettings, ThinkingLevel};
use tidegate_routing::{COMMANDS, Command, Setting};
use tidegate_runtime::catalogue::{Language, Text};
use tidegate_storage::{SessionRow, title_of};

use super::plan::Writer;
use super::stop::Unfinished;
use crate::error::EngineError;
use crate::settings::SettingsError;
use crate::start::Core;
use crate::texts;

impl Core {
    /// Does a command that needs no run of its own, and says what came of it.
    pub(super) async fn answer_to(
        self: &Arc<Self>,
        writer: Writer<'_>,
        spec: &RunSpec,
        command: Command,
    ) -> Result<String, EngineError> {
        let key = writer.key;
        let changes = matches!(command, Command::Title(Some(_)) | Command::Set(_));
        // It was done then, and something else may have been chosen since. Whoever sent it is told what was said then.
        if changes && self.came_before(writer).await? {
            return Ok(String::new());
        }
        Ok(match command {
            Command::Status => self.status(writer, spec, self.store.session(key).await?.as_ref()),
            Command::Context => self.about_context(writer, spec).await?,
            Command::Help => help(self.settings.language()),
            Command::Title(None) => match self.store.session(key).await?.and_then(|row| row.title) {
                Some(title) => self.fill(texts::TITLE_IS, &[("title", &title)]),
                None => self.say(texts::NO_TITLE_SHOWN),
            },
            Command::Title(Some(words)) => {
                let title = title_of(&words);
                if self.name_log(writer.principal, key, title.as_deref()).await? {
                    self.fill(texts::TITLE_IS, &[("title", &title.unwrap_or_default())])
                } else {
                    self.say(texts::NO_TITLE)
                }
            }
            Command::Set(said) => {
                self.choose(writer.principal, key, &said).await?;
                self.about_choice(writer, &said)
            }
            Command::Show(setting) => self.about_setting(writer, spec, setting),
            Command::Invalid { setting, value } => self.about_invalid(writer, setting, &value),
            Command::Unknown(word) => self.fill(texts::NO_SUCH_COMMAND, &[("word", &word)]),
            // These are runs, or done already.
            Command::New | Command::Reset | Command::Stop { .. } | Command::Compact(_) => String::new(),
        })
    }

    pub(super) fn about_stopping(&self, ends: &Unfinished) -> String {
        let text = match (ends.runs.len(), ends.waiting, ends.helpers) {
            (0, ..) => texts::NOTHING_TO_STOP,
            (_, 0, 0) => texts::STOPPED,
            (_, _, 0) => texts::STOPPED_WAITING,
            (_, 0, _) => texts::STOPPED_HELPERS,
            _ => texts::STOPPED_BOTH,
        };
        self.fill(text, &[("waiting", &ends.waiting), ("helpers", &ends.helpers)])
    }

    fn about_choice(&self, writer: Writer<'_>, said: &SessionSettings) -> String {
        let mut lines = Vec::new();
        if let Some(model) = &said.model {
            lines.push(if model.eq_ignore_ascii_case(crate::settings::USUAL_MODEL) {
                let usual = self.settings.inbound_spec(&writer.key.scope).ok();
                let usual = usual.map(|spec| model_of(&spec)).unwrap_or_default();
                self.fill(texts::MODEL_USUAL, &[("model", &usual)])
            } else {
                self.fill(texts::MODEL_CHOSEN, &[("model", model)])
            });
        }
        if let Some(level) = said.thinking {
            lines.push(self.fill(texts::THINKING_CHOSEN, &[("level", &level.as_str())]));
        }
        if let Some(level) = said.verbose {
            lines.push(self.fill(texts::VERBOSE_CHOSEN, &[("level", &level.as_str())]));
        }
        lines.join("\n")
    }

    fn about_setting(&self, writer: Writer<'_>, spec: &RunSpec, setting: Setting) -> String {
        match setting {
            Setting::Model => {
                let model = self.fill(texts::MODEL_IS, &[("model", &model_of(spec))]);
                format!("{model}\n{}", self.known_models(writer))
            }
            Setting::Think => {
                let level = spec.thinking.unwrap_or_default().as_str();
                self.fill(texts::THINKING_IS, &[("level", &level), ("levels", &levels())])
            }
            Setting::Verbose => self.fill(texts::VERBOSE_IS, &[("level", &spec.verbose.as_str())]),
        }
    }

    fn about_invalid(&self, writer: Writer<'_>, setting: Setting, value: &str) -> String {
        match setting {
            Setting::Model => {
                let known = self.known_models(writer);
                if let SettingsError::UnknownProvider { provider, .. } = self.settings.names_nothing(value) {
                    let values: [(&str, &dyn Display); 3] =
                        [("value", &value), ("provider", &provider), ("known", &known)];
                    return self.fill(texts::NO_SUCH_PROVIDER, &values);
                }
                self.fill(texts::NO_SUCH_MODEL, &[("value", &value), ("known", &known)])
            }
            Setting::Think => self.fill(texts::NO_SUCH_THINKING, &[("value", &value), ("levels", &levels())]),
            Setting::Verbose => self.fill(texts::NO_SUCH_VERBOSE, &[("value", &value)]),
        }
    }

    fn known_models(&self, writer: Writer<'_>) -> String {
        let known = self.settings.choosable(&writer.key.scope.agent).join(", ");
        self.fill(texts::MODELS_KNOWN, &[("known", &known)])
    }

    /// Where the conversation stands.
    fn status(&self, writer: Writer<'_>, spec: &RunSpec, row: Option<&SessionRow>) -> String {
        let label = writer.key.label();
        let name = match row.and_then(|row| row.title.as_deref()) {
            Some(title) => format!("{label}, {title}"),
            None => label,
        };
        let length = row.map_or(0, |row| row.head_seq);
        let level = spec.thinking.unwrap_or_default().as_str();
        let usage = row.map(|row| row.usage).unwrap_or_default();
        let unpriced =
            usage.total() > 0 && spec.models.first().is_some_and(|model| !self.settings.is_priced(model));
        let cost = match usage.cost.0 {
            0 if unpriced => self.say(texts::PRICE_UNKNOWN),
            _ => format!("${:.4}", usage.cost.usd()),
        };
        let used: [(&str, &dyn Display); 3] =
            [("input", &short(usage.prompt())), ("output", &short(usage.output)), ("cost", &cost)];
        let mut lines = vec![
            self.fill(texts::STATUS_SESSION, &[("name", &name), ("lines", &length)]),
            self.fill(texts::MODEL_IS, &[("model", &model_of(spec))]),
            self.fill(texts::THINKING_IS, &[("level", &level), ("levels", &levels())]),
            self.how_full(spec, row),
        ];
        if writer.sees_costs() {
            lines.push(self.fill(texts::STATUS_USED, &used));
        }
        lines.join("\n")
    }

    /// How much of the model's window the conversation takes.
    pub(super) fn how_full(&self, spec: &RunSpec, row: Option<&SessionRow>) -> String {
        let window = self.settings.window(&spec.models, false).tokens;
        let used = row.map_or(0, |row| row.context_tokens);
        let percent = used.saturating_mul(100) / window.max(1);
        let times = row.map_or(0, |row| row.compactions);
        let values: [(&str, &dyn Display); 4] =
            [("used", &short(used)), ("window", &short(window)), ("percent", &percent), ("times", &times)];
        self.fill(texts::STATUS_CONTEXT, &values)
    }

    pub(super) fn say(&self, text: Text) -> String {
        text.in_language(self.settings.language()).to_owned()
    }

    pub(super) fn fill(&self, text: Text, values: &[(&str, &dyn Display)]) -> String {
        text.fill(self.settings.language(), values)
    }
}

fn model_of(spec: &RunSpec) -> String {
    spec.models.first().map(ToString::to_string).unwrap_or_default()
}

fn levels() -> String {
    ThinkingLevel::ALL.map(ThinkingLevel::as_str).join(", ")
}

/// Every command with what it is for.
fn help(language: Language) -> String {
    let mut text = texts::COMMANDS_ARE.in_language(language).to_owned();
    for command in COMMANDS {
        let about = match language {
            Language::English => command.help.en,
            Language::Chinese => command.help.zh,
        };
        let gap = if command.arguments.is_empty() { "" } else { " " };
        let _ = write!(text, "\n/{}{gap}{}: {about}", command.name, command.arguments);
    }
    text
}

/// A number of tokens as people say it: `950`, `12.3k`, `1.2M`.
pub(super) fn short(tokens: u64) -> String {
    let tenths = |unit: u64| {
        let tenths = tokens / (unit / 10);
        if tenths.is_multiple_of(10) {
            format!("{}", tenths / 10)
        } else {
            format!("{}.{}", tenths / 10, tenths % 10)
        }
    };
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..1_000_000 => format!("{}k", tenths(1_000)),
        _ => format!("{}M", tenths(1_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_said_shortly() {
        let said = [0, 999, 1_000, 12_345, 200_000, 999_999, 1_000_000, 1_250_000].map(short);
        assert_eq!(said, ["0", "999", "1k", "12.3k", "200k", "999.9k", "1M", "1.2M"]);
    }

    #[test]
    fn help_has_every_command_in_the_language_of_its_reader() {
        for (language, expected) in
            [(Language::English, "/compact [instructions]: Sum up"), (Language::Chinese, "/help: 显示")]
        {
            let text = help(language);
            assert!(text.contains(expected), "{text}");
            assert_eq!(text.lines().count(), COMMANDS.len() + 1);
        }
    }
}
