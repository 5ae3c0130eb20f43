//! The conversation an inbound message belongs to.
//!
//! Who answers is decided by the caller, who passes the agent's scope in; this only says which of the agent's
//! conversations it is. Two people who write to us never share one by accident.

use tidegate_protocol::{Inbound, PeerKind, Place, Scope, SessionKey};

/// The key of the conversation. A direct message has one for each account and peer of a network, a group one for each
/// group of a network whatever account of ours heard it; a thread has its own inside of either.
pub fn route(inbound: &Inbound, agent: &Scope) -> SessionKey {
    let place = match inbound.peer.kind {
        PeerKind::Dm => Place::Dm {
            channel: Some(inbound.channel.clone()),
            account: Some(inbound.account_id.clone()).filter(|account| !account.is_empty()),
            peer: inbound.peer.id.clone(),
        },
        PeerKind::Group | PeerKind::Channel => {
            Place::Group { channel: inbound.channel.clone(), id: inbound.peer.id.clone() }
        }
    };
    SessionKey { scope: agent.clone(), place, thread: inbound.thread_id.clone() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_protocol::{InboundMessage, Peer};

    use super::*;

    fn agent() -> Scope {
        Scope::personal("main".parse().unwrap())
    }

    fn inbound(kind: PeerKind, peer: &str, thread: Option<&str>) -> Inbound {
        Inbound {
            tenant_id: agent().tenant,
            workspace_id: agent().workspace,
            channel: "slack".parse().unwrap(),
            account_id: "T1".to_owned(),
            peer: Peer { kind, id: peer.to_owned() },
            sender_id: None,
            thread_id: thread.map(str::to_owned),
            message: InboundMessage { id: "m1".to_owned(), text: "hi".to_owned(), attachments: Vec::new() },
            timestamp: 5,
        }
    }

    #[test]
    fn every_kind_of_peer_has_its_place_and_keeps_its_thread() {
        let at = "tenant:local/workspace:default/agent:main";
        for (kind, thread, place) in [
            (PeerKind::Dm, None, "dm:slack:T1:U1"),
            (PeerKind::Dm, Some("17.5"), "dm:slack:T1:U1:thread:17.5"),
            (PeerKind::Group, None, "group:slack:U1"),
            (PeerKind::Channel, Some("a/b"), "group:slack:U1:thread:a%2Fb"),
        ] {
            let key = route(&inbound(kind, "U1", thread), &agent());
            assert_eq!(key.to_string(), format!("{at}/{place}"), "{kind:?}");
        }
    }

    #[test]
    fn the_key_is_inside_the_agent_that_answers() {
        let other = Scope { agent: "helper".parse().unwrap(), ..agent() };
        let message = inbound(PeerKind::Dm, "U1", None);
        assert_eq!(route(&message, &other).scope, other);
        assert_ne!(route(&message, &other), route(&message, &agent()));
    }

    #[test]
    fn the_words_of_a_message_do_not_move_it() {
        let mut other = inbound(PeerKind::Dm, "U1", None);
        other.message = InboundMessage { id: "m2".into(), text: "/agent:x main".into(), attachments: vec![] };
        other.timestamp = 6;
        assert_eq!(route(&other, &agent()), route(&inbound(PeerKind::Dm, "U1", None), &agent()));
    }

    /// Texts that are likely to be mistaken for one another.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof![any::<String>(), "[ab:%/]{0,4}", Just("a:thread:b".to_owned())]
    }

    fn message() -> impl Strategy<Value = Inbound> {
        let kind = prop_oneof![Just(PeerKind::Dm), Just(PeerKind::Group), Just(PeerKind::Channel)];
        let account = prop_oneof!["[ab:%/]{1,3}", ".+"];
        ("[ab]{1,2}", account, kind, text(), proptest::option::of(text())).prop_map(
            |(channel, account_id, kind, id, thread_id)| Inbound {
                channel: channel.parse().unwrap(),
                account_id,
                peer: Peer { kind, id },
                thread_id,
                ..inbound(kind, "", None)
            },
        )
    }

    /// What makes two messages belong together, written another way than in `route`.
    fn identity(message: &Inbound) -> (bool, &str, &str, &str, Option<&str>) {
        let direct = message.peer.kind == PeerKind::Dm;
        let account = if direct { message.account_id.as_str() } else { "" };
        (direct, message.channel.as_str(), account, &message.peer.id, message.thread_id.as_deref())
    }

    proptest! {
        #[test]
        fn two_places_never_share_a_key_and_one_place_never_has_two(a in message(), b in message()) {
            let same = identity(&a) == identity(&b);
            let (a, b) = (route(&a, &agent()), route(&b, &agent()));
            prop_assert_eq!(same, a == b);
            prop_assert_eq!(same, a.to_string() == b.to_string());
        }

        #[test]
        fn a_key_comes_back_from_its_text(message in message()) {
            let key = route(&message, &agent());
            prop_assert_eq!(key.to_string().parse::<SessionKey>().unwrap(), key);
        }
    }
}
