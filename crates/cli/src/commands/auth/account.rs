//! Logging in with a person's account: in a browser, or with a code that is typed elsewhere.

use std::process::ExitCode;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tidegate_config::Loaded;
use tidegate_models::login::{self, LoginError, LoginSettings, LoginUi};
use tidegate_models::{ProviderInfo, Registry};
use tidegate_net::Client;
use tidegate_protocol::ErrorCode;
use tidegate_runtime::{SystemClock, iso_timestamp};

use super::{ask, tell_notices};
use crate::app::App;
use crate::arguments::Parsed;
use crate::commands::block_on;
use crate::failure::{Failure, Message, With as _};
use crate::output::{complain, print_json, print_line, printable};
use crate::{Outcome, texts};

pub(super) const CODEX: &str = login::codex::PROVIDER;
pub(super) const COPILOT: &str = login::copilot::PROVIDER;

pub(super) fn log_in(
    app: &App,
    parsed: &Parsed,
    loaded: &Loaded,
    models: &Registry,
    provider: &ProviderInfo,
) -> Outcome {
    if provider.id == CODEX && !ask::is_there() {
        let message = texts::LOGIN_NEEDS_TERMINAL.with(&[("provider", &provider.id)]);
        return Err(Failure::new(ErrorCode::LoginFailed, message));
    }
    let client_id = client_id(app, loaded, provider)?;
    let terminal = Terminal::new(app);
    let LoginSettings { mut codex, mut copilot } = LoginSettings::new(&loaded.config.auth);
    let credential = block_on(async {
        let connect = Duration::from_secs(u64::from(loaded.config.models.connect_timeout_seconds));
        let (client, client_id) = (Client::new(connect), Some(client_id));
        let credential = if provider.id == CODEX {
            codex.client_id = client_id;
            login::codex::login(&client, &codex, &terminal, &SystemClock).await
        } else {
            copilot.client_id = client_id;
            login::copilot::login(&client, &copilot, &terminal).await
        };
        credential.map_err(|error| failed(&error))
    })?;
    let expires = credential.expires_at();
    let store = models.credentials()?;
    let name = parsed.value("name").map(str::to_owned).or_else(|| credential.account_id().map(str::to_owned));
    let profile = store.add(&provider.id, name.as_deref(), credential)?;
    store.set_active(&profile.id)?;
    tell_notices(app, store);
    if parsed.has("json") {
        print_json(&json!({
            "id": profile.id.as_str(), "provider": provider.id, "type": "oauth",
            "expiresAt": expires.map(iso_timestamp),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    print_line(&app.fill(texts::PROFILE_CREATED, &[("id", &printable(profile.id.as_str()))]))?;
    if let Some(at) = expires {
        print_line(&app.fill(texts::CREDENTIAL_EXPIRES, &[("at", &iso_timestamp(at))]))?;
    }
    print_line(&app.fill(texts::TRY_IT, &[("program", &app.program), ("provider", &provider.id)]))?;
    Ok(ExitCode::SUCCESS)
}

/// The client to log in as. None is part of this program: which one a person may use is between them and the vendor.
fn client_id(app: &App, loaded: &Loaded, provider: &ProviderInfo) -> Result<String, Failure> {
    let said = loaded.config.auth.clients.get(&provider.id);
    if let Some(id) = said.and_then(|client| client.client_id.clone()).filter(|id| !id.trim().is_empty()) {
        return Ok(id);
    }
    let missing = || {
        let message = texts::NO_CLIENT_ID.with(&[("provider", &provider.id)]);
        Failure::new(ErrorCode::LoginFailed, message)
            .with_hint(texts::NO_CLIENT_ID_HINT.with(&[("provider", &provider.id)]))
    };
    if !ask::is_there() {
        return Err(missing());
    }
    complain(&app.fill(texts::CLIENT_ID_WHERE, &[("name", &provider.name), ("provider", &provider.id)]));
    let typed = ask::line(app.say(texts::CLIENT_ID_QUESTION))?;
    if typed.is_empty() { Err(missing()) } else { Ok(typed) }
}

fn failed(error: &LoginError) -> Failure {
    Failure::new(ErrorCode::LoginFailed, Message::plain(error.to_string()))
        .with_hint(texts::LOGIN_AGAIN.with(&[]))
}

/// The person at the terminal. What is shown goes to standard error.
pub(in crate::commands) struct Terminal {
    open: &'static str,
    code: &'static str,
    paste: &'static str,
}

impl Terminal {
    pub(in crate::commands) fn new(app: &App) -> Self {
        Self {
            open: app.say(texts::LOGIN_OPEN),
            code: app.say(texts::LOGIN_CODE),
            paste: app.say(texts::LOGIN_PASTE),
        }
    }
}

#[async_trait]
impl LoginUi for Terminal {
    fn show_url(&self, url: &str) {
        complain(&format!("{}\n\n  {}\n", self.open, printable(url)));
    }

    fn show_code(&self, url: &str, code: &str) {
        complain(&format!("{}\n\n  {}\n\n{}  {}\n", self.open, printable(url), self.code, printable(code)));
    }

    async fn paste(&self) -> Option<String> {
        if !ask::is_there() {
            return None;
        }
        let prompt = self.paste;
        // Whoever logs in through the browser leaves this waiting; the end of the program ends it.
        let line = tidegate_runtime::spawn_blocking("paste", move || ask::line(prompt)).join().await;
        line.ok()?.ok()
    }
}
