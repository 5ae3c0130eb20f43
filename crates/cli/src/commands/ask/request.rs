//! What the words of `ask` want, checked before anything is opened.

use std::io::Read as _;
use std::time::Duration;

use tidegate_engine::Wish;
use tidegate_protocol::api::Ask;
use tidegate_protocol::{ErrorCode, ModelRef, RunSpec, ThinkingLevel, ToolUse};
use tidegate_storage::SessionChoice;

use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, Message, With as _};
use crate::texts;

/// Most bytes of input.
const MOST_INPUT: usize = 1 << 20;
/// Most bytes of a session's name.
const MOST_SESSION_NAME: usize = 256;
/// Rounds of tool calls unless somebody says otherwise.
const USUAL_STEPS: u32 = 3;

pub(super) struct Request {
    pub(super) text: String,
    pub(super) session: String,
    pub(super) choice: SessionChoice,
    pub(super) timeout: Option<Duration>,
    pub(super) profile: Option<String>,
    pub(super) thinking: Option<ThinkingLevel>,
    pub(super) tools: ToolUse,
    pub(super) dry_run: bool,
}

impl Request {
    /// `attended` says whether somebody is there to approve what a tool wants to do.
    pub(super) fn read(command: &'static Command, parsed: &Parsed, attended: bool) -> Result<Self, Failure> {
        let invalid = |message: Message| Failure::new(ErrorCode::InvalidValue, message).with_usage(command);
        if parsed.switch("memory") == Some(true) {
            return Err(Failure::new(ErrorCode::Unavailable, texts::NO_MEMORY_YET.with(&[])));
        }
        let tools = ToolUse {
            model: parsed.switch("with-tools").unwrap_or(true),
            manual: true,
            allow: parsed.value("tool-allow").and_then(names),
            max_steps: Some(
                steps(parsed)
                    .map_err(|message| invalid(message).with_hint(texts::runs::STEPS_HINT.with(&[])))?,
            ),
            root: here(),
            unattended: !attended,
        };
        let timeout = match parsed.value("timeout") {
            None => None,
            Some(text) => match text.parse::<f64>() {
                Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Some(Duration::from_secs_f64(seconds)),
                _ => return Err(invalid(texts::INVALID_TIMEOUT.with(&[("value", &text)]))),
            },
        };
        let thinking = match parsed.value("thinking") {
            None => None,
            Some(text) => Some(
                ThinkingLevel::parse_alias(text)
                    .ok_or_else(|| invalid(texts::INVALID_THINKING.with(&[("value", &text)])))?,
            ),
        };
        Ok(Self {
            session: session_name(command, parsed)?,
            text: input(command, parsed)?,
            choice: if parsed.has("new-session") { SessionChoice::Fresh } else { SessionChoice::Current },
            timeout,
            profile: parsed.value("profile").map(str::to_owned),
            thinking,
            tools,
            dry_run: parsed.has("dry-run"),
        })
    }

    /// What is asked for beyond the agent's own settings.
    pub(super) fn wish<'a>(&'a self, parsed: &'a Parsed) -> Wish<'a> {
        Wish {
            provider: parsed.value("provider"),
            model: parsed.value("model"),
            profile: self.profile.as_deref(),
            timeout: self.timeout,
            thinking: self.thinking,
            lane: None,
        }
    }

    /// What the run is promised, with what was asked for.
    pub(super) fn refine(&self, spec: RunSpec) -> RunSpec {
        RunSpec { tools: self.tools.clone(), shadow: spec.shadow || self.dry_run, ..spec }
    }

    /// The question as the process that holds the home takes it.
    pub(super) fn for_holder(&self, parsed: &Parsed, key: &str) -> Ask {
        Ask {
            text: self.text.clone(),
            session: self.session.clone(),
            agent: parsed.value("agent").map(str::to_owned),
            new_session: self.choice == SessionChoice::Fresh,
            provider: parsed.value("provider").map(str::to_owned),
            model: parsed.value("model").map(str::to_owned),
            profile: self.profile.clone(),
            thinking: self.thinking,
            timeout_ms: self.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            key: key.to_owned(),
            tools: Some(self.tools.clone()),
            dry_run: self.dry_run,
            join: None,
            commands: false,
        }
    }

    pub(super) fn check_profile(&self, model: &ModelRef) -> Result<(), Failure> {
        if self.profile.is_some() && model.provider == tidegate_models::OFFLINE {
            return Err(Failure::new(ErrorCode::InvalidValue, texts::NO_OFFLINE_PROFILE.with(&[])));
        }
        Ok(())
    }
}

/// The names of a list with commas; nothing when there are none, which leaves it to policy.
fn names(list: &str) -> Option<Vec<String>> {
    let names: Vec<String> =
        list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    (!names.is_empty()).then_some(names)
}

fn steps(parsed: &Parsed) -> Result<u32, Message> {
    let Some(text) = parsed.value("tool-max-steps") else { return Ok(USUAL_STEPS) };
    text.parse().ok().filter(|steps| *steps >= 1).ok_or_else(|| {
        texts::INVALID_VALUE.with(&[("name", &"tool-max-steps"), ("position", &1), ("value", &text)])
    })
}

/// The folder of the caller, to which file tools are held. Where that is gone, the agent's own serves.
fn here() -> Option<String> {
    let folder = std::env::current_dir().and_then(|folder| folder.canonicalize()).ok()?;
    folder.to_str().map(str::to_owned)
}

/// The conversation that is meant.
pub(in crate::commands) fn session_name(
    command: &'static Command,
    parsed: &Parsed,
) -> Result<String, Failure> {
    let session = parsed.value("session").unwrap_or("main").to_owned();
    if session.trim().is_empty() {
        let message = texts::MISSING_VALUE.with(&[("name", &"session")]);
        return Err(Failure::new(ErrorCode::MissingValue, message).with_usage(command));
    }
    if session.len() > MOST_SESSION_NAME {
        let message = texts::INVALID_SESSION.with(&[("most", &MOST_SESSION_NAME)]);
        return Err(Failure::new(ErrorCode::InvalidValue, message).with_usage(command));
    }
    Ok(session)
}

/// The plain words joined by a space, then standard input if it was asked for.
fn input(command: &'static Command, parsed: &Parsed) -> Result<String, Failure> {
    let mut text = parsed.arguments.join(" ").trim().to_owned();
    if parsed.has("stdin") {
        let more = standard_input()?;
        if !text.is_empty() && !more.trim().is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(more.trim());
    }
    if text.is_empty() {
        let failure = Failure::new(ErrorCode::AskInputRequired, texts::ASK_INPUT_REQUIRED.with(&[]));
        return Err(failure.with_usage(command));
    }
    if text.len() > MOST_INPUT {
        return Err(too_large());
    }
    Ok(text)
}

fn standard_input() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(MOST_INPUT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MOST_INPUT {
        return Err(too_large());
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::new(ErrorCode::InvalidValue, texts::STDIN_NOT_UTF8.with(&[])))?;
    // No database keeps this character in a text.
    Ok(text.replace('\0', "\u{fffd}"))
}

fn too_large() -> Failure {
    Failure::new(ErrorCode::InvalidValue, texts::ASK_INPUT_TOO_LARGE.with(&[("most", &MOST_INPUT)]))
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn an_empty_list_of_tools_leaves_it_to_policy() {
        for list in ["", " ", ",", " , "] {
            assert_eq!(names(list), None, "{list:?}");
        }
        assert_eq!(names("time.now, read,"), Some(vec!["time.now".to_owned(), "read".to_owned()]));
    }
}
