//! Session keys as the upstream gateway writes them (`agent:<id>:…`), for clients and data of its kind.
//!
//! These texts are read and written at the edge only. Inside, a conversation is a `SessionKey`, which cannot be confused
//! with another one whatever a peer is called.

use std::collections::BTreeMap;

use tidegate_protocol::PeerKind;

const MAIN: &str = "main";
const DEFAULT_ACCOUNT: &str = "default";
/// Stands for what a message does not say.
const UNKNOWN: &str = "unknown";
const LONGEST_ID: usize = 64;

/// A key of this form, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentKey<'t> {
    pub agent: &'t str,
    /// What identifies the conversation inside the agent.
    pub rest: &'t str,
}

impl<'t> AgentKey<'t> {
    /// Nothing when the text is of another form.
    pub fn parse(text: &'t str) -> Option<Self> {
        let (agent, rest) = text.trim().strip_prefix("agent:")?.split_once(':')?;
        let agent = agent.trim();
        (!agent.is_empty() && !rest.is_empty()).then_some(Self { agent, rest })
    }
}

/// Whether the conversation is one that an agent began with another.
pub fn is_subagent(text: &str) -> bool {
    let rest = AgentKey::parse(text).map_or(text.trim(), |key| key.rest);
    rest.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("subagent:"))
}

/// The key of the conversation that a thread or topic hangs in.
pub fn thread_parent(text: &str) -> Option<&str> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let end = lower.rfind(":thread:").max(lower.rfind(":topic:"))?;
    text.get(..end).map(str::trim).filter(|parent| !parent.is_empty())
}

/// An agent's id as it stands in a key.
pub fn agent_id(text: &str) -> String {
    id(text, MAIN)
}

/// An account's id as it stands in a key.
pub fn account_id(text: &str) -> String {
    id(text, DEFAULT_ACCOUNT)
}

/// Lower case, one dash for whatever else is not allowed, at most 64 characters.
fn id(text: &str, otherwise: &str) -> String {
    let lower = text.trim().to_lowercase();
    let refused = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let mut id = String::with_capacity(lower.len());
    let mut rest = lower.as_str();
    while let Some(at) = rest.find(refused) {
        let (allowed, other) = rest.split_at(at);
        id.push_str(allowed);
        id.push('-');
        rest = other.trim_start_matches(refused);
    }
    id.push_str(rest);
    let id: String = id.trim_matches('-').chars().take(LONGEST_ID).collect();
    if id.is_empty() { otherwise.to_owned() } else { id }
}

/// Which direct messages share a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DmScope {
    #[default]
    Main,
    PerPeer,
    PerChannelPeer,
    PerAccountChannelPeer,
}

/// Who writes where.
#[derive(Debug, Clone, Copy)]
pub struct KeyedPeer<'a> {
    pub agent: &'a str,
    /// What the agent's main conversation is called.
    pub main: &'a str,
    pub channel: &'a str,
    pub account: &'a str,
    pub kind: PeerKind,
    pub id: &'a str,
    pub scope: DmScope,
    /// One person's ids on several networks, by the person's name; an id may have its network before it.
    pub links: &'a BTreeMap<String, Vec<String>>,
}

impl KeyedPeer<'_> {
    /// The key of the conversation.
    pub fn key(&self) -> String {
        let agent = agent_id(self.agent);
        let channel = or_unknown(self.channel);
        let kind = match self.kind {
            PeerKind::Dm => return self.direct_key(&agent, &channel),
            PeerKind::Group => "group",
            PeerKind::Channel => "channel",
        };
        format!("agent:{agent}:{channel}:{kind}:{}", or_unknown(self.id))
    }

    fn direct_key(&self, agent: &str, channel: &str) -> String {
        let peer = self.linked().unwrap_or(self.id).trim().to_lowercase();
        match self.scope {
            DmScope::PerPeer if !peer.is_empty() => format!("agent:{agent}:dm:{peer}"),
            DmScope::PerChannelPeer if !peer.is_empty() => format!("agent:{agent}:{channel}:dm:{peer}"),
            DmScope::PerAccountChannelPeer if !peer.is_empty() => {
                format!("agent:{agent}:{channel}:{}:dm:{peer}", account_id(self.account))
            }
            _ => format!("agent:{agent}:{}", main_key(self.main)),
        }
    }

    /// The name of the person whose id this is.
    fn linked(&self) -> Option<&str> {
        let peer = self.id.trim().to_lowercase();
        let on_channel = format!("{}:{peer}", self.channel.trim().to_lowercase());
        let is_theirs = |id: &String| {
            let id = id.trim().to_lowercase();
            !id.is_empty() && (id == peer || id == on_channel)
        };
        let named = self.links.iter().filter(|(name, _)| !name.trim().is_empty());
        named.into_iter().find(|(_, ids)| ids.iter().any(is_theirs)).map(|(name, _)| name.as_str())
    }
}

fn or_unknown(text: &str) -> String {
    let text = text.trim().to_lowercase();
    if text.is_empty() { UNKNOWN.to_owned() } else { text }
}

fn main_key(text: &str) -> String {
    let text = text.trim().to_lowercase();
    if text.is_empty() { MAIN.to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The recorded cases: text, agent and rest, whether it is a subagent's, the parent of its thread.
    #[test]
    fn recorded_keys_are_taken_apart() {
        for (text, parsed, subagent, parent) in [
            ("agent:main:main", Some(("main", "main")), false, None),
            ("agent::main", None, false, None),
            ("agent:a:", None, false, None),
            ("  agent:a:b  ", Some(("a", "b")), false, None),
            ("agent:a:subagent:u", Some(("a", "subagent:u")), true, None),
            (
                "agent:a:subagent:u:thread:t",
                Some(("a", "subagent:u:thread:t")),
                true,
                Some("agent:a:subagent:u"),
            ),
            (
                "agent:a:telegram:group:1:topic:9",
                Some(("a", "telegram:group:1:topic:9")),
                false,
                Some("agent:a:telegram:group:1"),
            ),
            (
                "agent:main:telegram:group:-100:topic:9:thread:3",
                Some(("main", "telegram:group:-100:topic:9:thread:3")),
                false,
                Some("agent:main:telegram:group:-100:topic:9"),
            ),
            ("subagent:q", None, true, None),
            ("x:THREAD:5", None, false, Some("x")),
            ("", None, false, None),
            ("global", None, false, None),
        ] {
            let key = parsed.map(|(agent, rest)| AgentKey { agent, rest });
            assert_eq!(AgentKey::parse(text), key, "{text}");
            assert_eq!(is_subagent(text), subagent, "{text}");
            assert_eq!(thread_parent(text), parent, "{text}");
        }
    }

    #[test]
    fn recorded_ids_are_made_fit_for_a_key() {
        let long = "x".repeat(70);
        for (text, agent, account) in [
            ("Main", "main", "main"),
            ("--a--", "a", "a"),
            ("a_b-c", "a_b-c", "a_b-c"),
            (long.as_str(), &long[..64], &long[..64]),
            ("a.b", "a-b", "a-b"),
            ("_x", "_x", "_x"),
            ("éa", "a", "a"),
            ("日本", "main", "default"),
            ("a/b\\c", "a-b-c", "a-b-c"),
            ("a .. b", "a-b", "a-b"),
        ] {
            assert_eq!((agent_id(text).as_str(), account_id(text).as_str()), (agent, account), "{text}");
        }
    }

    fn links(list: &[(&str, &str)]) -> BTreeMap<String, Vec<String>> {
        list.iter().map(|(name, id)| ((*name).to_owned(), vec![(*id).to_owned()])).collect()
    }

    fn direct<'a>(scope: DmScope, id: &'a str, links: &'a BTreeMap<String, Vec<String>>) -> KeyedPeer<'a> {
        let kind = PeerKind::Dm;
        KeyedPeer { agent: "main", main: "", channel: "telegram", account: "", kind, id, scope, links }
    }

    #[test]
    fn recorded_direct_messages_have_their_key() {
        let none = BTreeMap::new();
        for (peer, expected) in [
            (direct(DmScope::Main, "ABC", &none), "agent:main:main"),
            (direct(DmScope::Main, "ABC", &links(&[("bob", "abc")])), "agent:main:main"),
            (direct(DmScope::PerChannelPeer, "ABC", &none), "agent:main:telegram:dm:abc"),
            (direct(DmScope::PerChannelPeer, "ABC", &links(&[("Bob", "abc")])), "agent:main:telegram:dm:bob"),
            (KeyedPeer { main: " Home ", ..direct(DmScope::Main, "7", &none) }, "agent:main:home"),
            (direct(DmScope::PerPeer, "  ", &none), "agent:main:main"),
            (
                KeyedPeer { channel: "", ..direct(DmScope::PerChannelPeer, "u", &none) },
                "agent:main:unknown:dm:u",
            ),
            (direct(DmScope::PerAccountChannelPeer, "u", &none), "agent:main:telegram:default:dm:u"),
            (
                direct(DmScope::PerChannelPeer, "ALICE", &links(&[(" Al Ice ", " TELEGRAM:alice ")])),
                "agent:main:telegram:dm:al ice",
            ),
            (direct(DmScope::PerPeer, "7", &links(&[(" ", "7"), ("Zed", "7")])), "agent:main:dm:zed"),
            (
                direct(DmScope::PerPeer, "7", &links(&[("First", "telegram:7"), ("Second", "7")])),
                "agent:main:dm:first",
            ),
            (KeyedPeer { agent: "", ..direct(DmScope::PerPeer, "1", &none) }, "agent:main:dm:1"),
        ] {
            assert_eq!(peer.key(), expected);
        }
    }

    #[test]
    fn recorded_groups_have_their_key() {
        let none = BTreeMap::new();
        let group = |id, kind, channel| KeyedPeer { channel, kind, ..direct(DmScope::Main, id, &none) };
        for (peer, expected) in [
            (group("", PeerKind::Group, "telegram"), "agent:main:telegram:group:unknown"),
            (group("c", PeerKind::Channel, " "), "agent:main:unknown:channel:c"),
            (group("-100:topic:9", PeerKind::Group, "telegram"), "agent:main:telegram:group:-100:topic:9"),
        ] {
            assert_eq!(peer.key(), expected);
        }
    }

    proptest! {
        #[test]
        fn an_id_is_made_only_of_what_fits(text in any::<String>()) {
            let id = agent_id(&text);
            prop_assert!(id.len() <= LONGEST_ID && !id.is_empty());
            prop_assert!(id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_')));
        }

        #[test]
        fn any_text_has_at_most_a_shorter_parent(text in "[a:É ]{0,4}(:(thread|TOPIC|subagent):)?\\PC{0,6}") {
            prop_assert!(thread_parent(&text).is_none_or(|parent| parent.len() < text.len()));
            prop_assert!(AgentKey::parse(&text).is_none_or(|key| text.contains(key.rest)));
            let _ = is_subagent(&text);
        }
    }
}
