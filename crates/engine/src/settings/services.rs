//! From configuration to services, and to how the browser works.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_config::schema::{RestartPolicy, SandboxNetwork, SandboxProfile, Service, ServiceHealth};
use tidegate_net::Guard;
use tidegate_policy::{Access, Besides, Confinement, Limits, Network, Profile};
use tidegate_protocol::Scope;
use tidegate_tools::{BrowserProfile, BrowserSettings};

use super::Settings;
use crate::home::Home;
use crate::service::{Look, ServiceSpec, Watch};

const MEGABYTE: u64 = 1 << 20;
/// A browser is many programs; with less than this it does not start.
const BROWSER_MEMORY: u64 = 2048 * MEGABYTE;
const BROWSER_PROCESSES: u32 = 512;
const BROWSER_DISK: u64 = 2048 * MEGABYTE;

impl Settings {
    /// Whether agents may have a browser.
    pub(crate) fn has_browser(&self) -> bool {
        self.config.browser.enabled
    }

    pub(crate) fn browser(&self) -> BrowserSettings {
        let browser = &self.config.browser;
        let profiles = browser.profiles.iter();
        BrowserSettings {
            executable: browser.executable.clone(),
            headless: browser.headless,
            profile: browser.profile.clone(),
            profiles: profiles
                .map(|(name, profile)| BrowserProfile { name: name.clone(), keep: profile.keep })
                .collect(),
            idle: Duration::from_secs(u64::from(browser.idle_minutes) * 60),
            max_tabs: usize::try_from(browser.max_tabs).unwrap_or(usize::MAX),
            evaluate: browser.evaluate,
            ..BrowserSettings::default()
        }
    }

    /// What holds a browser whose profile lies in this folder: what holds the conversation's programs, without any
    /// network, and without the workspace.
    pub(crate) fn browser_confinement(
        &self,
        scope: &Scope,
        session: &str,
        folder: &Path,
        hidden: Vec<PathBuf>,
    ) -> Confinement {
        let usual = self.confinement(scope, session, folder, hidden);
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Confinement {
            place: format!("browser-{name}"),
            access: Access::ReadWrite,
            besides: Besides::default(),
            network: Network::None,
            limits: Limits {
                memory: usual.limits.memory.max(BROWSER_MEMORY),
                processes: usual.limits.processes.max(BROWSER_PROCESSES),
                disk: usual.limits.disk.max(BROWSER_DISK),
            },
            ..usual
        }
    }

    /// What judges the addresses that pages name.
    pub(crate) fn page_guard(&self) -> Guard {
        // What is no address was refused when tools were checked.
        Guard::allowing(self.private_addresses()).unwrap_or_default()
    }

    /// The services that are to run.
    pub(crate) fn services(&self, home: &Home) -> Vec<ServiceSpec> {
        let services = self.config.services.iter().filter(|(_, service)| service.enabled);
        services.map(|(name, service)| self.service(name, service, home)).collect()
    }

    fn service(&self, name: &str, said: &Service, home: &Home) -> ServiceSpec {
        let own = home.root().join("services").join(name);
        let folder = said.cwd.as_ref().map_or(own, |cwd| home.root().join(cwd));
        let argv = std::iter::once(&said.command).chain(&said.args).cloned().collect();
        let env = said.env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
        ServiceSpec {
            name: name.to_owned(),
            argv,
            env: env.collect(),
            watch: said.health.as_ref().and_then(watch),
            again: said.restart.policy,
            backoff: Duration::from_millis(said.restart.backoff_ms.into()),
            longest_backoff: Duration::from_millis(
                said.restart.max_backoff_ms.max(said.restart.backoff_ms).into(),
            ),
            attempts: (said.restart.attempts > 0).then_some(said.restart.attempts),
            grace: Duration::from_secs(said.stop_seconds.into()),
            log: home.logs().join("services").join(format!("{name}.log")),
            confinement: self.service_confinement(name, said, &folder, home),
            folder,
        }
    }

    fn service_confinement(&self, name: &str, said: &Service, folder: &Path, home: &Home) -> Confinement {
        let (own, all) = (&said.sandbox, &self.config.agents.defaults.sandbox);
        let limits = own.limits.as_ref().unwrap_or(&all.limits);
        Confinement {
            profile: match own.profile.unwrap_or(all.profile) {
                SandboxProfile::None => Profile::None,
                SandboxProfile::Local => Profile::Local,
                SandboxProfile::Container => Profile::Container,
                SandboxProfile::Microvm => Profile::Microvm,
            },
            place: format!("service-{name}"),
            folder: folder.to_owned(),
            access: Access::ReadWrite,
            hidden: vec![home.root().to_owned()],
            besides: Besides::default(),
            network: match own.network.unwrap_or(all.network) {
                SandboxNetwork::None => Network::None,
                SandboxNetwork::Allowlist => {
                    Network::Allowlist(own.allow_hosts.as_ref().unwrap_or(&all.allow_hosts).clone())
                }
                SandboxNetwork::Full => Network::Full,
            },
            limits: Limits {
                memory: u64::from(limits.memory_mb) * MEGABYTE,
                processes: limits.processes,
                disk: u64::from(limits.disk_mb) * MEGABYTE,
            },
        }
    }
}

fn watch(said: &ServiceHealth) -> Option<Watch> {
    let look = match (&said.http, &said.tcp) {
        (Some(url), _) => Look::Http(url.clone()),
        (None, Some(place)) => Look::Tcp(place.clone()),
        (None, None) if !said.command.is_empty() => Look::Command(said.command.clone()),
        (None, None) => return None,
    };
    Some(Watch {
        look,
        interval: Duration::from_secs(said.interval_seconds.into()),
        timeout: Duration::from_secs(said.timeout_seconds.into()),
        start: Duration::from_secs(said.start_seconds.into()),
        failures: said.failures,
    })
}

/// When a service is started again.
pub(crate) type Again = RestartPolicy;
