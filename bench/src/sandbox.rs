//! What it costs to start a program in a sandbox, against starting it.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tidegate_policy::exec::{FileIdentity, Lookup, Plan, PlanPlace, Program};
use tidegate_policy::{
    Access, Besides, Confinement, Confiner as _, Exit, Limits, Network, PermittedPlan, Profile, Runner, Sink,
    Start, Stream,
};
use tidegate_sandbox::{Sandboxes, Supervisor};

use crate::machine::Cpu;
use crate::stats::{p50_us, rounded};

/// How this program is started when it is to supervise a command.
pub(crate) const SUPERVISE: &str = "__supervise";

const ROUNDS: usize = 60;
const PROGRAM: &str = "/bin/true";

pub(crate) async fn run() -> Result<Value, Box<dyn Error>> {
    let others = Cpu::now();
    let folder = tempfile::tempdir()?;
    let work = folder.path().canonicalize()?.join("work");
    std::fs::create_dir(&work)?;
    let plan = plan(&work)?;
    let mut ways: Vec<(&str, Arc<dyn Runner>, Vec<Duration>)> = Vec::new();
    for (name, profile) in
        [("none", Profile::None), ("landlock", Profile::Local), ("bubblewrap", Profile::Local)]
    {
        let supervisor = Supervisor { program: std::env::current_exe()?, args: vec![SUPERVISE.into()] };
        let sandboxes = Sandboxes::new(supervisor, folder.path().join("places"), None).only(name);
        let works = sandboxes.report().await.iter().all(|report| report.probe.works());
        if works {
            ways.push((name, sandboxes.runner(&confinement(profile, &work))?, Vec::new()));
        }
    }
    let mut spawned = Vec::new();
    // Taken in turns: whatever else the machine does meets all of them alike.
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        std::process::Command::new(PROGRAM).status()?;
        spawned.push(begin.elapsed());
        for (name, runner, samples) in &mut ways {
            let begin = Instant::now();
            let permitted = PermittedPlan::of_operator(&plan);
            let running = runner.start(permitted, Start::default(), Arc::new(Nowhere)).await?;
            let exit = running.wait().await;
            samples.push(begin.elapsed());
            if exit != Exit::Code(0) {
                return Err(format!("{name}: {exit:?}").into());
            }
        }
    }
    let spawn = p50_us(&spawned);
    let mut held = Map::new();
    for (name, _, samples) in &ways {
        let took = p50_us(samples);
        held.insert(
            (*name).to_owned(),
            json!({
                "p50_us": rounded(took),
                "over_spawn_ms": rounded((took - spawn) / 1000.0),
                "ratio_to_spawn": rounded(took / spawn),
            }),
        );
    }
    Ok(json!({
        "bench": "sandbox",
        "goal": "over a bare spawn: landlock at most 5 ms, bubblewrap at most 12 ms",
        "rounds": ROUNDS,
        "spawn_p50_us": rounded(spawn),
        "held": held,
        "others_cpu_share": rounded(others.others_since()),
    }))
}

fn confinement(profile: Profile, folder: &Path) -> Confinement {
    Confinement {
        profile,
        place: "bench".to_owned(),
        folder: folder.to_owned(),
        access: Access::ReadWrite,
        hidden: Vec::new(),
        besides: Besides::default(),
        network: Network::None,
        limits: Limits { memory: 1 << 30, processes: 512, disk: 1 << 30 },
    }
}

fn plan(folder: &Path) -> Result<Plan, Box<dyn Error>> {
    let place = PlanPlace {
        cwd: folder.to_string_lossy().into_owned(),
        env: BTreeMap::new(),
        added_env: BTreeMap::new(),
    };
    Ok(Plan::of_argv(vec![PROGRAM.to_owned()], place, &Disk)?)
}

struct Disk;

impl Lookup for Disk {
    fn find(&self, word: &str, _place: &PlanPlace) -> Option<Program> {
        use std::os::unix::fs::MetadataExt as _;
        let path = std::fs::canonicalize(word).ok()?;
        let file = path.metadata().ok()?;
        let identity = FileIdentity {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            modified: i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec()),
        };
        Some(Program { path: path.to_str()?.to_owned(), identity, trusted: true })
    }

    fn shell(&self) -> Option<Program> {
        None
    }
}

struct Nowhere;

impl Sink for Nowhere {
    fn write(&self, _stream: Stream, _bytes: &[u8]) {}
}
