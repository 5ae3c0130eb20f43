//! Sending: a reply, the finished parts it renders to, the lane they go out in, and the four ways a send can end.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::error::ErrorBody;
use crate::inbound::{Attachment, OutboundTarget};
use crate::key;
use crate::name::ChannelName;

/// What an agent answers, before a connector renders it for its network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    pub channel: ChannelName,
    pub account_id: String,
    pub target: OutboundTarget,
    pub text: String,
    pub attachments: Vec<Attachment>,
    /// The message that is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<Quote>,
    /// Set when the run failed: `text` then tells a person so, this tells a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
}

/// A message that came in, as an answer to it may show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Quote {
    /// The network's own id.
    pub message_id: String,
    pub text: String,
}

/// One finished piece of a reply. An outbox row holds its bytes; it is never split again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// The bytes as the connector will send them.
    pub body: String,
    /// Parts with the same lane go out one after another.
    pub lane: String,
}

/// The lane of a target: what goes to the same place goes out one after another. The text is
/// `<channel>:<account>:<peer>[:thread:<id>]`, percent-encoded, so that no two targets share a lane.
pub fn lane(channel: &ChannelName, account_id: &str, target: &OutboundTarget) -> String {
    Lane { channel, account_id, target }.to_string()
}

struct Lane<'a> {
    channel: &'a ChannelName,
    account_id: &'a str,
    target: &'a OutboundTarget,
}

impl fmt::Display for Lane<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.channel)?;
        key::encode(f, self.account_id)?;
        f.write_str(":")?;
        key::encode(f, &self.target.peer_id)?;
        if let Some(thread) = &self.target.thread_id {
            f.write_str(":thread:")?;
            key::encode(f, thread)?;
        }
        Ok(())
    }
}

/// How a send ended. What had its first byte on the wire without a parsed answer is `Unknown`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, TS)]
#[serde(tag = "outcome", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SendOutcome {
    /// The network took it and gave it this id.
    Sent { id: String },
    /// It certainly did not arrive; try again from this time on (milliseconds since the epoch).
    NotSent {
        #[ts(type = "number")]
        retry_at: i64,
        reason: String,
    },
    /// The network refuses it for good.
    Rejected { reason: String },
    /// Nobody knows. Never blindly repeated.
    Unknown { reason: String },
}

/// What can be found out about a send whose end nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// The network drops a second send with the same key: sending again is safe.
    SameKey,
    /// The network can be read: see [`Connector::find`](crate::Connector::find).
    ReadBack,
    /// Nothing.
    Blind,
}

/// What reading back found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Sent {
        id: String,
    },
    /// It certainly did not arrive.
    Absent,
    Unknown {
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn target(peer: &str, thread: Option<&str>) -> OutboundTarget {
        OutboundTarget { peer_id: peer.to_owned(), thread_id: thread.map(str::to_owned) }
    }

    #[test]
    fn the_text_of_a_lane_is_the_one_written_down() {
        let local: ChannelName = "local".parse().unwrap();
        assert_eq!(lane(&local, "default", &target("main", None)), "local:default:main");
        assert_eq!(lane(&local, "a:b", &target("c/d", Some("17.5"))), "local:a%3Ab:c%2Fd:thread:17.5");
    }

    /// Texts that are likely to be mistaken for one another.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<String>(),
            "[ab:%/]{0,4}",
            Just("thread:".to_owned()),
            Just("a:thread:b".to_owned())
        ]
    }

    fn place() -> impl Strategy<Value = (ChannelName, String, OutboundTarget)> {
        ("[ab]{1,2}", text(), text(), proptest::option::of(text())).prop_map(
            |(channel, account, peer_id, thread_id)| {
                (channel.parse().unwrap(), account, OutboundTarget { peer_id, thread_id })
            },
        )
    }

    proptest! {
        #[test]
        fn two_targets_never_share_a_lane(a in place(), b in place()) {
            prop_assert_eq!(a == b, lane(&a.0, &a.1, &a.2) == lane(&b.0, &b.1, &b.2));
        }
    }
}
