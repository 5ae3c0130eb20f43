//! How a conversation is called in an address.

use tidegate_engine::Settings;
use tidegate_protocol::{ErrorCode, Place, Scope, SessionKey, TenantId};

use crate::answer::Refusal;

/// The longest name, in bytes.
const LONGEST: usize = 512;
/// How the text of a whole key begins.
const WHOLE: &str = "tenant:";

/// The key that a name in an address means: the text of a whole key, or a conversation of the (default) agent.
pub(crate) fn key_of(
    settings: &Settings,
    tenant: &TenantId,
    agent: Option<&str>,
    name: &str,
) -> Result<SessionKey, Refusal> {
    if name.trim().is_empty() || name.len() > LONGEST || name.chars().any(char::is_control) {
        let message =
            format!("the name of a conversation must be 1 to {LONGEST} bytes without control characters");
        return Err(Refusal::new(ErrorCode::BadRequest, message));
    }
    if !name.starts_with(WHOLE) {
        return Ok(SessionKey::named(settings.scope(agent)?, name));
    }
    let key: SessionKey =
        name.parse().map_err(|error| Refusal::new(ErrorCode::BadRequest, format!("{error}")))?;
    // Somebody else's conversations do not exist here.
    if key.scope.tenant != *tenant {
        return Err(Refusal::new(ErrorCode::NotFound, format!("session {name} does not exist")));
    }
    Ok(key)
}

/// The name that means the key; [`key_of`] turns it back.
pub(crate) fn name_of(default: &Scope, key: &SessionKey) -> String {
    let label = key.label();
    let plain = matches!(key.place, Place::Main | Place::Named { .. })
        && key.thread.is_none()
        && key.scope == *default
        && *key == SessionKey::named(default.clone(), &label)
        && !label.starts_with(WHOLE)
        && label.len() <= LONGEST
        && !label.trim().is_empty()
        && !label.chars().any(char::is_control);
    if plain { label } else { key.to_string() }
}
