//! Profile `local` without bubblewrap: Landlock and seccomp hold programs on the machine itself.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_policy::{Access, Confinement, Network, Profile, RunError};

use super::place::PlaceFolders;
use super::probe;
use super::runner::{By, Local, text};
use super::system::{self, Shown};
use crate::backend::{Backend, Probe};
use crate::begin::Way;
use crate::hold;
use crate::seccomp::Filter;
use crate::site::Site;

/// The first version that also keeps signals and abstract sockets to the sandbox (Linux 6.12).
const ABI: i32 = 6;

/// What is no secret of anybody and nobody's to change.
const FACTS: &[&str] = &[
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel",
    "/proc/sys/vm",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu",
];

const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

pub(crate) struct Landlock {
    site: Arc<Site>,
}

impl Landlock {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        Self { site }
    }
}

#[async_trait]
impl Backend for Landlock {
    fn name(&self) -> &'static str {
        "landlock"
    }

    fn profile(&self) -> Profile {
        Profile::Local
    }

    async fn probe(&self) -> Probe {
        match abi() {
            version if version >= ABI => {
                let works =
                    format!("version {version}: files, network and signals; programs see that others run");
                probe::probe(&self.site, |confinement| self.way(confinement), works).await
            }
            0 => Probe::Fails("this kernel has no Landlock".to_owned()),
            version => Probe::Fails(format!(
                "this kernel's Landlock (version {version}) does not keep signals in; version {ABI} of Linux 6.12 does"
            )),
        }
    }

    fn way(&self, confinement: &Confinement) -> Result<Arc<dyn Way>, RunError> {
        let refuse = |why: String| Err(RunError::Unavailable { profile: "local", why });
        if let Network::Allowlist(_) = confinement.network {
            return refuse("network: allowlist needs bubblewrap, which is not there".to_owned());
        }
        let folder = &confinement.folder;
        if let Some(hidden) = confinement.hidden.iter().find(|hidden| hidden.starts_with(folder)) {
            let (hidden, folder) = (hidden.display(), folder.display());
            return refuse(format!(
                "{hidden} lies in {folder} and only bubblewrap, which is not there, can hide it"
            ));
        }
        let over = |shown: &&PathBuf| confinement.hidden.iter().any(|hidden| hidden.starts_with(shown));
        if let Some(shown) = confinement.besides.all().find(over) {
            let shown = shown.display();
            return refuse(format!("{shown} holds what is hidden, which only bubblewrap can cover"));
        }
        if folder.parent().is_none() {
            return refuse("the whole machine cannot be the working folder of a sandbox".to_owned());
        }
        let (site, confinement) = (Arc::clone(&self.site), confinement.clone());
        Ok(Arc::new(Local { site, confinement, by: By::Landlock }))
    }
}

/// What the programs of a place may touch.
pub(super) fn rules(confinement: &Confinement, folders: &PlaceFolders) -> Result<hold::Landlock, RunError> {
    let mut readable = Vec::new();
    for shown in system::programs() {
        if let Shown::Folder(folder) = shown {
            readable.push(text(&folder)?);
        }
    }
    for path in &system::settings().open {
        readable.push(text(path)?);
    }
    if let Some(names) = system::name_servers().filter(|_| confinement.network == Network::Full) {
        readable.push(text(&names)?);
    }
    readable.extend(FACTS.iter().map(|&path| path.to_owned()));
    let mut writable = vec![text(&folders.tmp)?, text(&folders.home)?];
    for path in &confinement.besides.read {
        readable.push(text(path)?);
    }
    for path in &confinement.besides.write {
        writable.push(text(path)?);
    }
    match confinement.access {
        Access::ReadOnly => readable.push(text(&confinement.folder)?),
        Access::ReadWrite => writable.push(text(&confinement.folder)?),
    }
    Ok(hold::Landlock {
        readable,
        writable,
        devices: DEVICES.iter().map(|&path| path.to_owned()).collect(),
        filter: Filter::Bare { network: confinement.network == Network::Full },
        limits: confinement.limits,
    })
}

/// Which version of Landlock this kernel has; 0 for none.
fn abi() -> i32 {
    const VERSION: u32 = 1;
    #[expect(unsafe_code, reason = "the crate keeps the version to itself")]
    // SAFETY: nothing is read or written; with this flag the call only answers.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION)
    };
    i32::try_from(version.max(0)).unwrap_or_default()
}
