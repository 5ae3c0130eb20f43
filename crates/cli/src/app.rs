//! What every command knows: how it was called, in which language, and where the home is.

use std::cell::Cell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tidegate_config::{ConfigFile, Env, Loaded, Origin};
use tidegate_engine::Home;
use tidegate_protocol::{ErrorCode, TenantId};
use tidegate_runtime::catalogue::{Language, Text};
use tidegate_runtime::{Clock as _, SystemClock, redact};

use crate::arguments::Parsed;
use crate::failure::{Failure, With as _};
use crate::output::{Output, complain, print_json};
use crate::{commands, texts};

/// How long a command waits for the home's lock.
const HOME_PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct App {
    /// The name the program was called by.
    pub(crate) program: String,
    /// From the environment, then from the configuration once it is read.
    language: Cell<Language>,
    pub(crate) output: Output,
    pub(crate) env: Env,
}

impl App {
    pub(crate) fn new(program: &str) -> Self {
        let env = Env::of_this_process();
        let name = std::path::Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
        Self {
            program: name.filter(|name| !name.is_empty()).unwrap_or_else(|| "tidegate".to_owned()),
            language: Cell::new(Language::from_environment(|name| env.get(name).map(str::to_owned))),
            output: Output::detect(),
            env,
        }
    }

    pub(crate) fn say(&self, text: Text) -> &'static str {
        text.in_language(self.language.get())
    }

    pub(crate) fn fill(&self, text: Text, values: &[(&str, &dyn std::fmt::Display)]) -> String {
        text.fill(self.language.get(), values)
    }

    /// The home folder: `--home`, `TIDEGATE_HOME`, or one in the user's home, of its own for each `--instance`.
    pub(crate) fn home(&self, parsed: &Parsed) -> Result<Home, Failure> {
        let invalid = |value: &str| {
            Failure::new(ErrorCode::InvalidValue, texts::INVALID_INSTANCE.with(&[("value", &value)]))
        };
        if let Some(home) = parsed.value("home") {
            return absolute(home);
        }
        if let Some(instance) = parsed.value("instance") {
            let name: TenantId = instance.parse().map_err(|_| invalid(instance))?;
            return self.under_user_home(&format!(".tidegate-{name}"));
        }
        match self.env.get("TIDEGATE_HOME") {
            Some(home) => absolute(home),
            None => self.under_user_home(".tidegate"),
        }
    }

    fn under_user_home(&self, folder: &str) -> Result<Home, Failure> {
        let home = self
            .env
            .get("HOME")
            .ok_or_else(|| Failure::new(ErrorCode::HomeUnusable, texts::NO_USER_HOME.with(&[])))?;
        Ok(Home::at(PathBuf::from(home).join(folder)))
    }

    /// The configuration for a command that must run. A bad file is never silently replaced: the last good one comes
    /// with a banner, and without one the command is refused.
    pub(crate) fn config(&self, home: &Home) -> Result<Loaded, Failure> {
        let loaded = config_file(home).load_or_last_good(&self.env)?;
        if let Some(language) = loaded.config.ui.language.filter(|_| self.env.get("TIDEGATE_LANG").is_none())
        {
            self.language.set(match language {
                tidegate_config::schema::Language::English => Language::English,
                tidegate_config::schema::Language::SimplifiedChinese => Language::Chinese,
            });
        }
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

    pub(crate) fn home_patience(&self) -> Duration {
        let asked = self.env.get("TIDEGATE_LOCK_WAIT_MS").and_then(|text| text.parse().ok());
        asked.map_or(HOME_PATIENCE, Duration::from_millis)
    }

    /// Tells what went wrong, in the form that was asked for, and gives the exit code.
    pub(crate) fn report(&self, failure: &Failure, json: bool) -> ExitCode {
        let message = redact(failure.message.in_language(self.language.get())).into_owned();
        if json {
            let error = json!({ "success": false, "error": { "code": failure.code, "message": message } });
            let _ = print_json(&error);
        }
        complain(&format!("[{}] {message}", failure.code));
        if let Some(hint) = &failure.hint {
            complain(&redact(hint.in_language(self.language.get())).replace("{program}", &self.program));
        }
        if let Some(command) = failure.usage {
            complain(&commands::usage(self, command));
        }
        ExitCode::from(failure.exit)
    }
}

fn absolute(path: &str) -> Result<Home, Failure> {
    let path = std::path::absolute(path)?;
    Ok(Home::at(path))
}

pub(crate) fn config_file(home: &Home) -> ConfigFile {
    ConfigFile::new(home.config_file(), home.revisions())
}

pub(crate) fn now_ms() -> i64 {
    SystemClock.now_ms()
}
