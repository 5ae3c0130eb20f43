//! A profile: one credential of one provider, under a name.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::error::SecretsError;
use crate::secret::Secret;

/// Longer than any account's name, short enough for a line on a screen.
const NAME_LIMIT: usize = 200;

/// What stands in the place of a provider for logins at MCP servers.
pub const MCP: &str = "mcp";
/// Where `extra` of a login holds the secret of its client.
pub const CLIENT_SECRET: &str = "clientSecret";

/// `provider/name`. `provider:name` is read as the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileId {
    text: String,
    /// Where the provider ends.
    slash: usize,
}

impl ProfileId {
    pub fn new(provider: &str, name: &str) -> Result<Self, SecretsError> {
        let bad = || SecretsError::BadId(format!("{provider}/{name}").chars().take(NAME_LIMIT).collect());
        let provider = provider.trim().to_ascii_lowercase();
        let name = name.trim();
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if provider.is_empty() || !provider.chars().all(word) || provider.len() > NAME_LIMIT {
            return Err(bad());
        }
        if name.is_empty() || name.len() > NAME_LIMIT || name.chars().any(char::is_control) {
            return Err(bad());
        }
        Ok(Self { slash: provider.len(), text: format!("{provider}/{name}") })
    }

    pub fn provider(&self) -> &str {
        &self.text[..self.slash]
    }

    pub fn name(&self) -> &str {
        &self.text[self.slash + 1..]
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name for the `n`-th profile of the same account.
    pub(crate) fn numbered(&self, n: usize) -> Result<Self, SecretsError> {
        Self::new(self.provider(), &format!("{}#{n}", self.name()))
    }
}

impl FromStr for ProfileId {
    type Err = SecretsError;

    fn from_str(text: &str) -> Result<Self, SecretsError> {
        let bad = || SecretsError::BadId(text.chars().take(NAME_LIMIT).collect());
        let (provider, name) = text.split_once(['/', ':']).ok_or_else(bad)?;
        Self::new(provider, name)
    }
}

impl fmt::Display for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// What a provider is shown. Times are milliseconds since the epoch.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    ApiKey {
        key: Secret,
        email: Option<String>,
    },
    /// A fixed bearer token, which cannot be refreshed.
    Token {
        token: Secret,
        expires_at: Option<i64>,
        email: Option<String>,
    },
    /// A person's login.
    Oauth {
        access: Secret,
        refresh: Secret,
        expires_at: i64,
        account_id: Option<String>,
        email: Option<String>,
        /// The client the login was made with: a refresh has to name the same one.
        client_id: Option<String>,
        /// What else the provider wants to be told (`enterpriseUrl`, `projectId`).
        extra: BTreeMap<String, String>,
    },
}

/// Says what there is, and nothing of what `extra` holds: a client's secret may be among it.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extra: Vec<&str> = match self {
            Self::Oauth { extra, .. } => extra.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        };
        f.debug_struct(self.kind())
            .field("account_id", &self.account_id())
            .field("email", &self.email())
            .field("expires_at", &self.expires_at())
            .field("extra", &extra)
            .finish_non_exhaustive()
    }
}

impl Credential {
    /// Everything in it that nobody else may see.
    pub fn secrets(&self) -> Vec<Secret> {
        match self {
            Self::ApiKey { key, .. } => vec![key.clone()],
            Self::Token { token, .. } => vec![token.clone()],
            Self::Oauth { access, refresh, extra, .. } => {
                let client = extra.get(CLIENT_SECRET).map(|secret| Secret::new(secret.as_str()));
                [access.clone(), refresh.clone()].into_iter().chain(client).collect()
            }
        }
    }

    /// The kind as it is written in files.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ApiKey { .. } => "api_key",
            Self::Token { .. } => "token",
            Self::Oauth { .. } => "oauth",
        }
    }

    pub fn email(&self) -> Option<&str> {
        match self {
            Self::ApiKey { email, .. } | Self::Token { email, .. } | Self::Oauth { email, .. } => {
                email.as_deref()
            }
        }
    }

    pub fn expires_at(&self) -> Option<i64> {
        match self {
            Self::ApiKey { .. } => None,
            Self::Token { expires_at, .. } => *expires_at,
            Self::Oauth { expires_at, .. } => Some(*expires_at),
        }
    }

    pub fn account_id(&self) -> Option<&str> {
        match self {
            Self::Oauth { account_id, .. } => account_id.as_deref(),
            _ => None,
        }
    }

    /// Whether there is anything to show to a provider.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::ApiKey { key, .. } => key.is_empty(),
            Self::Token { token, .. } => token.is_empty(),
            Self::Oauth { access, refresh, .. } => access.is_empty() && refresh.is_empty(),
        }
    }
}

/// A stored credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub id: ProfileId,
    /// The provider of `id`.
    pub provider: String,
    pub credential: Credential,
    pub created_at: i64,
    pub updated_at: i64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_colon_and_a_slash_mean_the_same() {
        let slash: ProfileId = "openai-codex/acc-1#2".parse().unwrap();
        assert_eq!(slash, "OpenAI-Codex:acc-1#2".parse().unwrap());
        assert_eq!((slash.provider(), slash.name()), ("openai-codex", "acc-1#2"));
        assert_eq!(slash.to_string(), "openai-codex/acc-1#2");
    }

    #[test]
    fn only_the_first_mark_parts_the_provider_from_the_name() {
        let id: ProfileId = "anthropic:me@host/work:2".parse().unwrap();
        assert_eq!((id.provider(), id.name()), ("anthropic", "me@host/work:2"));
        assert_eq!(id.as_str().parse::<ProfileId>().unwrap(), id);
    }

    #[test]
    fn what_is_no_id_is_refused() {
        let long = "x".repeat(300);
        for text in ["", "x", "/x", "x/", "a b/c", "x/a\nb", "../x/y", &format!("x/{long}"), "é/x"] {
            let ok = text.parse::<ProfileId>();
            // `..` is made of allowed letters and names a provider, not a folder: it never becomes a path.
            assert_eq!(ok.is_ok(), text.starts_with(".."), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn an_id_is_read_back_as_it_was_written(provider in "[a-z0-9._-]{1,20}", name in "[!-~]{1,40}") {
            let id = ProfileId::new(&provider, &name).unwrap();
            prop_assert_eq!(id.to_string().parse::<ProfileId>().unwrap(), id);
        }
    }
}
