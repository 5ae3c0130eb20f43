//! Which runs share a number of places: the lane of a run.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::key::{Place, SessionKey};

/// What a run is for, as far as its place is concerned. Each lane has places of its own, so that none waits for another.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, TS,
)]
#[serde(rename_all = "camelCase")]
pub enum Lane {
    /// What people and programs ask.
    Main,
    /// What a schedule or a webhook started.
    Cron,
    /// Pieces of work that other runs started and do not wait for.
    Subagent,
    /// Runs that another run waits for.
    Nested,
}

impl Lane {
    pub const ALL: [Self; 4] = [Self::Main, Self::Cron, Self::Subagent, Self::Nested];

    /// The lane of a conversation's runs that name none.
    pub fn of(key: &SessionKey) -> Self {
        match key.place {
            Place::Sub { .. } => Self::Subagent,
            Place::Main | Place::Named { .. } | Place::Dm { .. } | Place::Group { .. } => Self::Main,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Cron => "cron",
            Self::Subagent => "subagent",
            Self::Nested => "nested",
        }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// There is no lane of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a lane is main, cron, subagent or nested")]
pub struct NoLane;

impl FromStr for Lane {
    type Err = NoLane;

    fn from_str(text: &str) -> Result<Self, NoLane> {
        Self::ALL.into_iter().find(|lane| lane.as_str() == text).ok_or(NoLane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_is_written_and_read_by_one_name() {
        for lane in Lane::ALL {
            assert_eq!(lane.as_str().parse(), Ok(lane));
            assert_eq!(serde_json::to_value(lane).unwrap(), lane.as_str());
        }
        assert_eq!("Main".parse::<Lane>(), Err(NoLane));
    }
}
