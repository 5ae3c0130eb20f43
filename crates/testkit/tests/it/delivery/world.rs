//! Everything around a host: its home, its store's place, its networks, and the process itself.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tidegate_engine::Home;
use tidegate_runtime::spawn_thread;
use tidegate_testkit::host::{Account, Plan, Until, Weather, Work};
use tidegate_testkit::network::{Dice, Network};
use tidegate_testkit::stores::Location;

/// Longer than anything here may take, on a machine that does something else as well.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A home and the world outside of it. The store is somebody else's.
pub(crate) struct World {
    folder: TempDir,
    pub(crate) plan: Plan,
}

impl World {
    pub(crate) fn new(location: &Location, seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan {
            location: location.clone(),
            home: folder.path().join("home"),
            world: folder.path().join("world"),
            accounts: Account::SOUND.to_vec(),
            seed,
            weather: Weather::Storm,
            work: Work::Talk,
            until: Until::Quiet,
            drain: Duration::from_secs(5),
            deadline: PATIENCE,
        };
        Self { folder, plan }
    }

    pub(crate) fn home(&self) -> Home {
        Home::at(&self.plan.home)
    }

    pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn network(&self, account: Account) -> Network {
        account.network(&self.plan.world)
    }

    /// Each sound account gets so many messages of a few peers.
    pub(crate) fn post(&self, dice: &mut Dice, messages: usize) {
        for account in Account::SOUND {
            let network = self.network(account);
            for _ in 0..messages {
                let text = match dice.below(5) {
                    0 => "你好，世界".to_owned(),
                    1 => "a long one, ".repeat(30),
                    2 => "two\nlines \"quoted\"".to_owned(),
                    _ => "hello".to_owned(),
                };
                let peer = format!("p{}", dice.below(3));
                let number = network.posted().len() + 1;
                network.post(&peer, &format!("{number}: {text}"));
            }
        }
    }

    pub(crate) fn configure(&self, text: &str) {
        std::fs::create_dir_all(&self.plan.home).unwrap();
        std::fs::write(self.home().config_file(), text).unwrap();
    }

    pub(crate) fn start(&self, env: &[(&str, &str)]) -> Running {
        Running::start(&self.plan, env)
    }

    /// Runs to the end and expects it to be a good one.
    #[track_caller]
    pub(crate) fn run(&self, env: &[(&str, &str)]) -> Ended {
        let ended = self.start(env).wait();
        assert!(ended.status.success(), "{ended:?}");
        ended
    }

    /// Runs with `TIDEGATE_FAULT` as given.
    pub(crate) fn run_with_fault(&self, fault: &str, more: &[(&str, &str)]) -> Ended {
        let mut env = vec![("TIDEGATE_FAULT", fault)];
        env.extend_from_slice(more);
        self.start(&env).wait()
    }
}

/// A host that runs.
pub(crate) struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    errors: Arc<Mutex<Vec<String>>>,
}

/// How a host ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<String>,
    /// What it complained about, the last lines, for a test that fails.
    #[expect(dead_code, reason = "shown by Debug")]
    pub(crate) stderr: Vec<String>,
}

impl Ended {
    pub(crate) fn was_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }
}

impl Running {
    fn start(plan: &Plan, env: &[(&str, &str)]) -> Self {
        let mut child = Command::new(Path::new(env!("CARGO_BIN_EXE_tidegate-testkit")))
            .args(plan.args())
            .env_remove("TIDEGATE_FAULT")
            .env_remove("TIDEGATE_FAULT_TRACE")
            .env("RUST_BACKTRACE", "0")
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = keep("stdout", child.stdout.take().unwrap());
        let errors = keep("stderr", child.stderr.take().unwrap());
        Self { child, lines, errors }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until the host printed the line.
    #[track_caller]
    pub(crate) fn await_line(&self, line: &str) {
        self.until(line, || self.lines.lock().unwrap().iter().any(|said| said == line));
    }

    /// Waits until something is so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            let errors = || self.errors.lock().unwrap().join("\n");
            assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}\n{}", errors());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn wait(mut self) -> Ended {
        let status = self.child.wait().unwrap();
        let taken = |lines: &Mutex<Vec<String>>| lines.lock().unwrap().clone();
        // The pipes end with the process; their readers need a moment.
        let begin = Instant::now();
        while Arc::strong_count(&self.lines) + Arc::strong_count(&self.errors) > 2
            && begin.elapsed() < PATIENCE
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut stderr = taken(&self.errors);
        let stderr = stderr.split_off(stderr.len().saturating_sub(30));
        Ended { status, stdout: taken(&self.lines), stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that failed leaves nobody behind; one that ended is told nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn keep(name: &'static str, pipe: impl std::io::Read + Send + 'static) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let reader = spawn_thread(name, move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            kept.lock().unwrap().push(line);
        }
    });
    drop(reader);
    lines
}
