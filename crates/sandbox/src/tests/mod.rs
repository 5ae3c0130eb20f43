//! Programs that behave, and programs that do not, under real supervisors.
//!
//! A program is known by a mark in its environment, so that the tests can look for survivors on the whole machine.

pub(crate) mod death;
pub(crate) mod echo;
mod fidelity;
mod held;
mod streams;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_policy::exec::{Join, Launch, Plan, Program, Step};
use tidegate_policy::{Exit, RunError, Running as _, Sink, Start, Stream};

use crate::running::HostRun;
use crate::site::Site;
use crate::supervise::identify;
use crate::{Host, ProxyStarter, Supervisor};

/// The supervisor is the example of this crate, which is built with the tests.
pub(crate) fn host() -> Host {
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples/supervise");
    assert!(
        program.exists(),
        "cargo test and cargo nextest build {}; a single target does not",
        program.display()
    );
    Host::new(Supervisor { program, args: Vec::new() })
}

/// What every way of holding programs starts from.
pub(crate) fn site(places: PathBuf, proxies: Option<Arc<dyn ProxyStarter>>) -> Arc<Site> {
    Arc::new(Site { host: Arc::new(host()), places, proxies })
}

/// Says that a test was skipped and what it needs, also where `make test` collects it.
pub(crate) fn skip_loudly(why: &str) {
    use std::io::Write as _;
    let thread = std::thread::current();
    let line = format!("SKIPPED {}: {why}\n", thread.name().unwrap_or("a test"));
    eprint!("{line}");
    if let Some(file) = std::env::var_os("TIDEGATE_SKIPS") {
        let file = fs::OpenOptions::new().create(true).append(true).open(file);
        file.and_then(|mut file| file.write_all(line.as_bytes())).unwrap();
    }
}

/// Keeps all output.
#[derive(Default)]
pub(crate) struct Kept {
    stdout: Mutex<Vec<u8>>,
    stderr: Mutex<Vec<u8>>,
    /// Hosts that were not reached, and why.
    away: Mutex<Vec<String>>,
}

impl Kept {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout.lock().unwrap()).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().unwrap()).into_owned()
    }

    pub(crate) async fn wait_for(&self, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.stdout().contains(text) {
            assert!(Instant::now() < deadline, "{text:?} never came, only {:?}", self.stdout());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Sink for Kept {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        let into = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        into.lock().unwrap().extend_from_slice(bytes);
    }

    fn turned_away(&self, host: &str, why: &str) {
        self.away.lock().unwrap().push(format!("{host}: {why}"));
    }
}

pub(crate) fn program_at(path: &Path) -> Program {
    let path = path.canonicalize().unwrap().to_str().unwrap().to_owned();
    let identity = identify(&path).unwrap();
    Program { path, identity, trusted: true }
}

fn program(name: &str) -> Program {
    let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
    program_at(found.iter().find(|path| path.exists()).unwrap_or_else(|| panic!("{name} is not installed")))
}

pub(crate) fn launch(words: &[&str]) -> Launch {
    Launch { program: program(words[0]), argv: words.iter().map(|&word| word.to_owned()).collect() }
}

pub(crate) fn plan_of(steps: &[Step], cwd: &str, env: &BTreeMap<String, String>) -> Plan {
    let plan = json!({ "steps": steps, "cwd": cwd, "env": env, "addedEnv": {}, "opaque": Value::Null });
    serde_json::from_value(plan).unwrap()
}

pub(crate) fn step(join: Join, pipeline: Vec<Launch>) -> Step {
    Step { join, pipeline }
}

/// A plan with one program, which can be told from all others on this machine by its environment.
pub(crate) struct Marked {
    pub(crate) plan: Plan,
    pub(crate) mark: String,
}

pub(crate) fn marked(words: &[&str]) -> Marked {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mark = format!("tidegate-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    marked_as(mark, words)
}

pub(crate) fn marked_as(mark: String, words: &[&str]) -> Marked {
    let env =
        BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned()), ("MARK".to_owned(), mark.clone())]);
    let plan = plan_of(&[step(Join::Then, vec![launch(words)])], "/", &env);
    Marked { plan, mark }
}

pub(crate) fn script(text: &str) -> Marked {
    marked(&["sh", "-c", text])
}

/// Who on this machine carries a mark: process ids.
pub(crate) fn carriers(mark: &str) -> Vec<u32> {
    let needle = format!("MARK={mark}\0");
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.windows(needle.len()).any(|window| window == needle.as_bytes())
    })
    .collect()
}

pub(crate) async fn until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn start(plan: &Plan, start: Start) -> Result<(HostRun, Arc<Kept>), RunError> {
    let kept = Arc::new(Kept::default());
    let sink: Arc<dyn Sink> = kept.clone();
    let running = host().start_plan(plan, start, sink).await?;
    Ok((running, kept))
}

/// Runs a plan to its end.
async fn run(plan: &Plan) -> (Exit, Arc<Kept>) {
    let (running, kept) = start(plan, Start::default()).await.unwrap();
    let exit = running.wait().await;
    (exit, kept)
}
