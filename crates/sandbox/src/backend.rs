//! The one shape of everything that can hold programs.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use tidegate_policy::{Confinement, Profile, RunError};

use crate::begin::Way;

/// One way to make a profile true: bubblewrap, Landlock, a container engine, a machine.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// What people call it: `bubblewrap`, `landlock`, `podman`, …
    fn name(&self) -> &'static str;

    /// The profile it makes true. The first of a profile that works here is used, and no other.
    fn profile(&self) -> Profile;

    /// Why it cannot hold programs so, whatever this machine has. Nothing is tried for that.
    fn check(&self, _confinement: &Confinement) -> Result<(), RunError> {
        Ok(())
    }

    /// Really holds a program, has it try something that must be refused, and says what was found. It may take
    /// seconds, and it is asked once in the life of a process.
    async fn probe(&self) -> Probe;

    /// How programs are held like this. Only asked for its own profile, and only after a probe that went well. It
    /// refuses what it cannot hold, and never holds anything more weakly than asked.
    fn way(&self, confinement: &Confinement) -> Result<Arc<dyn Way>, RunError>;
}

/// What came of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state", content = "detail")]
pub enum Probe {
    /// It holds programs. Which version, and what it does not cover, for people.
    Works(String),
    /// It does not, and why; where there is a way to mend that, also how.
    Fails(String),
}

impl Probe {
    pub fn works(&self) -> bool {
        matches!(self, Self::Works(_))
    }

    pub fn detail(&self) -> &str {
        match self {
            Self::Works(detail) | Self::Fails(detail) => detail,
        }
    }
}
