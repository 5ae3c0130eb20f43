//! Ids: newtypes over UUIDv7, so that a run can never be passed where a session is wanted.
//!
//! A client's own key for a run is kept beside its id, never instead of it. Making an id needs a clock and
//! randomness and therefore happens in `runtime`; here an id is only built from its parts and parsed.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What every id can do.
pub trait Id: Sized + Copy {
    /// Builds the id from its parts: milliseconds since the epoch and ten random bytes.
    fn from_parts(unix_ms: u64, random: [u8; 10]) -> Self;

    fn uuid(&self) -> Uuid;

    /// The short form the `ask` contract shows: `lc-<ms>-<hex4>`, made from the id itself.
    fn alias(&self) -> String {
        let bytes = self.uuid().into_bytes();
        let ms = bytes[..6].iter().fold(0_u64, |ms, byte| ms << 8 | u64::from(*byte));
        format!("lc-{ms}-{:02x}{:02x}", bytes[14], bytes[15])
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, ts_rs::TS)]
        #[serde(transparent)]
        pub struct $name(#[schemars(with = "String")] #[ts(type = "string")] Uuid);

        impl Id for $name {
            fn from_parts(unix_ms: u64, random: [u8; 10]) -> Self {
                Self(uuid::Builder::from_unix_timestamp_millis(unix_ms, &random).into_uuid())
            }

            fn uuid(&self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::try_parse(text).map(Self)
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }
    )+};
}

ids! {
    /// One turn of an agent, from acceptance to its terminal state.
    RunId,
    /// One conversation log. A session key points at its current one.
    SessionId,
    /// One line of a conversation log.
    EntryId,
    /// One message as a network delivered it.
    InboxId,
    /// One part of a reply on its way out.
    OutboxId,
    /// One execution of a tool inside a run.
    ToolRunId,
    /// One installation: a home folder, however often its process restarts.
    InstanceId,
    /// One audit row.
    AuditId,
    /// One model call.
    CallId,
    /// One question to a person whether a tool call may go ahead.
    ApprovalId,
    /// One saved rule that answers such a question from then on.
    AllowRuleId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_sorts_by_its_time_and_survives_its_text() {
        let early = RunId::from_parts(1_000, [0xff; 10]);
        let late = RunId::from_parts(1_001, [0; 10]);
        assert!(early < late);
        assert_eq!(early.to_string().parse::<RunId>().unwrap(), early);
    }

    #[test]
    fn the_short_form_shows_the_time_and_the_end_of_the_id() {
        let id = RunId::from_parts(1_771_866_451_123, [0, 1, 2, 3, 4, 5, 6, 7, 0xab, 0xcd]);
        assert_eq!(id.alias(), "lc-1771866451123-abcd");
    }

    #[test]
    fn a_text_that_is_no_uuid_is_refused() {
        assert!("lc-1-abcd".parse::<SessionId>().is_err());
    }
}
