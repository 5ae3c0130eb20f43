//! Section `auth`: which credential is used, and for how long one that failed is left alone.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Auth {
    /// The stored credentials to use, by id as `provider/name`; all of a provider's when none of them is named here.
    pub profiles: BTreeMap<String, AuthProfile>,
    /// The order in which a provider's credentials are tried.
    pub order: BTreeMap<String, Vec<String>>,
    /// How long a credential that failed is left alone.
    pub cooldowns: Cooldowns,
    /// Client ids for logins in a browser, by provider.
    pub clients: BTreeMap<String, AuthClient>,
    /// Where the key is kept that encrypts stored credentials.
    pub key_store: KeyStore,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthProfile {
    /// The provider it is for.
    #[schemars(length(min = 1))]
    pub provider: String,
    /// What kind of credential it must be.
    #[serde(default)]
    pub mode: Option<AuthMode>,
    /// Whose it is, for people.
    #[serde(default)]
    pub email: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// A provider's key.
    ApiKey,
    /// A login; a token will do.
    Oauth,
    /// A token that cannot be renewed.
    Token,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cooldowns {
    /// Hours after the first refusal for want of credit; doubled each time.
    #[schemars(range(min = 0.0))]
    pub billing_backoff_hours: f64,
    /// The same for single providers.
    pub billing_backoff_hours_by_provider: BTreeMap<String, f64>,
    /// Hours at most.
    #[schemars(range(min = 0.0))]
    pub billing_max_hours: f64,
    /// Hours without a failure after which counting begins anew.
    #[schemars(range(min = 0.0))]
    pub failure_window_hours: f64,
}

impl Default for Cooldowns {
    fn default() -> Self {
        Self {
            billing_backoff_hours: 5.0,
            billing_backoff_hours_by_provider: BTreeMap::new(),
            billing_max_hours: 24.0,
            failure_window_hours: 24.0,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AuthClient {
    /// The id under which this installation is known to the provider.
    #[schemars(length(min = 1))]
    pub client_id: Option<String>,
    /// The page where a person agrees, in place of the provider's own.
    #[schemars(length(min = 1))]
    pub authorize_url: Option<String>,
    /// Where tokens are fetched, in place of the provider's own.
    #[schemars(length(min = 1))]
    pub token_url: Option<String>,
    /// Where a login becomes a token for models, in place of the provider's own; for `github-copilot`.
    #[schemars(length(min = 1))]
    pub exchange_url: Option<String>,
    /// The port of this machine that the browser comes back to, for `openai-codex`.
    #[schemars(range(min = 1))]
    pub callback_port: Option<u16>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyStore {
    /// The system's keychain when it works without asking, else a file.
    #[default]
    Auto,
    /// A file that only its owner can read.
    File,
    /// The system's keychain, or an error.
    Keychain,
}

/// An agent's own order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentAuth {
    /// The credentials this agent uses, by provider, in this order.
    pub order: BTreeMap<String, Vec<String>>,
}
