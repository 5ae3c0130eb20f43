//! Profile `container`: docker or podman, by their command line.
//!
//! Each plan has a container of its own, made for it and removed with it. So the end of a plan is the end of a container,
//! whatever its programs became meanwhile, and the limits are those of one plan. What a place keeps between its plans is
//! the folder they work in and `/tmp`.

mod cli;
mod command;
mod probe;
mod runner;
mod seccomp;
mod stale;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
mod way_out;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use tidegate_policy::{Confinement, Profile, RunError};

use crate::backend::{Backend, Probe};
use crate::begin::Way;
use crate::site::Site;
use cli::Cli;
use command::Own;
use probe::Facts;
use runner::Held;

/// A program that makes containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    Docker,
    Podman,
}

impl Engine {
    pub const ALL: [Self; 2] = [Self::Docker, Self::Podman];

    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

/// How containers are made here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerSettings {
    /// The first that works is used.
    pub engines: Vec<Engine>,
    pub image: String,
    /// In place of the engine's usual one: `runsc` is gVisor.
    pub runtime: Option<String>,
    /// Without it the owner of the folder that programs work in.
    pub user: Option<String>,
    /// Of the gateway's own environment what the engine may know: where it is, and what it is configured with.
    pub env: BTreeMap<String, String>,
}

impl ContainerSettings {
    /// Everything an engine's client may know about the gateway's surroundings. The keys of the operator are not among it.
    pub const ENV: [&str; 19] = [
        "CONTAINERS_CONF",
        "CONTAINERS_REGISTRIES_CONF",
        "CONTAINERS_STORAGE_CONF",
        "CONTAINER_CONNECTION",
        "CONTAINER_HOST",
        "DBUS_SESSION_BUS_ADDRESS",
        "DOCKER_CERT_PATH",
        "DOCKER_CONFIG",
        "DOCKER_CONTEXT",
        "DOCKER_HOST",
        "DOCKER_TLS_VERIFY",
        "HOME",
        "LOGNAME",
        "PATH",
        "TMPDIR",
        "USER",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
    ];
}

/// A backend for each engine.
pub(crate) fn containers(settings: &ContainerSettings, site: &Arc<Site>) -> Vec<Arc<dyn Backend>> {
    let backend = |engine: &Engine| -> Arc<dyn Backend> {
        Arc::new(Container {
            cli: Cli::new(*engine, &settings.env, Arc::clone(&site.host)),
            settings: settings.clone(),
            site: Arc::clone(site),
            facts: OnceLock::new(),
        })
    };
    settings.engines.iter().map(backend).collect()
}

/// One engine.
struct Container {
    cli: Cli,
    settings: ContainerSettings,
    site: Arc<Site>,
    /// What the probe found out.
    facts: OnceLock<Arc<Facts>>,
}

#[async_trait]
impl Backend for Container {
    fn name(&self) -> &'static str {
        self.cli.engine.name()
    }

    fn profile(&self) -> Profile {
        Profile::Container
    }

    async fn probe(&self) -> Probe {
        match self.find_out().await {
            Ok(facts) => {
                let detail = facts.detail();
                self.facts.get_or_init(|| Arc::new(facts));
                self.remove_stale().await;
                Probe::Works(detail)
            }
            Err(why) => Probe::Fails(why),
        }
    }

    fn way(&self, confinement: &Confinement) -> Result<Arc<dyn Way>, RunError> {
        let facts = self.facts.get().ok_or_else(|| unavailable("it was not probed".to_owned()))?;
        Ok(Arc::new(self.held(confinement, Arc::clone(facts))?))
    }
}

impl Container {
    fn held(&self, confinement: &Confinement, facts: Arc<Facts>) -> Result<Held, RunError> {
        let place = self.site.places.join(&confinement.place);
        let own = Own { tmp: place.join("tmp"), home: place.join("home") };
        let paths =
            confinement.hidden.iter().chain([&confinement.folder, &place]).chain(confinement.besides.all());
        if let Some(path) = command::unspeakable(paths) {
            let why = format!(
                "the path {} cannot be told to {}: it has a comma, a colon or a quote",
                path.display(),
                self.name()
            );
            return Err(unavailable(why));
        }
        Ok(Held {
            cli: self.cli.clone(),
            site: Arc::clone(&self.site),
            facts,
            image: self.settings.image.clone(),
            user: self.settings.user.clone(),
            home: self.home(),
            own,
            confinement: confinement.clone(),
        })
    }

    /// A name for this installation.
    fn home(&self) -> String {
        let digest = tidegate_policy::Digest::of_text(&self.site.places.to_string_lossy());
        digest.as_str().chars().take(16).collect()
    }
}

fn unavailable(why: String) -> RunError {
    RunError::Unavailable { profile: Profile::Container.name(), why }
}
