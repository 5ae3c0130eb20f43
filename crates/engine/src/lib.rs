//! The delivery machine: takes messages in, gives each its turn, runs it, sends the answer, and lets nothing be torn.
//!
//! The way of one message, in the order of the files: `ingest` or `submit` accepts it, `schedule` gives it its turn,
//! `execute` runs and commits it, `render` makes its parts, `deliver` sends them. It owns the home folder's lock, the
//! instance's identity, recovery, supervision of connectors and the transcript files; what an answer says is the
//! agent's business.

mod announce;
mod answer;
mod ballast;
mod close;
mod connectors;
mod delete;
mod deliver;
mod desk;
mod embed;
mod error;
mod events;
mod execute;
mod finish;
mod home;
mod hushed;
mod identity;
mod ingest;
mod journal;
mod keys;
mod lanes;
mod live;
mod mcp;
mod metering;
mod mirror;
mod pace;
mod probe;
mod render;
mod running;
mod schedule;
mod service;
mod services;
mod sessions;
mod settings;
mod standings;
mod start;
mod stop;
mod submit;
mod texts;
mod told;
mod tools;
mod transcript;
mod turn;
mod workspace;

pub use announce::{AnnouncedEnd, announced};
pub use answer::said;
pub use close::{Drain, Drained};
pub use connectors::{ChannelState, ChannelStatus};
pub use error::EngineError;
pub use events::{EngineEvent, Events, LaneWait, Missed, RunChange};
pub use home::{Home, HomeLock};
pub use lanes::{LaneLimits, LaneReport, WAIT_CLASSES_MS, Waits};
pub use live::{Answer, Partial};
pub use service::{ServiceState, ServiceStatus};
pub use sessions::{
    Branch, ExportFormat, NameError, NewBranch, answering_session_key, export, session_key, session_name,
};
pub use settings::{ConfinementKeys, GroupTools, Settings, SettingsError, ToolContext, Wish, keys_in};
pub use standings::{StoredStandings, of_row as standing_of};
pub use start::{Engine, Health, Notice, Options, Retention};
pub use stop::{StopFilter, stop_stored};
pub use submit::{Follower, Request, Submitted};
pub use tidegate_agent::text::spoken;
pub use tidegate_models::Embedded;
pub use tidegate_tools::fence;
pub use tools::{Answering, Invoke, NotAllowed, Reserved, Tell, Toolbox, engine_tools_to_look_at};
