//! Which profile is made true by what.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use tidegate_policy::{
    Confinement, Confiner, PermittedPlan, Profile, RunError, Runner, Running, Sink, Start,
};
use tokio::sync::OnceCell;

use crate::backend::{Backend, Probe};
use crate::begin::{Way, begin};
use crate::container::{ContainerSettings, containers};
use crate::host::{Host, Supervisor};
#[cfg(target_os = "linux")]
use crate::local::{Bubblewrap, Landlock};
use crate::proxy::ProxyStarter;
use crate::site::Site;

/// Everything on this machine that can hold programs.
///
/// Nothing is tried before it is needed: the first start of a program in a profile probes that profile's backends, and
/// what was found holds for the life of the process.
pub struct Sandboxes {
    site: Arc<Site>,
    /// In the order in which they are preferred.
    backends: Vec<Arc<Probed>>,
}

/// A backend, and what is known about it.
struct Probed {
    backend: Arc<dyn Backend>,
    probe: OnceCell<Probe>,
}

/// What is known about one backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub profile: Profile,
    pub backend: &'static str,
    #[serde(flatten)]
    pub probe: Probe,
}

impl Sandboxes {
    /// Profile `none` and the backends of profile `local`. Each place gets a folder below `places`; without `proxies`
    /// no program reaches the hosts of an allowlist.
    pub fn new(supervisor: Supervisor, places: PathBuf, proxies: Option<Arc<dyn ProxyStarter>>) -> Self {
        let site = Arc::new(Site { host: Arc::new(Host::new(supervisor)), places, proxies });
        let sandboxes = Self { site: Arc::clone(&site), backends: Vec::new() };
        #[cfg(target_os = "linux")]
        {
            sandboxes.with(Arc::new(Bubblewrap::new(Arc::clone(&site)))).with(Arc::new(Landlock::new(site)))
        }
        #[cfg(not(target_os = "linux"))]
        {
            drop(site);
            sandboxes.with(Arc::new(crate::elsewhere::Elsewhere))
        }
    }

    /// Where places have their folders.
    pub fn places(&self) -> &Path {
        &self.site.places
    }

    /// One more, used for its profile if none before it works.
    fn with(mut self, backend: Arc<dyn Backend>) -> Self {
        self.backends.push(Arc::new(Probed { backend, probe: OnceCell::new() }));
        self
    }

    /// Containers as well, by every engine that the settings name.
    #[must_use]
    pub fn with_containers(self, settings: &ContainerSettings) -> Self {
        containers(settings, &self.site).into_iter().fold(self, Self::with)
    }

    /// Small machines as well.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn with_microvm(self, settings: crate::microvm::MicrovmSettings) -> Self {
        let backend = crate::microvm::microvm(settings, &self.site);
        self.with(backend)
    }

    /// Only this backend, where somebody wants to see that very one.
    #[must_use]
    pub fn only(mut self, backend: &str) -> Self {
        self.backends.retain(|probed| probed.backend.name() == backend);
        self
    }

    /// Why nothing holds programs so, whatever this machine has. Nothing is tried for that.
    pub fn check(&self, confinement: &Confinement) -> Result<(), RunError> {
        let mut of_profile =
            self.backends.iter().filter(|probed| probed.backend.profile() == confinement.profile);
        of_profile.try_for_each(|probed| probed.backend.check(confinement))
    }

    /// What works here and what does not. Probes whatever was not probed yet, all at once.
    pub async fn report(&self) -> Vec<Report> {
        self.report_on(|_| true).await
    }

    /// The same for some profiles only: to boot a machine for a profile that nobody uses is too much.
    pub async fn report_on(&self, is_asked: impl Fn(Profile) -> bool) -> Vec<Report> {
        let backends: Vec<_> =
            self.backends.iter().filter(|probed| is_asked(probed.backend.profile())).collect();
        let looking = backends.iter().map(|probed| {
            let probed = Arc::clone(*probed);
            tidegate_runtime::spawn("probe sandbox", async move { probed.probe().await.clone() })
        });
        let looking: Vec<_> = looking.collect();
        let mut reports = Vec::new();
        for (probed, looking) in backends.into_iter().zip(looking) {
            let probe = looking.join().await.unwrap_or_else(|error| Probe::Fails(error.to_string()));
            let Probed { backend, .. } = probed.as_ref();
            reports.push(Report { profile: backend.profile(), backend: backend.name(), probe });
        }
        reports
    }
}

impl Probed {
    async fn probe(&self) -> &Probe {
        self.probe.get_or_init(|| self.backend.probe()).await
    }
}

impl Confiner for Sandboxes {
    fn runner(&self, confinement: &Confinement) -> Result<Arc<dyn Runner>, RunError> {
        if confinement.profile == Profile::None {
            return Ok(Arc::clone(&self.site.host) as Arc<dyn Runner>);
        }
        let of_profile = |probed: &&Arc<Probed>| probed.backend.profile() == confinement.profile;
        let backends = self.backends.iter().filter(of_profile).map(Arc::clone).collect();
        Ok(Arc::new(FirstThatWorks { backends, confinement: confinement.clone() }))
    }

    #[cfg(target_os = "linux")]
    fn shows(&self, confinement: &Confinement, path: &Path) -> bool {
        confinement.profile == Profile::None
            || path.starts_with(&confinement.folder)
            || confinement.besides.all().any(|shown| path.starts_with(shown))
            || crate::local::shows(path)
    }
}

/// Holds programs with the first backend that works, or starts nothing.
struct FirstThatWorks {
    backends: Vec<Arc<Probed>>,
    confinement: Confinement,
}

impl FirstThatWorks {
    async fn choose(&self) -> Result<Arc<dyn Way>, RunError> {
        let mut why = Vec::new();
        for probed in &self.backends {
            probed.backend.check(&self.confinement)?;
            match probed.probe().await {
                Probe::Works(_) => return probed.backend.way(&self.confinement),
                Probe::Fails(reason) => why.push(format!("{}: {reason}", probed.backend.name())),
            }
        }
        if why.is_empty() {
            why.push("this program was built without it".to_owned());
        }
        Err(RunError::Unavailable { profile: self.confinement.profile.name(), why: why.join("; ") })
    }
}

#[async_trait]
impl Runner for FirstThatWorks {
    fn confines(&self) -> bool {
        true
    }

    async fn start(
        &self,
        plan: PermittedPlan<'_>,
        start: Start,
        sink: Arc<dyn Sink>,
    ) -> Result<Box<dyn Running>, RunError> {
        let way = self.choose().await?;
        Ok(Box::new(begin(way.as_ref(), plan.plan(), start, sink).await?))
    }
}
