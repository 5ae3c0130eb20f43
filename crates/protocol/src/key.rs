//! The session key: a structured value, and one canonical, collision-free text for it.
//!
//! The text is `tenant:<t>/workspace:<w>/agent:<a>/<place>[:thread:<id>]`. Whatever comes from outside is
//! percent-encoded, so that no peer id can pretend to be another place, thread or agent.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::{AgentId, ChannelName, NameError, Scope, TenantId, WorkspaceId};

/// Where inside an agent a conversation takes place.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, ts_rs::TS,
)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Place {
    /// The agent's main conversation.
    Main,
    /// A conversation somebody gave a name to (`ask --session work`).
    Named { name: String },
    /// A direct message; `channel` and `account` are absent when the DM scope folds them together.
    Dm { channel: Option<ChannelName>, account: Option<String>, peer: String },
    /// A group or room of a network.
    Group { channel: ChannelName, id: String },
    /// A conversation that another run began for a piece of work.
    Sub { id: String },
}

/// Identifies a conversation. Work is FIFO per key.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, ts_rs::TS,
)]
#[serde(rename_all = "camelCase")]
pub struct SessionKey {
    pub scope: Scope,
    pub place: Place,
    pub thread: Option<String>,
}

impl SessionKey {
    /// The conversation called `name`; `main` is the agent's main conversation.
    pub fn named(scope: Scope, name: &str) -> Self {
        let place = if name == "main" { Place::Main } else { Place::Named { name: name.to_owned() } };
        Self { scope, place, thread: None }
    }

    /// What a person typed or would type to mean this conversation inside its agent.
    pub fn label(&self) -> String {
        let mut label = match &self.place {
            Place::Main => "main".to_owned(),
            Place::Named { name } => name.clone(),
            Place::Dm { channel: None, peer, .. } => format!("dm:{peer}"),
            Place::Dm { channel: Some(channel), account: None, peer } => format!("{channel}:dm:{peer}"),
            Place::Dm { channel: Some(channel), account: Some(account), peer } => {
                format!("{channel}:{account}:dm:{peer}")
            }
            Place::Group { channel, id } => format!("{channel}:group:{id}"),
            Place::Sub { id } => format!("sub:{id}"),
        };
        if let Some(thread) = &self.thread {
            let _ = write!(label, ":thread:{thread}");
        }
        label
    }
}

/// Why a text is not a session key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("session key {0:?} does not have the form tenant:<t>/workspace:<w>/agent:<a>/<place>")]
    Shape(String),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("session key {0:?} has a broken percent-encoding")]
    Encoding(String),
}

/// Bytes that stay as they are; everything else becomes `%XX`.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'@' | b'+')
}

/// Writes text from outside so that it cannot contain what separates fields.
pub(crate) fn encode(out: &mut impl fmt::Write, text: &str) -> fmt::Result {
    for byte in text.bytes() {
        if is_plain(byte) {
            out.write_char(char::from(byte))?;
        } else {
            write!(out, "%{byte:02X}")?;
        }
    }
    Ok(())
}

fn decode(text: &str) -> Result<String, KeyError> {
    let broken = || KeyError::Encoding(text.to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if is_plain(byte) {
            bytes.push(byte);
            continue;
        }
        let (b'%', Some((hex, tail))) = (byte, rest.split_at_checked(2)) else { return Err(broken()) };
        rest = tail;
        // Only the upper-case form of bytes that need it: one key has one text.
        let canonical = hex.iter().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(b));
        let value = std::str::from_utf8(hex).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match value {
            Some(value) if canonical && !is_plain(value) => bytes.push(value),
            _ => return Err(broken()),
        }
    }
    String::from_utf8(bytes).map_err(|_| broken())
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scope { tenant, workspace, agent } = &self.scope;
        write!(f, "tenant:{tenant}/workspace:{workspace}/agent:{agent}/")?;
        match &self.place {
            Place::Main => f.write_str("main")?,
            Place::Named { name } => {
                f.write_str("name:")?;
                encode(f, name)?;
            }
            Place::Dm { channel, account, peer } => {
                // Always three fields, an absent one empty: the number of colons never depends on the data.
                write!(f, "dm:{}:", channel.as_ref().map_or("", ChannelName::as_str))?;
                encode(f, account.as_deref().unwrap_or(""))?;
                f.write_str(":")?;
                encode(f, peer)?;
            }
            Place::Group { channel, id } => {
                write!(f, "group:{channel}:")?;
                encode(f, id)?;
            }
            Place::Sub { id } => {
                f.write_str("sub:")?;
                encode(f, id)?;
            }
        }
        if let Some(thread) = &self.thread {
            f.write_str(":thread:")?;
            encode(f, thread)?;
        }
        Ok(())
    }
}

impl FromStr for SessionKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let shape = || KeyError::Shape(text.to_owned());
        let mut parts = text.split('/');
        let mut next =
            |prefix: &str| parts.next().and_then(|part| part.strip_prefix(prefix)).ok_or_else(shape);
        let scope = Scope {
            tenant: next("tenant:")?.parse::<TenantId>()?,
            workspace: next("workspace:")?.parse::<WorkspaceId>()?,
            agent: next("agent:")?.parse::<AgentId>()?,
        };
        let place = next("")?;
        if parts.next().is_some() {
            return Err(shape());
        }
        let (place, thread) = match place.split_once(":thread:") {
            Some((place, thread)) => (place, Some(decode(thread)?)),
            None => (place, None),
        };
        let place = match place.split(':').collect::<Vec<_>>().as_slice() {
            ["main"] => Place::Main,
            ["name", name] => Place::Named { name: decode(name)? },
            ["sub", id] => Place::Sub { id: decode(id)? },
            ["group", channel, id] => Place::Group { channel: channel.parse()?, id: decode(id)? },
            ["dm", channel, account, peer] => Place::Dm {
                channel: if channel.is_empty() { None } else { Some(channel.parse()?) },
                account: if account.is_empty() { None } else { Some(decode(account)?) },
                peer: decode(peer)?,
            },
            _ => return Err(shape()),
        };
        Ok(Self { scope, place, thread })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scope() -> Scope {
        Scope::personal("main".parse().unwrap())
    }

    #[test]
    fn the_canonical_text_is_the_one_written_down() {
        let key = |place, thread: Option<&str>| {
            SessionKey { scope: scope(), place, thread: thread.map(str::to_owned) }.to_string()
        };
        let at = "tenant:local/workspace:default/agent:main";
        let slack = || "slack".parse::<ChannelName>().unwrap();
        assert_eq!(key(Place::Main, None), format!("{at}/main"));
        assert_eq!(key(Place::Named { name: "../x:y".into() }, None), format!("{at}/name:..%2Fx%3Ay"));
        assert_eq!(
            key(Place::Dm { channel: Some(slack()), account: None, peer: "U1".into() }, Some("17.5")),
            format!("{at}/dm:slack::U1:thread:17.5")
        );
        assert_eq!(
            key(Place::Group { channel: slack(), id: "C9".into() }, None),
            format!("{at}/group:slack:C9")
        );
    }

    #[test]
    fn a_text_with_a_second_spelling_is_refused() {
        for bad in [
            "main",
            "tenant:local/workspace:default/agent:main",
            "tenant:local/workspace:default/agent:main/main/main",
            "tenant:local/workspace:default/agent:main/name:%61",
            "tenant:local/workspace:default/agent:main/name:%2f",
            "tenant:local/workspace:default/agent:main/name:%2",
            "tenant:Local/workspace:default/agent:main/main",
        ] {
            assert!(bad.parse::<SessionKey>().is_err(), "{bad}");
        }
    }

    fn place() -> impl Strategy<Value = Place> {
        let channel = "[a-z][a-z0-9]{0,6}".prop_map(|name| name.parse::<ChannelName>().unwrap());
        prop_oneof![
            Just(Place::Main),
            any::<String>().prop_map(|name| Place::Named { name }),
            any::<String>().prop_map(|id| Place::Sub { id }),
            (channel.clone(), any::<String>()).prop_map(|(channel, id)| Place::Group { channel, id }),
            // An account is a network's own id and never empty.
            (proptest::option::of(channel), proptest::option::of(".+"), any::<String>())
                .prop_map(|(channel, account, peer)| Place::Dm { channel, account, peer }),
        ]
    }

    fn key() -> impl Strategy<Value = SessionKey> {
        (place(), proptest::option::of(any::<String>())).prop_map(|(place, thread)| SessionKey {
            scope: scope(),
            place,
            thread,
        })
    }

    proptest! {
        #[test]
        fn a_key_comes_back_from_its_text(key in key()) {
            prop_assert_eq!(key.to_string().parse::<SessionKey>().unwrap(), key);
        }

        #[test]
        fn two_keys_never_share_a_text(a in key(), b in key()) {
            prop_assert_eq!(a == b, a.to_string() == b.to_string());
        }

        #[test]
        fn a_text_that_parses_is_canonical(text in "tenant:a/workspace:b/agent:c/[a-z%:0-9A-F.]{0,20}") {
            if let Ok(key) = text.parse::<SessionKey>() {
                prop_assert_eq!(key.to_string(), text);
            }
        }
    }
}
