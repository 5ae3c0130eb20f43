//! Programs in profile `local`: held by bubblewrap, and held by Landlock, whichever of them this machine has.

mod escape;
mod limits;
mod network;
mod refusals;
mod work;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tidegate_policy::exec::{Join, Plan};
use tidegate_policy::{
    Access, Besides, Confinement, Exit, Limits, Network, Profile, RunError, Running, Sink, Start,
};

use super::{Kept, launch, plan_of, step};
use crate::ProxyStarter;
use crate::backend::{Backend, Probe};
use crate::begin::begin;
use crate::local::{Bubblewrap, Landlock};
use crate::site::Site;

/// One way to hold programs, with folders of its own.
struct Held {
    backend: Box<dyn Backend>,
    confinement: Confinement,
    /// The machine around the sandbox: `work` is the folder to work in, `state` is ours, `places` are the places'.
    around: TempDir,
}

const LIMITS: Limits = Limits { memory: 256 << 20, processes: 64, disk: 64 << 20 };

impl Held {
    fn new(make: fn(Arc<Site>) -> Box<dyn Backend>, proxies: Option<Arc<dyn ProxyStarter>>) -> Self {
        // Not where temporary files go, of which a sandbox has its own: a name there would be another file inside.
        let beside_tests = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
        let around = tempfile::tempdir_in(beside_tests).unwrap();
        let base = around.path().canonicalize().unwrap();
        for name in ["work", "state", "places"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        fs::write(base.join("state/secret"), "canary").unwrap();
        let site = super::site(base.join("places"), proxies);
        let confinement = Confinement {
            profile: Profile::Local,
            place: "place".to_owned(),
            folder: base.join("work"),
            access: Access::ReadWrite,
            hidden: vec![base.join("state")],
            besides: Besides::default(),
            network: Network::None,
            limits: LIMITS,
        };
        Self { backend: make(site), confinement, around }
    }

    fn base(&self) -> PathBuf {
        self.around.path().canonicalize().unwrap()
    }

    fn work(&self) -> &Path {
        &self.confinement.folder
    }

    fn plan(&self, words: &[&str], mark: &str) -> Plan {
        let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("MARK", mark), ("HOME", "/root")];
        let env: BTreeMap<_, _> =
            env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        plan_of(&[step(Join::Then, vec![launch(words)])], self.work().to_str().unwrap(), &env)
    }

    async fn start(&self, plan: &Plan, start: Start) -> Result<(Box<dyn Running>, Arc<Kept>), RunError> {
        let kept = Arc::new(Kept::default());
        let sink: Arc<dyn Sink> = kept.clone();
        let way = self.backend.way(&self.confinement)?;
        Ok((Box::new(begin(way.as_ref(), plan, start, sink).await?), kept))
    }

    /// Runs a script of the shell to its end.
    async fn run(&self, script: &str) -> (Exit, Arc<Kept>) {
        let plan = self.plan(&["sh", "-c", script], "none");
        let (running, kept) = self.start(&plan, Start::default()).await.unwrap();
        (running.wait().await, kept)
    }

    async fn python(&self, program: &str) -> (Exit, Arc<Kept>) {
        let plan = self.plan(&["python3", "-c", program], "none");
        let (running, kept) = self.start(&plan, Start::default()).await.unwrap();
        (running.wait().await, kept)
    }
}

fn bubblewrap(site: Arc<Site>) -> Box<dyn Backend> {
    Box::new(Bubblewrap::new(site))
}

fn landlock(site: Arc<Site>) -> Box<dyn Backend> {
    Box::new(Landlock::new(site))
}

/// What holds programs here. What does not is told.
async fn all() -> Vec<Held> {
    let mut all = Vec::new();
    for make in [bubblewrap, landlock] {
        let held = Held::new(make, None);
        match held.backend.probe().await {
            Probe::Works(_) => all.push(held),
            Probe::Fails(why) => skip_loudly(&format!("{}: {why}", held.backend.name())),
        }
    }
    all
}

/// Only bubblewrap, if it works here.
async fn in_namespaces(proxies: Option<Arc<dyn ProxyStarter>>) -> Option<Held> {
    let held = Held::new(bubblewrap, proxies);
    match held.backend.probe().await {
        Probe::Works(_) => Some(held),
        Probe::Fails(why) => {
            skip_loudly(&format!("bubblewrap: {why}"));
            None
        }
    }
}

/// As `tidegate_testkit::skip::skip_loudly`, which depends on this crate's users.
fn skip_loudly(why: &str) {
    use std::io::Write as _;
    let thread = std::thread::current();
    let line = format!("SKIPPED {}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(file) = std::env::var_os("TIDEGATE_SKIPS") {
        let file = fs::OpenOptions::new().create(true).append(true).open(file);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
