//! Logging in with a ChatGPT account: the browser, a page on this machine or a pasted code, and tokens for it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tidegate_net::Client;
use tidegate_oauth::{Answer, Callback, Expected, Pkce, code, form, post_form};
use tidegate_runtime::Clock;
use tidegate_secrets::{Credential, Secret};

use super::{LoginError, LoginUi, jwt};

/// The provider's name in profiles and models.
pub const PROVIDER: &str = "openai-codex";

const SCOPE: &str = "openid profile email offline_access";
const ACCOUNT_CLAIM: &str = "https://api.openai.com/auth";
const PROFILE_CLAIM: &str = "https://api.openai.com/profile";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    pub authorize: String,
    pub token: String,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self {
            authorize: "https://auth.openai.com/oauth/authorize".to_owned(),
            token: "https://auth.openai.com/oauth/token".to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub endpoints: Endpoints,
    /// The client to log in as. There is none by default.
    pub client_id: Option<String>,
    /// Where the browser comes back to: the vendor knows this address. 0 is any free port.
    pub port: u16,
    /// How long the person may take.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let patience = Duration::from_mins(10);
        Self { endpoints: Endpoints::default(), client_id: None, port: 1455, patience }
    }
}

/// One login, begun and not yet ended.
struct Attempt<'a> {
    settings: &'a Settings,
    client_id: &'a str,
    pkce: Pkce,
    redirect: String,
}

impl Attempt<'_> {
    fn authorize_url(&self) -> String {
        let query = form::encode(&[
            ("response_type", "code"),
            ("client_id", self.client_id),
            ("redirect_uri", &self.redirect),
            ("scope", SCOPE),
            ("code_challenge", &self.pkce.challenge),
            ("code_challenge_method", "S256"),
            ("state", &self.pkce.state),
            ("id_token_add_organizations", "true"),
            ("codex_cli_simplified_flow", "true"),
            ("originator", "tidegate"),
        ]);
        format!("{}?{query}", self.settings.endpoints.authorize)
    }

    async fn exchange(
        &self,
        client: &Client,
        code: &Secret,
        clock: &dyn Clock,
    ) -> Result<Credential, LoginError> {
        let form = [
            ("grant_type", "authorization_code"),
            ("client_id", self.client_id),
            ("code", code.expose()),
            ("code_verifier", self.pkce.verifier.expose()),
            ("redirect_uri", &self.redirect),
        ];
        let answer = post_form(client, &self.settings.endpoints.token, &form).await?;
        credential(&answer, None, self.client_id, clock.now_ms())
    }
}

/// Logs a person in.
pub async fn login(
    client: &Client,
    settings: &Settings,
    ui: &dyn LoginUi,
    clock: &dyn Clock,
) -> Result<Credential, LoginError> {
    let client_id = settings.client_id.as_deref().filter(|id| !id.is_empty());
    let client_id = client_id.ok_or(LoginError::NoClientId { provider: PROVIDER })?;
    // A taken port leaves the way of pasting: the browser ends at an address that holds the code all the same.
    let callback = Callback::listen(settings.port).await.ok();
    let port = callback.as_ref().and_then(Callback::port).unwrap_or(settings.port);
    let redirect = Callback::redirect(port);
    let attempt = Attempt { settings, client_id, pkce: Pkce::new()?, redirect };
    ui.show_url(&attempt.authorize_url());
    let expected = Expected::state(&attempt.pkce.state);
    let code = tokio::time::timeout(settings.patience, code(callback, ui, expected));
    let code = code.await.map_err(|_| LoginError::TimedOut)??;
    attempt.exchange(client, &code, clock).await
}

/// New tokens for a login. What the provider does not send again stays as it was.
pub(super) async fn refresh(
    client: &Client,
    settings: &Settings,
    old: &Credential,
    clock: &dyn Clock,
) -> Result<Credential, LoginError> {
    let Credential::Oauth { access, refresh, client_id, .. } = old else {
        return Err(LoginError::Refused { status: 0, reason: "it is not a login".to_owned() });
    };
    // The token itself says to which client it was given, if nobody wrote it down.
    let claims = jwt::claims(access);
    let known = client_id.as_deref().or(settings.client_id.as_deref());
    let client_id = known.or_else(|| claims["client_id"].as_str()).filter(|id| !id.is_empty());
    let client_id = client_id.ok_or(LoginError::NoClientId { provider: PROVIDER })?;
    let form = [
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh.expose()),
        ("client_id", client_id),
        ("scope", SCOPE),
    ];
    let answer = post_form(client, &settings.endpoints.token, &form).await?;
    credential(&answer, Some(old), client_id, clock.now_ms())
}

fn credential(
    answer: &Answer,
    old: Option<&Credential>,
    client: &str,
    now: i64,
) -> Result<Credential, LoginError> {
    let old_refresh = match old {
        Some(Credential::Oauth { refresh, .. }) => Some(refresh.clone()),
        _ => None,
    };
    let refresh = answer.secret("refresh_token").or(old_refresh);
    let (Some(access), Some(refresh), None, 200..300) =
        (answer.secret("access_token"), refresh, answer.error(), answer.status)
    else {
        return Err(answer.refusal());
    };
    let claims = jwt::claims(&access);
    let identity = answer.secret("id_token").map_or(Value::Null, |token| jwt::claims(&token));
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let account = text(&claims[ACCOUNT_CLAIM]["chatgpt_account_id"])
        .or_else(|| text(&identity[ACCOUNT_CLAIM]["chatgpt_account_id"]))
        .or_else(|| old?.account_id().map(str::to_owned));
    let email = text(&identity["email"])
        .or_else(|| text(&claims[PROFILE_CLAIM]["email"]))
        .or_else(|| old?.email().map(str::to_owned));
    let lasts =
        answer.body["expires_in"].as_i64().map(|seconds| now.saturating_add(seconds.saturating_mul(1000)));
    let ends = claims["exp"].as_i64().map(|seconds| seconds.saturating_mul(1000));
    Ok(Credential::Oauth {
        access,
        refresh,
        // A token that does not say when it ends is asked about again in an hour.
        expires_at: lasts.or(ends).unwrap_or_else(|| now.saturating_add(3_600_000)),
        account_id: account,
        email,
        client_id: Some(client.to_owned()),
        extra: match old {
            Some(Credential::Oauth { extra, .. }) => extra.clone(),
            _ => BTreeMap::new(),
        },
    })
}

#[cfg(test)]
mod tests;
