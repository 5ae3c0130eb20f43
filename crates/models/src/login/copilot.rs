//! Logging in with a GitHub account for Copilot: a code that is typed at GitHub, a GitHub token for it, and with that a
//! token of the model service, which lasts for half an hour and is fetched anew.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tidegate_net::Client;
use tidegate_oauth::{Answer, get, post_form};
use tidegate_secrets::{Credential, Secret};
use tokio::time::Instant;

use super::{LoginError, LoginUi};

/// The provider's name in profiles and models.
pub const PROVIDER: &str = "github-copilot";
/// Where a credential keeps the address of the model service.
pub const API_BASE: &str = "apiBase";

const SCOPE: &str = "read:user";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Taken off the time at which the token ends, so that nobody uses one that ends on the way.
const EARLY_MS: i64 = 300_000;
const DEFAULT_INTERVAL: f64 = 5.0;
const DEFAULT_LIFE: f64 = 900.0;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    pub device_code: String,
    pub access_token: String,
    /// Where a GitHub token becomes a token of the model service.
    pub exchange: String,
}

impl Endpoints {
    /// Those of a GitHub, which may be an enterprise's own.
    pub fn of(domain: &str) -> Self {
        Self {
            device_code: format!("https://{domain}/login/device/code"),
            access_token: format!("https://{domain}/login/oauth/access_token"),
            exchange: format!("https://api.{domain}/copilot_internal/v2/token"),
        }
    }
}

impl Default for Endpoints {
    fn default() -> Self {
        Self::of("github.com")
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    pub endpoints: Endpoints,
    /// The client to log in as. There is none by default.
    pub client_id: Option<String>,
}

/// What GitHub gave to begin with.
#[derive(Debug)]
struct Device {
    code: Secret,
    user_code: String,
    url: String,
    pace: Pace,
    life: Duration,
}

/// How often to ask. A little slower than allowed, because clocks differ, and more so once we were told to slow down.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pace {
    interval: f64,
    factor: f64,
}

impl Pace {
    fn wait(self) -> Duration {
        Duration::from_secs_f64((self.interval * self.factor).clamp(0.01, 120.0))
    }

    fn slower(self, asked: Option<f64>) -> Self {
        Self { interval: asked.unwrap_or(self.interval + 5.0), factor: 1.4 }
    }
}

/// What to do after asking whether the person has typed the code.
#[derive(Debug, PartialEq)]
enum Step {
    Done(Secret),
    Wait(Pace),
    End(LoginError),
}

fn step(answer: &Answer, pace: Pace) -> Step {
    if let (Some(token), None) = (answer.secret("access_token"), answer.error()) {
        return Step::Done(token);
    }
    match answer.error().as_deref() {
        Some("authorization_pending") => Step::Wait(pace),
        Some("slow_down") => Step::Wait(pace.slower(seconds(&answer.body, "interval"))),
        Some("access_denied") => Step::End(LoginError::Denied),
        Some("expired_token") => Step::End(LoginError::TimedOut),
        _ => Step::End(answer.refusal()),
    }
}

/// A number of seconds that makes sense.
fn seconds(body: &Value, name: &str) -> Option<f64> {
    body[name].as_f64().filter(|seconds| *seconds > 0.0 && *seconds <= 86_400.0)
}

/// Logs a person in.
pub async fn login(client: &Client, settings: &Settings, ui: &dyn LoginUi) -> Result<Credential, LoginError> {
    let client_id = settings.client_id.as_deref().filter(|id| !id.is_empty());
    let client_id = client_id.ok_or(LoginError::NoClientId { provider: PROVIDER })?;
    let device = begin(client, &settings.endpoints, client_id).await?;
    ui.show_code(&device.url, &device.user_code);
    let github = poll(client, &settings.endpoints, client_id, &device).await?;
    let exchanged = exchange(client, &settings.endpoints, &github).await?;
    Ok(credential(exchanged, github, Some(client_id.to_owned()), BTreeMap::new()))
}

async fn begin(client: &Client, endpoints: &Endpoints, client_id: &str) -> Result<Device, LoginError> {
    let form = [("client_id", client_id), ("scope", SCOPE)];
    let answer = post_form(client, &endpoints.device_code, &form).await?;
    let shown = |name: &str| answer.text(name).filter(|text| is_plain(text)).map(str::to_owned);
    let (Some(code), Some(user_code), Some(url), None) =
        (answer.secret("device_code"), shown("user_code"), shown("verification_uri"), answer.error())
    else {
        return Err(answer.refusal());
    };
    let interval = seconds(&answer.body, "interval").unwrap_or(DEFAULT_INTERVAL);
    let life = seconds(&answer.body, "expires_in").unwrap_or(DEFAULT_LIFE);
    let pace = Pace { interval, factor: 1.2 };
    Ok(Device { code, user_code, url, pace, life: Duration::from_secs_f64(life) })
}

/// Whether a text may be shown as it is: it goes to a terminal.
fn is_plain(text: &str) -> bool {
    text.len() <= 500 && text.chars().all(|c| c.is_ascii_graphic())
}

async fn poll(
    client: &Client,
    endpoints: &Endpoints,
    client_id: &str,
    device: &Device,
) -> Result<Secret, LoginError> {
    let end = Instant::now() + device.life;
    let form = [("client_id", client_id), ("device_code", device.code.expose()), ("grant_type", GRANT)];
    let mut pace = device.pace;
    loop {
        if Instant::now() + pace.wait() >= end {
            return Err(LoginError::TimedOut);
        }
        tokio::time::sleep(pace.wait()).await;
        match post_form(client, &endpoints.access_token, &form).await {
            Ok(answer) => match step(&answer, pace) {
                Step::Done(token) => return Ok(token),
                Step::Wait(next) => pace = next,
                Step::End(error) => return Err(error),
            },
            // A train in a tunnel: the person may be typing the code all the same.
            Err(LoginError::Net(_) | LoginError::TimedOut) => pace = pace.slower(Some(pace.interval)),
            Err(error) => return Err(error),
        }
    }
}

/// A token of the model service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exchange {
    token: Secret,
    expires_at: i64,
    api_base: Option<String>,
}

async fn exchange(client: &Client, endpoints: &Endpoints, github: &Secret) -> Result<Exchange, LoginError> {
    parse_exchange(&get(client, &endpoints.exchange, github).await?)
}

fn parse_exchange(answer: &Answer) -> Result<Exchange, LoginError> {
    let (Some(token), Some(ends), 200..300) =
        (answer.secret("token"), answer.body["expires_at"].as_i64(), answer.status)
    else {
        return Err(answer.refusal());
    };
    let named = answer.body["endpoints"]["api"].as_str().filter(|base| is_plain(base) && !base.is_empty());
    Ok(Exchange {
        expires_at: ends.saturating_mul(1000).saturating_sub(EARLY_MS),
        api_base: named.map(str::to_owned).or_else(|| base_in(token.expose())),
        token,
    })
}

/// The token is a list of fields, one of which names the server for this account.
fn base_in(token: &str) -> Option<String> {
    let proxy = token.split(';').find_map(|field| field.trim().strip_prefix("proxy-ep="))?;
    let is_host =
        proxy.contains('.') && proxy.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
    is_host.then(|| match proxy.strip_prefix("proxy.") {
        Some(rest) => format!("https://api.{rest}"),
        None => format!("https://{proxy}"),
    })
}

fn credential(
    exchanged: Exchange,
    github: Secret,
    client_id: Option<String>,
    mut extra: BTreeMap<String, String>,
) -> Credential {
    if let Some(base) = exchanged.api_base {
        extra.insert(API_BASE.to_owned(), base);
    }
    Credential::Oauth {
        access: exchanged.token,
        refresh: github,
        expires_at: exchanged.expires_at,
        account_id: None,
        email: None,
        client_id,
        extra,
    }
}

/// A login from a GitHub token that is there already.
pub(crate) async fn of_github(
    client: &Client,
    settings: &Settings,
    github: &Secret,
) -> Result<Credential, LoginError> {
    let exchanged = exchange(client, &settings.endpoints, github).await?;
    Ok(credential(exchanged, github.clone(), None, BTreeMap::new()))
}

/// A new token of the model service, for the same GitHub token.
pub(super) async fn refresh(
    client: &Client,
    settings: &Settings,
    old: &Credential,
) -> Result<Credential, LoginError> {
    let Credential::Oauth { refresh, client_id, extra, account_id, email, .. } = old else {
        return Err(LoginError::Refused { status: 0, reason: "it is not a login".to_owned() });
    };
    // A login at an enterprise's own GitHub is refreshed there.
    let endpoints = extra.get("enterpriseUrl").map(|url| Endpoints::of(domain_of(url)));
    let endpoints = endpoints.as_ref().unwrap_or(&settings.endpoints);
    let exchanged = exchange(client, endpoints, refresh).await?;
    let mut new = credential(exchanged, refresh.clone(), client_id.clone(), extra.clone());
    if let Credential::Oauth { account_id: account, email: mail, .. } = &mut new {
        account.clone_from(account_id);
        mail.clone_from(email);
    }
    Ok(new)
}

fn domain_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

#[cfg(test)]
mod tests;
