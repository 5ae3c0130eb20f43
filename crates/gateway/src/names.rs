//! How a conversation is called in an address.

use tidegate_engine::{Settings, answering_session_key, session_key};
use tidegate_protocol::{SessionKey, TenantId};

use crate::answer::Refusal;

/// The key that a name in an address means: the text of a whole key, or a conversation of the (default) agent.
pub(crate) fn key_of(
    settings: &Settings,
    tenant: &TenantId,
    agent: Option<&str>,
    name: &str,
) -> Result<SessionKey, Refusal> {
    Ok(session_key(tenant, || settings.scope(agent), name)?)
}

/// The same for whoever wants an answer there: its agent must be one that is configured.
pub(crate) fn answering_key_of(
    settings: &Settings,
    tenant: &TenantId,
    agent: Option<&str>,
    name: &str,
) -> Result<SessionKey, Refusal> {
    Ok(answering_session_key(settings, tenant, || settings.scope(agent), name)?)
}
