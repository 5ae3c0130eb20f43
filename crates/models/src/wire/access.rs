//! The credential a call is made with, ready to be sent.

use tidegate_secrets::Secret;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Access {
    /// The server asks for none, as one on this machine.
    Open,
    /// A provider's key.
    Key(Secret),
    /// A token of a person's login.
    Login { token: Secret, account_id: Option<String> },
    /// Keys that sign.
    Aws { access_key: String, secret_key: Secret, session_token: Option<Secret>, region: Option<String> },
}

impl Access {
    /// Everything in it that nobody may read.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let (first, second) = match self {
            Self::Open => (None, None),
            Self::Key(secret) | Self::Login { token: secret, .. } => (Some(secret), None),
            Self::Aws { secret_key, session_token, .. } => (Some(secret_key), session_token.as_ref()),
        };
        first.into_iter().chain(second)
    }

    /// The text that goes into a header, where the format knows one kind only.
    pub(crate) fn token(&self) -> Option<&Secret> {
        match self {
            Self::Open | Self::Aws { .. } => None,
            Self::Key(key) => Some(key),
            Self::Login { token, .. } => Some(token),
        }
    }

    /// `Bearer …`, as most formats send it.
    pub(crate) fn bearer(&self) -> Option<Secret> {
        self.token().map(|token| Secret::new(format!("Bearer {}", token.expose())))
    }
}
