//! How clients of this dialect call a conversation: `agent:<agent>:<rest>`. Pure.
//!
//! A name that would read back as another conversation is written as the text of the whole key, which is read too: no two
//! conversations share a name.

use tidegate_engine::{EngineError, Settings, SettingsError, session_key};
use tidegate_protocol::{ChannelName, Place, Scope, SessionKey, TenantId};

/// The conversation that a client means: a whole key, one of an agent, or one of the default agent.
pub(crate) fn read(
    settings: &Settings,
    tenant: &TenantId,
    agent: Option<&str>,
    text: &str,
) -> Result<SessionKey, EngineError> {
    let text = text.trim();
    if text.starts_with("tenant:") {
        return session_key(tenant, || settings.scope(agent), text);
    }
    let (agent, rest) = match split(text) {
        Some((named, rest)) => (Some(named), rest),
        None => (agent.map(str::to_owned), if text.is_empty() { "main" } else { text }),
    };
    let scope = settings.scope(agent.as_deref()).map_err(refused)?;
    // Checks what a name may be made of.
    let named = session_key(tenant, || Ok(scope.clone()), rest)?;
    Ok(place_of(rest).map_or(named, |(place, thread)| SessionKey { scope, place, thread }))
}

fn refused(error: SettingsError) -> EngineError {
    error.into()
}

/// Agent and rest of `agent:<agent>:<rest>`.
fn split(text: &str) -> Option<(String, &str)> {
    let rest = text.get(..6).filter(|prefix| prefix.eq_ignore_ascii_case("agent:")).map(|_| &text[6..])?;
    let (agent, rest) = rest.split_once(':')?;
    (!agent.is_empty() && !rest.is_empty()).then(|| (agent.to_lowercase(), rest))
}

/// What a rest means that is not simply a name.
fn place_of(rest: &str) -> Option<(Place, Option<String>)> {
    let (place, thread) = match rest.split_once(":thread:") {
        Some((place, thread)) => (place, Some(thread.to_owned())),
        None => (rest, None),
    };
    let channel = |text: &str| text.parse::<ChannelName>().ok();
    let parts: Vec<&str> = place.split(':').collect();
    let place = match parts.as_slice() {
        ["main"] => Place::Main,
        ["subagent", ..] => Place::Sub { id: place.strip_prefix("subagent:")?.to_owned() },
        ["dm", peer @ ..] if !peer.is_empty() => {
            Place::Dm { channel: None, account: None, peer: peer.join(":") }
        }
        [name, "dm", peer @ ..] if !peer.is_empty() => {
            Place::Dm { channel: Some(channel(name)?), account: None, peer: peer.join(":") }
        }
        [name, account, "dm", peer @ ..] if !peer.is_empty() => {
            let account = Some((*account).to_owned());
            Place::Dm { channel: Some(channel(name)?), account, peer: peer.join(":") }
        }
        [name, "group", id @ ..] if !id.is_empty() => {
            Place::Group { channel: channel(name)?, id: id.join(":") }
        }
        _ if thread.is_some() => Place::Named { name: place.to_owned() },
        _ => return None,
    };
    Some((place, thread))
}

/// What a client calls a conversation.
pub(crate) fn write(key: &SessionKey) -> String {
    let Scope { agent, .. } = &key.scope;
    let rest = match &key.place {
        Place::Sub { id } => {
            let thread = key.thread.as_ref().map(|thread| format!(":thread:{thread}")).unwrap_or_default();
            format!("subagent:{id}{thread}")
        }
        _ => key.label(),
    };
    let means = place_of(&rest).unwrap_or_else(|| (Place::Named { name: rest.clone() }, None));
    let same =
        means.0 == key.place && means.1 == key.thread && agent.as_str() == agent.as_str().to_lowercase();
    if same { format!("agent:{agent}:{rest}") } else { key.to_string() }
}

/// `direct` or `group`.
pub(crate) fn kind(key: &SessionKey) -> &'static str {
    if matches!(key.place, Place::Group { .. }) { "group" } else { "direct" }
}

/// The network a conversation takes place on.
pub(crate) fn channel(key: &SessionKey) -> Option<&ChannelName> {
    match &key.place {
        Place::Group { channel, .. } => Some(channel),
        Place::Dm { channel, .. } => channel.as_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(place: Place, thread: Option<&str>) -> SessionKey {
        SessionKey {
            scope: Scope::personal("main".parse().unwrap()),
            place,
            thread: thread.map(str::to_owned),
        }
    }

    #[test]
    fn every_conversation_has_one_name_that_leads_back_to_it() {
        let telegram: ChannelName = "telegram".parse().unwrap();
        let named = |name: &str| Place::Named { name: name.to_owned() };
        for (key, text) in [
            (key(Place::Main, None), "agent:main:main"),
            (key(named("work"), None), "agent:main:work"),
            (key(named("openai-user:u"), None), "agent:main:openai-user:u"),
            (key(named("work"), Some("7")), "agent:main:work:thread:7"),
            (key(Place::Sub { id: "u1".into() }, None), "agent:main:subagent:u1"),
            (
                key(Place::Group { channel: telegram.clone(), id: "-1:topic:5".into() }, None),
                "agent:main:telegram:group:-1:topic:5",
            ),
            (
                key(
                    Place::Dm {
                        channel: Some(telegram.clone()),
                        account: Some("biz".into()),
                        peer: "7".into(),
                    },
                    None,
                ),
                "agent:main:telegram:biz:dm:7",
            ),
            (key(Place::Dm { channel: None, account: None, peer: "7".into() }, None), "agent:main:dm:7"),
        ] {
            assert_eq!(write(&key), text);
            let rest = split(text).unwrap().1;
            let back = place_of(rest).unwrap_or_else(|| (named(rest), None));
            assert_eq!(back, (key.place, key.thread), "{text}");
        }
        // Names that look like something else keep the text of their whole key.
        for name in ["main", "telegram:group:1", "dm:x", "subagent:x", "a:thread:b"] {
            let key = key(named(name), None);
            assert!(write(&key).starts_with("tenant:"), "{name}");
        }
    }
}
