//! What every command knows: how it was called, in which language, and where the home is.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tidegate_config::{ConfigFile, Env, Loaded, Origin};
use tidegate_engine::{EngineError, Home};
use tidegate_protocol::{ErrorCode, TenantId};
use tidegate_runtime::catalogue::{Language, Text};
use tidegate_runtime::{Clock as _, SystemClock, redact};

use crate::arguments::Parsed;
use crate::failure::{Failure, Message, With as _};
use crate::output::{Output, complain, print_json, printable};
use crate::{commands, texts};

/// How long a command waits for the home's lock.
const HOME_PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct App {
    /// The name the program was called by.
    pub(crate) name: String,
    /// How to call it again for the same home, for hints.
    pub(crate) program: String,
    /// From the environment, then from the configuration once it is read.
    language: Cell<Language>,
    pub(crate) output: Output,
    pub(crate) env: Env,
}

impl App {
    pub(crate) fn new(program: &str, words: &[String]) -> Self {
        let env = Env::of_this_process();
        let name = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "tidegate".to_owned());
        Self {
            program: [name.as_str(), &chosen_home(words)].concat(),
            name,
            language: Cell::new(Language::from_environment(|name| env.get(name).map(str::to_owned))),
            output: Output::detect(),
            env,
        }
    }

    pub(crate) fn language(&self) -> Language {
        self.language.get()
    }

    pub(crate) fn say(&self, text: Text) -> &'static str {
        text.in_language(self.language.get())
    }

    pub(crate) fn fill(&self, text: Text, values: &[(&str, &dyn std::fmt::Display)]) -> String {
        text.fill(self.language.get(), values)
    }

    pub(crate) fn message<'a>(&self, message: &'a Message) -> &'a str {
        message.in_language(self.language.get())
    }

    /// The configuration for a command that must run. A bad file is never silently replaced: the last good one comes
    /// with a banner, and without one the command is refused.
    pub(crate) fn config(&self, home: &Home) -> Result<Loaded, Failure> {
        let loaded = config_file(home).load_or_last_good(&self.env)?;
        self.speak(&loaded);
        if let Origin::LastGood { revision, problems } = &loaded.origin {
            let file = home.config_file();
            complain(&self.fill(texts::LAST_GOOD, &[("file", &file.display()), ("revision", revision)]));
            for problem in problems {
                complain(&format!("  {}", redact(&problem.to_string())));
            }
            complain(&self.fill(texts::LAST_GOOD_MEND, &[("program", &self.program)]));
        }
        Ok(loaded)
    }

    /// Takes the language of a configuration, unless the environment chose one.
    pub(crate) fn speak(&self, loaded: &Loaded) {
        let chosen = loaded.config.ui.language.filter(|_| self.env.get("TIDEGATE_LANG").is_none());
        if let Some(language) = chosen {
            self.language.set(match language {
                tidegate_config::schema::Language::English => Language::English,
                tidegate_config::schema::Language::SimplifiedChinese => Language::Chinese,
            });
        }
    }

    pub(crate) fn home_patience(&self) -> Duration {
        let asked = self.env.get("TIDEGATE_LOCK_WAIT_MS").and_then(|text| text.parse().ok());
        asked.map_or(HOME_PATIENCE, Duration::from_millis)
    }

    fn hint(&self, failure: &Failure) -> Option<String> {
        let hint = self.message(failure.hint.as_ref()?);
        Some(redact(hint).replace("{program}", &self.program))
    }

    /// Tells what went wrong, in the form that was asked for, and gives the exit code.
    pub(crate) fn report(&self, failure: &Failure, json: bool) -> ExitCode {
        let message = redact(self.message(&failure.message)).into_owned();
        if json {
            let mut error =
                json!({ "success": false, "error": { "code": failure.code, "message": message } });
            if let Some(hint) = self.hint(failure) {
                error["error"]["hint"] = hint.into();
            }
            let _ = print_json(&error);
        }
        // Part of it may come from outside, and this may be a terminal.
        complain(&printable(&format!("[{}] {message}", failure.code)));
        if let Some(hint) = self.hint(failure) {
            complain(&printable(&hint));
        }
        if let Some(command) = failure.usage {
            complain(&commands::usage(self, command));
        }
        ExitCode::from(failure.exit)
    }
}

/// The options that chose the home, as they would be typed again.
fn chosen_home(words: &[String]) -> String {
    let mut chosen = String::new();
    for (at, word) in words.iter().enumerate().take_while(|(_, word)| *word != "--") {
        for option in ["--home", "--instance"] {
            let value = match word.strip_prefix(option) {
                Some("") => words.get(at + 1).map(String::as_str),
                Some(rest) => rest.strip_prefix('='),
                None => None,
            };
            if let Some(value) = value {
                chosen = format!("{chosen} {option} {value}");
            }
        }
    }
    chosen
}

/// The home folder: `--home`, `TIDEGATE_HOME`, or one in the user's home, of its own for each `--instance`.
pub(crate) fn home_of(parsed: &Parsed) -> Result<Home, Failure> {
    if parsed.value("home").is_some() && parsed.value("instance").is_some() {
        return Err(Failure::new(ErrorCode::InvalidValue, texts::HOME_AND_INSTANCE.with(&[])));
    }
    let home = if let Some(home) = parsed.value("home") {
        if home.is_empty() {
            return Err(Failure::new(
                ErrorCode::MissingValue,
                texts::MISSING_VALUE.with(&[("name", &"home")]),
            ));
        }
        PathBuf::from(home)
    } else if let Some(instance) = parsed.value("instance") {
        let name: TenantId = instance.parse().map_err(|_| {
            Failure::new(ErrorCode::InvalidValue, texts::INVALID_INSTANCE.with(&[("value", &instance)]))
        })?;
        under_user_home(&format!(".tidegate-{name}"))?
    } else {
        // A path need not be UTF-8, so these are read as they are.
        match std::env::var_os("TIDEGATE_HOME").filter(|home| !home.is_empty()) {
            Some(home) => PathBuf::from(home),
            None => under_user_home(".tidegate")?,
        }
    };
    usable(&std::path::absolute(home)?)
}

fn under_user_home(folder: &str) -> Result<PathBuf, Failure> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.ok_or_else(|| Failure::new(ErrorCode::HomeUnusable, texts::NO_USER_HOME.with(&[])))?;
    Ok(PathBuf::from(home).join(folder))
}

/// A home is a folder, or not there yet.
fn usable(home: &Path) -> Result<Home, Failure> {
    let cause = match std::fs::metadata(home) {
        Ok(found) if !found.is_dir() => std::io::ErrorKind::NotADirectory.into(),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => error,
        _ => return Ok(Home::at(home)),
    };
    Err(EngineError::HomeUnusable { path: home.to_owned(), cause }.into())
}

pub(crate) fn config_file(home: &Home) -> ConfigFile {
    ConfigFile::new(home.config_file(), home.revisions())
}

pub(crate) fn now_ms() -> i64 {
    SystemClock.now_ms()
}
