//! `tidegate-testkit host`: the real engine on a real store with faulty networks, made to be killed.
//!
//! It serves until nothing is left to do, or until SIGTERM, then closes in good order. It prints a line when it has
//! started, when everything is quiet and when it has closed. What the outside world saw is in the networks' folders.

mod account;
mod hasty;
mod tools;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_config::schema::{Reset, ResetMode};
use tidegate_config::{ConfigFile, Env};
use tidegate_engine::{Drain, Engine, Home, Options, Settings};
use tidegate_protocol::{RunState, Scope};
use tidegate_runtime::{Shutdown, SystemClock, spawn};
use tidegate_storage::Store;
use tidegate_storage_postgres::PostgresStore;

use crate::network::Faults;
use crate::requests::parse;
use crate::stores::{Location, OpenStore};

pub use account::{Account, CHANNEL, POISON};
pub use hasty::STEERS;
pub use tools::{LOOK, NOTE, noted};

/// Between two looks at whether something is left to do.
const GLANCE: Duration = Duration::from_millis(10);
/// Connections to a server: as many as make two commits race.
const CONNECTIONS: u32 = 4;

/// When a host ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Everything posted is acknowledged, every run has ended, nothing waits to go out.
    Quiet,
    /// Everything posted is acknowledged; runs may be under way.
    Acknowledged,
    Signal,
}

/// What the agent has to work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The model that needs no network, and no tools.
    Talk,
    /// The models of the configuration, tools of their own kind for tests, and those of a release that touch files.
    Tools,
}

/// How often the networks fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    Calm,
    Storm,
    /// Most sends are put off, and half of those that go out are never confirmed.
    Busy,
}

/// [`Faults::STORM`] with fewer lost connections: each costs half a second and more, and there is a test of its own
/// for connectors that fail all the time.
const STORM: Faults = Faults { down: 10, panic: 5, ..Faults::STORM };

const BUSY: Faults = Faults {
    not_sent: 700,
    lost_answer: 500,
    late_ack: 0,
    duplicate: 0,
    reorder: 0,
    lost_send: 0,
    rejected: 0,
    unreadable: 0,
    down: 0,
    panic: 0,
};

/// What a host is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub location: Location,
    pub home: PathBuf,
    /// A folder with a folder for each account.
    pub world: PathBuf,
    pub accounts: Vec<Account>,
    pub seed: u64,
    pub weather: Weather,
    pub work: Work,
    pub until: Until,
    /// How long what is under way may take in the end.
    pub drain: Duration,
    /// After which it gives up.
    pub deadline: Duration,
}

/// The end that a host prints.
pub const CLOSED: &str = "closed";
pub const STARTED: &str = "started";
pub const QUIET: &str = "quiet";

impl Plan {
    pub const USAGE: &str = "tidegate-testkit host sqlite <file> | postgres <schema>=<url>
           <home> <world> <account>[,<account>…] <seed> calm|storm|busy talk|tools quiet|acknowledged|signal <drain ms> <deadline ms>";

    /// What makes `tidegate-testkit` follow this plan.
    pub fn args(&self) -> Vec<String> {
        let [backend, place] = self.location.args();
        let accounts: Vec<&str> = self.accounts.iter().map(|account| account.as_str()).collect();
        let weather = match self.weather {
            Weather::Calm => "calm",
            Weather::Storm => "storm",
            Weather::Busy => "busy",
        };
        let work = match self.work {
            Work::Talk => "talk",
            Work::Tools => "tools",
        };
        let until = match self.until {
            Until::Quiet => "quiet",
            Until::Acknowledged => "acknowledged",
            Until::Signal => "signal",
        };
        let path = |path: &PathBuf| path.display().to_string();
        vec![
            "host".to_owned(),
            backend,
            place,
            path(&self.home),
            path(&self.world),
            accounts.join(","),
            self.seed.to_string(),
            weather.to_owned(),
            work.to_owned(),
            until.to_owned(),
            self.drain.as_millis().to_string(),
            self.deadline.as_millis().to_string(),
        ]
    }

    /// Reads what [`args`](Self::args) wrote.
    pub fn from_args(args: &[String]) -> Option<Self> {
        let [host, backend, place, home, world, accounts, seed, weather, work, until, drain, deadline] = args
        else {
            return None;
        };
        let milliseconds = |text: &String| text.parse().ok().map(Duration::from_millis);
        Some(Self {
            location: Location::from_args(backend, place).filter(|_| host == "host")?,
            home: home.into(),
            world: world.into(),
            accounts: accounts.split(',').map(Account::parse).collect::<Option<_>>()?,
            seed: seed.parse().ok()?,
            weather: match weather.as_str() {
                "calm" => Weather::Calm,
                "storm" => Weather::Storm,
                "busy" => Weather::Busy,
                _ => return None,
            },
            work: match work.as_str() {
                "talk" => Work::Talk,
                "tools" => Work::Tools,
                _ => return None,
            },
            until: match until.as_str() {
                "quiet" => Until::Quiet,
                "acknowledged" => Until::Acknowledged,
                "signal" => Until::Signal,
                _ => return None,
            },
            drain: milliseconds(drain)?,
            deadline: milliseconds(deadline)?,
        })
    }

    /// Follows the plan to its end. An error says what was left to do.
    pub async fn follow(&self) -> Result<(), String> {
        let terminated = Shutdown::new();
        let listener = terminated.clone();
        spawn("signals", async move { listener.on_signal().await.map(drop) });
        let home = Home::at(&self.home);
        let config = ConfigFile::new(home.config_file(), home.revisions());
        let mut loaded = config.load(&Env::of_this_process()).map_err(|error| told("config", &error))?;
        // Whoever reads the logs at the end expects one for each conversation, also where a test runs at four o'clock.
        loaded.config.session.reset = Some(Reset { mode: ResetMode::Off, ..Reset::default() });
        let lock = home.lock(Duration::from_secs(5), "host").await.map_err(|error| told("home", &error))?;
        let open = self.location.open(CONNECTIONS).await.map_err(|error| told("store", &error))?;
        let store: Arc<dyn Store> = match &open {
            OpenStore::Sqlite(store) => Arc::new(store.clone()),
            OpenStore::Postgres(store) => Arc::<PostgresStore>::clone(store),
        };
        let engine = Engine::start(lock, store, Arc::new(SystemClock), self.options(&loaded))
            .await
            .map_err(|error| told("start", &error))?;
        say(STARTED);
        let hasty = self.accounts.contains(&Account::Hasty);
        let ended = tokio::select! {
            open = self.until_quiet(&engine) => open,
            () = terminated.requested() => Ok(()),
            error = engine.failed() => Err(told("failed", &error)),
            error = hasty::submit_all(&engine, &self.world), if hasty => Err(told("submit", &error)),
        };
        let drained = engine.close(Drain::Within(self.drain)).await;
        drop(engine);
        open.close().await;
        say(&format!("{CLOSED} {}", drained.given_back));
        ended
    }

    fn options(&self, loaded: &tidegate_config::Loaded) -> Options {
        let scope = scope();
        let faults = match self.weather {
            Weather::Calm => Faults::default(),
            Weather::Storm => STORM,
            Weather::Busy => BUSY,
        };
        let connect = |account: &Account| account.connect(&self.world, &scope, self.seed, faults);
        let options = Options {
            connectors: self.accounts.iter().map(connect).collect(),
            stays: true,
            ..Options::passing(scope.tenant.clone(), Settings::new(loaded))
        };
        match self.work {
            Work::Talk => options,
            Work::Tools => tools::given(options, loaded, &self.home, &self.world),
        }
    }

    async fn until_quiet(&self, engine: &Engine) -> Result<(), String> {
        let waited = async {
            let mut looks = 0;
            loop {
                // Parts and runs are counted one after the other: a run that ends in between leaves a part unseen by
                // one look, and by no second one.
                looks = if self.left_to_do(engine).await.is_empty() { looks + 1 } else { 0 };
                if looks == 2 && self.until != Until::Signal {
                    return say(QUIET);
                }
                tokio::time::sleep(GLANCE).await;
            }
        };
        match tokio::time::timeout(self.deadline, waited).await {
            Ok(()) => Ok(()),
            Err(_) if self.until == Until::Signal => Err("no signal came".to_owned()),
            Err(_) => Err(format!("left to do: {}", self.left_to_do(engine).await.join(", "))),
        }
    }

    async fn left_to_do(&self, engine: &Engine) -> Vec<String> {
        let mut open = Vec::new();
        for account in self.accounts.iter().filter(|account| account.receives()) {
            let network = account.network(&self.world);
            let (posted, known) = (network.posted().len(), network.acknowledged().len());
            if known < posted {
                open.push(format!("{}: {known} of {posted} acknowledged", account.as_str()));
            }
        }
        if self.until == Until::Acknowledged {
            return open;
        }
        match engine.library().status(engine.tenant()).await {
            Ok(status) => {
                let runs = status.runs.iter().filter(|(state, _)| !RunState::parse(state).is_terminal());
                open.extend(runs.map(|(state, count)| format!("{count} runs {state}")));
                let parts =
                    status.outbox.iter().filter(|(state, _)| matches!(state.as_str(), "pending" | "sending"));
                open.extend(parts.map(|(state, count)| format!("{count} parts {state}")));
            }
            Err(error) => open.push(error.to_string()),
        }
        open
    }
}

/// Whose everything is.
pub fn scope() -> Scope {
    Scope::personal(parse("main"))
}

fn told(what: &str, error: &dyn std::fmt::Display) -> String {
    format!("{what}: {error}")
}

/// One line for whoever waits for it.
pub(crate) fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // Whoever reads this may be gone; then nobody waits.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_comes_back_from_its_arguments() {
        let plan = Plan {
            location: Location::Sqlite { path: "/a/tidegate.db".into() },
            home: "/a".into(),
            world: "/b".into(),
            accounts: vec![Account::Blind, Account::Fatal],
            seed: 7,
            weather: Weather::Storm,
            work: Work::Tools,
            until: Until::Acknowledged,
            drain: Duration::from_millis(3),
            deadline: Duration::from_secs(9),
        };
        assert_eq!(Plan::from_args(&plan.args()), Some(plan.clone()));
        assert_eq!(Plan::from_args(&plan.args()[1..]), None);
    }
}
