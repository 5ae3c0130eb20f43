//! How a conversation is called: by a short name among those of an agent, or by the text of its whole key.

use tidegate_protocol::{ErrorCode, Place, Scope, SessionKey, TenantId};

use crate::error::EngineError;
use crate::settings::{Settings, SettingsError};

/// The longest name, in bytes.
const LONGEST: usize = 512;
/// How the text of a whole key begins.
const WHOLE: &str = "tenant:";

/// A name that means no conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("the name of a conversation must be 1 to {LONGEST} bytes without control characters")]
    Unfit,
    #[error("{0}")]
    NotAKey(String),
    /// Somebody else's, or of an agent that is not there.
    #[error("session {0} does not exist")]
    Elsewhere(String),
}

impl NameError {
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Unfit | Self::NotAKey(_) => ErrorCode::BadRequest,
            Self::Elsewhere(_) => ErrorCode::NotFound,
        }
    }
}

/// The key that a name means: the text of a whole key of this tenant, or a conversation of the agent that `scope` tells.
pub fn session_key(
    tenant: &TenantId,
    scope: impl FnOnce() -> Result<Scope, SettingsError>,
    name: &str,
) -> Result<SessionKey, EngineError> {
    if !is_fit(name) {
        return Err(NameError::Unfit.into());
    }
    if !name.starts_with(WHOLE) {
        return Ok(SessionKey::named(scope()?, name));
    }
    let key: SessionKey = name.parse().map_err(|error| NameError::NotAKey(format!("{error}")))?;
    // Somebody else's conversations do not exist here.
    if key.scope.tenant != *tenant {
        return Err(NameError::Elsewhere(name.to_owned()).into());
    }
    Ok(key)
}

/// The same for whoever wants an answer there: its agent must be one that is configured.
pub fn answering_session_key(
    settings: &Settings,
    tenant: &TenantId,
    scope: impl FnOnce() -> Result<Scope, SettingsError>,
    name: &str,
) -> Result<SessionKey, EngineError> {
    let key = session_key(tenant, scope, name)?;
    if settings.scope(Some(key.scope.agent.as_str()))? != key.scope {
        return Err(NameError::Elsewhere(name.to_owned()).into());
    }
    Ok(key)
}

/// The name that means the key where `default` is the agent; [`session_key`] turns it back.
pub fn session_name(default: &Scope, key: &SessionKey) -> String {
    let label = key.label();
    let plain = matches!(key.place, Place::Main | Place::Named { .. })
        && key.thread.is_none()
        && key.scope == *default
        && *key == SessionKey::named(default.clone(), &label)
        && !label.starts_with(WHOLE)
        && is_fit(&label);
    if plain { label } else { key.to_string() }
}

fn is_fit(name: &str) -> bool {
    !name.trim().is_empty() && name.len() <= LONGEST && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default() -> Scope {
        Scope::personal("main".parse().unwrap())
    }

    fn key_of(name: &str) -> Result<SessionKey, ErrorCode> {
        session_key(&default().tenant, || Ok(default()), name).map_err(|error| error.body().code)
    }

    #[test]
    fn a_name_leads_back_to_its_conversation() {
        let at = "tenant:local/workspace:default/agent";
        for (key, expected) in [
            (format!("{at}:main/main"), "main".to_owned()),
            (format!("{at}:main/name:trip%20to%20%2F"), "trip to /".to_owned()),
            (format!("{at}:main/name:main"), format!("{at}:main/name:main")),
            (format!("{at}:main/name:tenant%3Ax"), format!("{at}:main/name:tenant%3Ax")),
            (format!("{at}:main/name:%20"), format!("{at}:main/name:%20")),
            (format!("{at}:main/main:thread:7"), format!("{at}:main/main:thread:7")),
            (format!("{at}:main/dm:slack:T1:U1"), format!("{at}:main/dm:slack:T1:U1")),
            (format!("{at}:other/main"), format!("{at}:other/main")),
        ] {
            let key: SessionKey = key.parse().unwrap();
            let name = session_name(&default(), &key);
            assert_eq!(name, expected);
            assert_eq!(key_of(&name), Ok(key));
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for name in ["", "  ", "a\nb", "tenant:local/nonsense", &"x".repeat(LONGEST + 1)] {
            assert_eq!(key_of(name), Err(ErrorCode::BadRequest), "{name:?}");
        }
        let foreign = "tenant:elsewhere/workspace:default/agent:main/main";
        assert_eq!(key_of(foreign), Err(ErrorCode::NotFound));
    }
}
