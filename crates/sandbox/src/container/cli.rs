//! Calling an engine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_policy::exec::{Join, Launch, Program, Step};
use tidegate_policy::{Exit, RunError, Running as _, Sink, Start, Stream};

use super::{ContainerSettings, Engine};
use crate::hold::Hold;
use crate::host::Host;
use crate::order::Order;
use crate::supervise::identify;
use crate::vessel::Vessel;

/// An answer may have this many bytes.
const LONGEST_ANSWER: usize = 1 << 20;

#[derive(Clone)]
pub(super) struct Cli {
    pub(super) engine: Engine,
    pub(super) host: Arc<Host>,
    env: BTreeMap<String, String>,
}

/// What an engine said.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Answer {
    /// The first thing it complained about.
    pub(super) fn complaint(&self) -> String {
        let line = self.stderr.lines().map(str::trim).find(|line| !line.is_empty());
        line.unwrap_or("it says nothing").to_owned()
    }
}

impl Cli {
    pub(super) fn new(engine: Engine, env: &BTreeMap<String, String>, host: Arc<Host>) -> Self {
        let kept = |(name, value): (&String, &String)| {
            ContainerSettings::ENV.contains(&name.as_str()).then(|| (name.clone(), value.clone()))
        };
        Self { engine, host, env: env.iter().filter_map(kept).collect() }
    }

    /// Whether a program of this name is on the path.
    pub(super) fn finds(&self, name: &str) -> Option<PathBuf> {
        let path = self.env.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
        let found =
            std::env::split_paths(path).filter(|folder| folder.is_absolute()).map(|folder| folder.join(name));
        found.filter(|file| file.is_file()).find_map(|file| file.canonicalize().ok())
    }

    fn program(&self) -> Result<Program, String> {
        let name = self.engine.name();
        let path = self.finds(name).ok_or_else(|| format!("there is no {name} on PATH"))?;
        let path = path.to_str().ok_or_else(|| format!("{} is no text", path.display()))?.to_owned();
        let identity = identify(&path).map_err(|error| format!("{path}: {error}"))?;
        Ok(Program { path, identity, trusted: true })
    }

    /// What a supervisor has to do to call it. `more` is added to the client's environment.
    pub(super) fn order(
        &self,
        words: Vec<String>,
        more: BTreeMap<String, String>,
        terminal: bool,
    ) -> Result<Order, String> {
        let program = self.program()?;
        let argv = std::iter::once(self.engine.name().to_owned()).chain(words).collect();
        let steps = vec![Step { join: Join::Then, pipeline: vec![Launch { program, argv }] }];
        let mut env = self.env.clone();
        env.extend(more);
        Ok(Order { steps, cwd: "/".to_owned(), env, terminal, hold: Hold::Nothing, watch: false })
    }

    /// How to reach a container that was made.
    pub(super) fn vessel(&self, name: &str) -> Result<Vessel, String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let remove: &[&str] = match self.engine {
            Engine::Docker => &["rm", "--force", name],
            Engine::Podman => &["rm", "--force", "--ignore", "--time", "0", name],
        };
        Ok(Vessel {
            program: self.program()?.path,
            env: self.env.clone(),
            // All but process 1, which ends when it has nobody left to wait for.
            ask: words(&["exec", name, "sh", "-c", "kill -TERM -1"]),
            remove: words(remove),
        })
    }

    /// Asks it something that is soon answered.
    pub(super) async fn ask(&self, words: &[&str], limit: Duration) -> Result<Answer, String> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        self.run(self.order(words, BTreeMap::new(), false)?, limit).await
    }

    pub(super) async fn run(&self, order: Order, limit: Duration) -> Result<Answer, String> {
        let heard = Arc::new(Heard::default());
        let running = self.host.start_order(order, None, Start::default(), heard.clone());
        let running = running.await.map_err(|error: RunError| error.to_string())?;
        let exit = tokio::time::timeout(limit, running.wait()).await;
        let answer = heard.answer();
        match exit {
            Ok(Exit::Code(0)) => Ok(answer),
            Ok(Exit::Failed(error)) => Err(error.to_string()),
            Ok(_) => Err(answer.complaint()),
            Err(_) => Err(format!("{} does not answer within {} s", self.engine.name(), limit.as_secs())),
        }
    }
}

/// Keeps what is said.
#[derive(Default)]
struct Heard(Mutex<[Vec<u8>; 2]>);

impl Heard {
    fn answer(&self) -> Answer {
        let [stdout, stderr] = &*self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Answer { stdout: text(stdout), stderr: text(stderr) }
    }
}

impl Sink for Heard {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut kept[usize::from(stream == Stream::Stderr)];
        kept.extend(bytes.iter().take(LONGEST_ANSWER.saturating_sub(kept.len())));
    }
}
