//! Profile `local` with bubblewrap: namespaces in which nothing of the machine is left but the system's programs, one
//! working folder, and a `/tmp` and a home of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_policy::{Access, Confinement, Network, Profile, RunError};

use super::place::PlaceFolders;
use super::probe;
use super::runner::{By, Local, text};
use super::system::{self, Shown};
use crate::backend::{Backend, Probe};
use crate::begin::Way;
use crate::site::Site;

/// Where it is looked for. Not by the search path: what is found there decides about everything else.
const PLACES: &[&str] =
    &["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap"];

/// Where the second supervisor lies inside.
const SUPERVISOR: &str = "/run/tidegate/supervise";
/// Where the socket to the proxy lies inside.
pub(super) const PROXY: &str = "/run/tidegate/proxy";
/// Home of the programs inside.
pub(super) const HOME: &str = "/home/agent";
/// The user inside when the gateway is root: nobody special.
const USER: u32 = 1000;

/// Folders that cannot be worked in: they are what a sandbox is made of.
const TAKEN: &[&str] = &["/", "/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/home"];

/// What the kernel lets its owner change or read in `/proc` without asking for a capability. Where the gateway is root,
/// programs are that owner.
const KERNEL_TO_READ: &[&str] = &["sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"];
const KERNEL_HIDDEN: &[&str] =
    &["asound", "kcore", "keys", "key-users", "latency_stats", "timer_list", "timer_stats", "sched_debug"];

pub(crate) struct Bubblewrap {
    site: Arc<Site>,
}

impl Bubblewrap {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        Self { site }
    }
}

/// Where bubblewrap is, or why it cannot be used.
pub(super) fn find() -> Result<PathBuf, String> {
    let Some(found) = PLACES.iter().map(Path::new).find(|path| path.exists()) else {
        return Err("bubblewrap is not installed (Debian and Ubuntu: apt install bubblewrap)".to_owned());
    };
    match system::belongs_to_the_system(found) {
        Ok(true) => Ok(found.to_owned()),
        Ok(false) => Err(format!("somebody besides root can replace {}", found.display())),
        Err(error) => Err(format!("{}: {error}", found.display())),
    }
}

#[async_trait]
impl Backend for Bubblewrap {
    fn name(&self) -> &'static str {
        "bubblewrap"
    }

    fn profile(&self) -> Profile {
        Profile::Local
    }

    async fn probe(&self) -> Probe {
        match find() {
            Ok(program) => {
                let works = format!("{}: own files, processes and network", program.display());
                probe::probe(&self.site, |confinement| self.way(confinement), works).await
            }
            Err(why) => Probe::Fails(why),
        }
    }

    fn way(&self, confinement: &Confinement) -> Result<Arc<dyn Way>, RunError> {
        let unavailable = |why| RunError::Unavailable { profile: "local", why };
        let program = find().map_err(unavailable)?;
        if TAKEN.iter().any(|taken| confinement.folder == Path::new(taken)) {
            let folder = confinement.folder.display();
            return Err(unavailable(format!("{folder} cannot be the working folder of a sandbox")));
        }
        let (site, confinement) = (Arc::clone(&self.site), confinement.clone());
        Ok(Arc::new(Local { site, confinement, by: By::Bubblewrap(program) }))
    }
}

/// What a sandbox is made from.
pub(super) struct Room<'a> {
    pub(super) confinement: &'a Confinement,
    pub(super) folders: &'a PlaceFolders,
    /// The executable that becomes the second supervisor, and what it is told.
    pub(super) supervisor: &'a Path,
    pub(super) supervisor_args: &'a [String],
    /// The socket that leads to the proxy.
    pub(super) proxy: Option<&'a Path>,
}

impl Room<'_> {
    /// Everything bubblewrap is told. What comes later lies over what came before.
    pub(super) fn arguments(&self) -> Result<Vec<String>, RunError> {
        let mut told = Arguments::default();
        self.namespaces(&mut told)?;
        self.system(&mut told)?;
        for place in ["/tmp", "/var/tmp"] {
            told.path("--bind", &self.folders.tmp)?.word(place);
        }
        told.path("--bind", &self.folders.home)?.word(HOME);
        told.path("--ro-bind", self.supervisor)?.word(SUPERVISOR);
        if let Some(proxy) = self.proxy {
            told.path("--bind", proxy)?.word(PROXY);
        }
        self.besides(&mut told)?;
        self.folder(&mut told)?;
        told.words(&["--remount-ro", "/", "--remount-ro", "/dev", "--chdir", "/", "--", SUPERVISOR]);
        told.0.extend_from_slice(self.supervisor_args);
        Ok(told.0)
    }

    fn namespaces(&self, told: &mut Arguments) -> Result<(), RunError> {
        let own = |id: u32| if id == 0 { USER } else { id }.to_string();
        let user = own(rustix::process::geteuid().as_raw());
        let group = own(rustix::process::getegid().as_raw());
        told.words(&["--unshare-user", "--uid", &user, "--gid", &group, "--cap-drop", "ALL"]);
        told.words(&["--unshare-pid", "--as-pid-1", "--unshare-ipc", "--unshare-cgroup-try"]);
        told.words(&["--unshare-uts", "--hostname", "sandbox", "--die-with-parent"]);
        if self.confinement.network != Network::Full {
            told.word("--unshare-net");
        }
        let shared = (self.confinement.limits.memory / 4).to_string();
        told.words(&["--proc", "/proc", "--dev", "/dev", "--size", &shared, "--tmpfs", "/dev/shm"]);
        Self::kernel(told)
    }

    fn kernel(told: &mut Arguments) -> Result<(), RunError> {
        let there = |name: &&&str| Path::new("/proc").join(name).exists();
        for name in KERNEL_TO_READ.iter().filter(there) {
            told.same("--ro-bind", &Path::new("/proc").join(name))?;
        }
        for name in KERNEL_HIDDEN.iter().filter(there) {
            told.cover(&Path::new("/proc").join(name))?;
        }
        Ok(())
    }

    fn system(&self, told: &mut Arguments) -> Result<(), RunError> {
        for shown in system::programs() {
            match shown {
                Shown::Folder(folder) => told.same("--ro-bind", &folder)?,
                Shown::Link { at, to } => told.path("--symlink", &to)?.word(text(&at)?),
            };
        }
        told.words(&["--ro-bind", system::SETTINGS, system::SETTINGS]);
        for secret in &system::settings().secrets {
            told.cover(secret)?;
        }
        if let Some(names) = system::name_servers().filter(|_| self.confinement.network == Network::Full) {
            told.same("--ro-bind", &names)?;
        }
        for hidden in self.confinement.hidden.iter().filter(|hidden| system::is_shown(hidden)) {
            told.cover(hidden)?;
        }
        Ok(())
    }

    /// What else is shown, without what is hidden in it.
    fn besides(&self, told: &mut Arguments) -> Result<(), RunError> {
        let Confinement { besides, hidden, .. } = self.confinement;
        for (how, paths) in [("--ro-bind", &besides.read), ("--bind", &besides.write)] {
            for path in paths {
                told.same(how, path)?;
            }
        }
        for hidden in hidden.iter().filter(|hidden| besides.all().any(|shown| hidden.starts_with(shown))) {
            told.cover(hidden)?;
        }
        Ok(())
    }

    fn folder(&self, told: &mut Arguments) -> Result<(), RunError> {
        let Confinement { folder, access, hidden, .. } = self.confinement;
        let how = match access {
            Access::ReadOnly => "--ro-bind",
            Access::ReadWrite => "--bind",
        };
        told.same(how, folder)?;
        for hidden in hidden.iter().filter(|hidden| hidden.starts_with(folder)) {
            told.cover(hidden)?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Arguments(Vec<String>);

impl Arguments {
    fn word(&mut self, word: impl Into<String>) -> &mut Self {
        self.0.push(word.into());
        self
    }

    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(|&word| word.to_owned()));
    }

    fn path(&mut self, how: &str, path: &Path) -> Result<&mut Self, RunError> {
        Ok(self.word(how).word(text(path)?))
    }

    /// At the same path inside as outside.
    fn same(&mut self, how: &str, path: &Path) -> Result<&mut Self, RunError> {
        Ok(self.path(how, path)?.word(text(path)?))
    }

    /// Puts nothing over something.
    fn cover(&mut self, path: &Path) -> Result<(), RunError> {
        if path.is_dir() {
            self.words(&["--perms", "0500", "--size", "4096"]);
            self.path("--tmpfs", path)?;
        } else if path.exists() {
            self.words(&["--ro-bind", "/dev/null"]);
            self.word(text(path)?);
        }
        Ok(())
    }
}
