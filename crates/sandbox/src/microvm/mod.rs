//! Profile `microvm`: a machine of its own for each plan, by QEMU.
//!
//! The machine boots a kernel of this one and a first file system in memory. It sees the programs of this machine
//! (`/usr` and what belongs to it) to look at, its place's folders and the folder it works in; nothing else of this
//! machine is shown to it. It has no network. QEMU is one process below the supervisor: with it everything ends.

mod cpio;
mod guest;
mod kernel;
mod probe;
mod runner;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use tidegate_policy::{Confinement, Network, Profile, RunError};

use crate::backend::{Backend, Probe};
use crate::begin::Way;
use crate::site::Site;
use probe::Facts;
use runner::Machine;

/// How machines are made here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MicrovmSettings {
    /// Without it the newest in `/boot`.
    pub kernel: Option<PathBuf>,
    pub cpus: u32,
    /// Where programs are looked for.
    pub path: Option<String>,
}

pub(crate) fn microvm(settings: MicrovmSettings, site: &Arc<Site>) -> Arc<dyn Backend> {
    Arc::new(Qemu { settings, site: Arc::clone(site), facts: OnceLock::new() })
}

struct Qemu {
    settings: MicrovmSettings,
    site: Arc<Site>,
    /// What the probe found out.
    facts: OnceLock<Arc<Facts>>,
}

#[async_trait]
impl Backend for Qemu {
    fn name(&self) -> &'static str {
        "qemu"
    }

    fn profile(&self) -> Profile {
        Profile::Microvm
    }

    fn check(&self, confinement: &Confinement) -> Result<(), RunError> {
        if confinement.network != Network::None {
            let why = "a machine reaches nothing: `network` has to be \"none\" for it; hosts by `allowHosts` can be \
                       reached in the profiles local (with bubblewrap) and container";
            return Err(unavailable(why.to_owned()));
        }
        if let Some(shown) = confinement.besides.all().next() {
            let why = format!("a machine is shown its folder only, not {}", shown.display());
            return Err(unavailable(why));
        }
        let programs = guest::programs();
        let covers = |hidden: &&PathBuf| {
            let within = |outer: &Path| hidden.starts_with(outer);
            within(&confinement.folder) || programs.iter().any(|shown| within(&shown.from))
        };
        if let Some(hidden) = confinement.hidden.iter().find(covers) {
            let why = format!("{} would be shown: it lies in a folder that a machine sees", hidden.display());
            return Err(unavailable(why));
        }
        Ok(())
    }

    async fn probe(&self) -> Probe {
        match self.find_out().await {
            Ok(facts) => {
                let detail = facts.detail();
                self.facts.get_or_init(|| Arc::new(facts));
                Probe::Works(detail)
            }
            Err(why) => Probe::Fails(why),
        }
    }

    fn way(&self, confinement: &Confinement) -> Result<Arc<dyn Way>, RunError> {
        let facts = self.facts.get().ok_or_else(|| unavailable("it was not probed".to_owned()))?;
        Ok(Arc::new(self.machine(confinement, Arc::clone(facts))?))
    }
}

impl Qemu {
    fn machine(&self, confinement: &Confinement, facts: Arc<Facts>) -> Result<Machine, RunError> {
        self.check(confinement)?;
        let place = self.site.places.join(&confinement.place);
        if place.to_string_lossy().contains(',') || confinement.folder.to_string_lossy().contains(',') {
            return Err(unavailable("a path with a comma cannot be told to QEMU".to_owned()));
        }
        Ok(Machine {
            site: Arc::clone(&self.site),
            facts,
            cpus: self.settings.cpus,
            place,
            confinement: confinement.clone(),
            env: BTreeMap::new(),
        })
    }
}

fn unavailable(why: String) -> RunError {
    RunError::Unavailable { profile: Profile::Microvm.name(), why }
}
