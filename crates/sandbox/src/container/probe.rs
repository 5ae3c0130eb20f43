//! Finding out whether an engine can hold programs here, and what it needs for that.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit};
use serde_json::Value;
use tidegate_policy::{Access, Besides, Confinement, Limits, Network, Profile, Start};

use super::{Container, Engine, seccomp};
use crate::script::Script;

/// For anything an engine is asked here. The first call after the machine was started takes its time.
const LIMIT: Duration = Duration::from_mins(1);

/// Nobody needs more open files than this.
const MOST_FILES: u64 = 65_536;

/// The highest number of a process on most machines. What a plan may have is limited in another way.
const MOST_PROCESSES: u64 = 32_768;

/// How an engine can be used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) version: String,
    /// It runs as an ordinary user.
    pub(super) rootless: bool,
    pub(super) runtime: Option<String>,
    /// Whether it can put something in front of programs that looks after orphans.
    pub(super) init: bool,
    pub(super) limits_swap: bool,
    /// Its own would need more rights than we have.
    pub(super) ulimits: Vec<String>,
    /// How a folder is covered. Podman fills what covers it with what is below unless it is told not to.
    pub(super) cover: &'static str,
    /// Where its own list of system calls is, as long as ours is not made; then ours.
    pub(super) calls: Option<PathBuf>,
}

impl Facts {
    pub(super) fn detail(&self) -> String {
        let mut detail = format!("version {}", self.version);
        if let Some(runtime) = &self.runtime {
            let _ = write!(detail, ", runtime {runtime}");
        }
        if self.rootless {
            detail.push_str(", without root");
        }
        if !self.limits_swap {
            detail.push_str("; swap is not limited");
        }
        detail
    }
}

impl Container {
    /// Everything there is to know, or why it cannot be used.
    pub(super) async fn find_out(&self) -> Result<Facts, String> {
        let engine = self.cli.engine;
        let info = self.cli.ask(&["info", "--format", "{{json .}}"], LIMIT).await?;
        let info: Value = serde_json::from_str(info.stdout.trim())
            .map_err(|_| format!("`{} info` answers with something else than JSON", engine.name()))?;
        let mut facts = read(engine, &info)?;
        if let Some(theirs) = facts.calls.take() {
            let ours = self.site.places.join(format!("{}-calls.json", engine.name()));
            fs::create_dir_all(&self.site.places)
                .and_then(|()| seccomp::write(&theirs, &ours))
                .map_err(|error| format!("its list of system calls, {}: {error}", theirs.display()))?;
            facts.calls = Some(ours);
        }
        let image = &self.settings.image;
        let found = self.cli.ask(&["image", "inspect", "--format", "{{.Id}}", image], LIMIT).await;
        found.map_err(|why| {
            format!(
                "it has no image {image:?} ({why}); build or import one, or name another in \
                 agents.defaults.sandbox.container.image"
            )
        })?;
        self.try_all(&facts).await
    }

    /// Tries what an engine may need to be told until a container really holds something.
    async fn try_all(&self, facts: &Facts) -> Result<Facts, String> {
        let mut first = None;
        for runtime in self.runtimes() {
            for init in [true, false] {
                let facts = Facts { runtime: runtime.clone(), init, ..facts.clone() };
                match self.try_one(&facts).await {
                    Ok(()) => return Ok(facts),
                    Err(why) => first.get_or_insert(why),
                };
            }
        }
        Err(first.unwrap_or_default())
    }

    /// The configured one; else the engine's usual one and others that are installed, for that may not know this kernel.
    fn runtimes(&self) -> Vec<Option<String>> {
        if self.settings.runtime.is_some() {
            return vec![self.settings.runtime.clone()];
        }
        let mut runtimes = vec![None];
        if self.cli.engine == Engine::Podman {
            let others = ["crun", "runc"].into_iter().filter(|name| self.cli.finds(name).is_some());
            runtimes.extend(others.map(|name| Some(name.to_owned())));
        }
        runtimes
    }

    /// Has a container try what it must not be able to do, and what it must.
    async fn try_one(&self, facts: &Facts) -> Result<(), String> {
        let place = format!("probe-{}", crate::process::ourselves());
        let root = self.site.places.join(&place);
        let result = match trial(&root) {
            Ok(()) => self.try_in(facts, &place, &root).await,
            Err(error) => Err(format!("{}: {error}", root.display())),
        };
        let _ = fs::remove_dir_all(&root);
        result
    }

    async fn try_in(&self, facts: &Facts, place: &str, root: &Path) -> Result<(), String> {
        let folder = root.join("work");
        let confinement = Confinement {
            profile: Profile::Container,
            place: place.to_owned(),
            folder: folder.canonicalize().map_err(|error| error.to_string())?,
            access: Access::ReadWrite,
            hidden: Vec::new(),
            besides: Besides::default(),
            network: Network::None,
            limits: Limits { memory: 256 << 20, processes: 64, disk: 16 << 20 },
        };
        let held = self.held(&confinement, Arc::new(facts.clone())).map_err(|error| error.to_string())?;
        let script = Script { text: text(&confinement.folder), values: BTreeMap::new() };
        let order = held.order(script, Start::default(), None)?;
        let answer = self.cli.run(order, LIMIT).await?;
        judge(&answer.stdout)?;
        match fs::read_to_string(folder.join("written")) {
            Ok(written) if written.trim() == "held" => Ok(()),
            _ => Err(
                "what is written in a container does not arrive here: the engine is on another machine, or \
                      changes users"
                    .to_owned(),
            ),
        }
    }
}

fn trial(root: &Path) -> io::Result<()> {
    fs::create_dir_all(root.join("work"))?;
    fs::write(root.join("secret"), "not for containers")
}

/// Shells have all of this built in: an image may have nothing else.
fn text(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "if (: > /tidegate-probe) 2>/dev/null; then echo 'writes outside'; fi
         if [ -e '{folder}/../secret' ]; then echo 'sees other files'; fi
         while read -r key value; do case $key in CapEff:) echo \"capabilities $value\";; esac; done </proc/self/status
         while read -r name rest; do case $name in *:) echo \"network $name\";; esac; done </proc/net/dev
         : > /tmp/probe && : > /run/probe && : > /var/tmp/probe && echo held > '{folder}/written' && echo held"
    )
}

/// What a container said about itself.
fn judge(said: &str) -> Result<(), String> {
    let mut held = false;
    for line in said.lines().map(str::trim) {
        match line.split_once(' ') {
            None if line == "held" => held = true,
            Some(("capabilities", which)) if which.chars().all(|digit| digit == '0') => {}
            Some(("capabilities", which)) => return Err(format!("a container has capabilities ({which})")),
            Some(("network", "lo:")) => {}
            Some(("network", which)) => return Err(format!("a container without network has {which}")),
            _ => return Err(format!("a container {line}")),
        }
    }
    if held { Ok(()) } else { Err("a container cannot write where it must".to_owned()) }
}

/// What an engine says about itself. What looks like docker may be podman.
pub(super) fn read(engine: Engine, info: &Value) -> Result<Facts, String> {
    let podman = info.get("host").is_some();
    let (version, limits_memory, limits_processes, limits_swap, rootless) = if podman {
        let has = |controller: &str| {
            let all = info.pointer("/host/cgroupControllers").and_then(Value::as_array);
            all.is_some_and(|all| all.iter().any(|one| one == controller))
        };
        let rootless = info.pointer("/host/security/rootless").and_then(Value::as_bool).unwrap_or(false);
        (info.pointer("/version/Version"), has("memory"), has("pids"), true, rootless)
    } else {
        if let Some(error) = info.pointer("/ServerErrors/0").and_then(Value::as_str) {
            return Err(error.to_owned());
        }
        let can = |key: &str| info.get(key).and_then(Value::as_bool).unwrap_or(false);
        (info.get("ServerVersion"), can("MemoryLimit"), can("PidsLimit"), can("SwapLimit"), false)
    };
    if !limits_memory || !limits_processes {
        let what = if limits_memory { "processes" } else { "memory" };
        return Err(format!(
            "{} cannot limit {what} here: control groups are not at its disposal",
            engine.name()
        ));
    }
    let version = version.and_then(Value::as_str).unwrap_or("unknown").to_owned();
    let ulimits = ulimits(podman);
    let cover = if podman { "ro,size=4k,notmpcopyup" } else { "ro,size=4k" };
    let calls = info.pointer("/host/security/seccompProfilePath").and_then(Value::as_str);
    let calls = calls.filter(|path| !path.is_empty()).map(PathBuf::from);
    Ok(Facts { version, rootless, runtime: None, init: true, limits_swap, ulimits, cover, calls })
}

/// What every program may have at most, never more than we may have ourselves: without the right to raise limits an
/// engine that tries it fails. A daemon has rights of its own.
fn ulimits(podman: bool) -> Vec<String> {
    let most = |limit: Rlimit| limit.maximum.unwrap_or(u64::MAX);
    let files = most(getrlimit(Resource::Nofile)).min(MOST_FILES);
    let mut ulimits = vec![format!("nofile={}:{files}", files.min(1_024))];
    if podman {
        // Its client lowers its own to this, and cannot give more than it has.
        let processes = most(getrlimit(Resource::Nproc)).min(MOST_PROCESSES);
        ulimits.push(format!("nproc={processes}:{processes}"));
    }
    ulimits
}
