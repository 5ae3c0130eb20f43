//! Profile `local` on systems whose kernel we cannot ask to hold programs.

use std::sync::Arc;

use async_trait::async_trait;
use tidegate_policy::{Confinement, Profile, RunError};

use crate::backend::{Backend, Probe};
use crate::begin::Way;

const WHY: &str = "it needs Linux; use the profile container here";

pub(crate) struct Elsewhere;

#[async_trait]
impl Backend for Elsewhere {
    fn name(&self) -> &'static str {
        "local"
    }

    fn profile(&self) -> Profile {
        Profile::Local
    }

    async fn probe(&self) -> Probe {
        Probe::Fails(WHY.to_owned())
    }

    fn way(&self, _confinement: &Confinement) -> Result<Arc<dyn Way>, RunError> {
        Err(RunError::Unavailable { profile: "local", why: WHY.to_owned() })
    }
}
