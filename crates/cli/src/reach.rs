//! Where a command that changes something does its work: in the process that holds the home, or in its own.
//!
//! A command that finds the home free takes it, and listens for others as long as it holds it. One that finds it taken
//! goes to the holder's control socket. A holder that is closing is waited for, until the command's patience ends.

mod sessions;
mod stop;
mod tools;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_client::{Client, ClientError};
use tidegate_config::Loaded;
use tidegate_engine::{Drain, Engine, EngineError, Home, HomeLock, Options, Settings, StoredStandings, Wish};
use tidegate_gateway::Server;
use tidegate_policy::Principal;
use tidegate_protocol::api::{Deleted, ModelTested, SendDecision, TestModel};
use tidegate_protocol::{ErrorCode, OutboxId, RunId, SessionKey};
use tidegate_runtime::SystemClock;
use tidegate_storage::{AbortOutcome, Decided, OutboxState};

use crate::app::{App, config_file, now_ms};
use crate::failure::{Failure, With as _};
use crate::output::complain;
use crate::registry::registry;
use crate::sandboxes::sandboxes;
use crate::store::{Access, open};
use crate::texts;
use crate::toolbox::toolbox;

pub(crate) use stop::stop_runs;
pub(crate) use tools::{answer_here, answer_there};

/// How long a call that changes one thing may take.
const CALL: Duration = Duration::from_secs(30);
/// How long a model may take to show whether it answers; the holder gives up before that.
const TEST: Duration = Duration::from_mins(3);
/// How long a holder may take to say that it is there.
const PROBE: Duration = Duration::from_secs(3);
/// How long a holder that lets go waits for those who still read their answers.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Somebody who waits longer than this for the home is told for whom.
const MOMENT: Duration = Duration::from_secs(1);

/// Where the work is done.
pub(crate) enum Reach {
    /// In the process that holds the home.
    Running(Client),
    /// Here.
    Own(Box<Held>),
}

/// The home, held by this command.
pub(crate) struct Held {
    pub(crate) engine: Engine,
    /// Where other commands join. Without it they wait for the lock.
    control: Option<Server>,
}

/// What a person decides about a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Retry,
    Drop,
}

/// Waits for the home: taken, or somebody who holds it and listens.
pub(crate) struct Seeker<'a> {
    app: &'a App,
    home: &'a Home,
    purpose: &'a str,
    begin: Instant,
    patience: Duration,
    told: bool,
    pause: Duration,
}

/// What was found.
pub(crate) enum Found {
    Free(HomeLock),
    Held(Client),
}

impl<'a> Seeker<'a> {
    pub(crate) fn new(app: &'a App, home: &'a Home, purpose: &'a str, patience: Duration) -> Self {
        let pause = Duration::from_millis(1);
        Self { app, home, purpose, begin: Instant::now(), patience, told: false, pause }
    }

    /// The home's lock, or its holder. May be asked again when a holder turned out to be closing.
    pub(crate) async fn seek(&mut self) -> Result<Found, Failure> {
        let client = Client::control(self.home.control_socket());
        loop {
            let busy = match self.home.lock(Duration::ZERO, self.purpose).await {
                Ok(lock) => return Ok(Found::Free(lock)),
                Err(busy @ EngineError::HomeBusy { .. }) => busy,
                Err(error) => return Err(error.into()),
            };
            match client.get::<Value>("/healthz", PROBE).await {
                Ok(_) => return Ok(Found::Held(client)),
                // Starting, closing, or held by something that cannot answer: the lock decides.
                Err(_) => self.wait(busy).await?,
            }
        }
    }

    /// Pauses before the next try; `busy` is the error once the patience is over.
    async fn wait(&mut self, busy: EngineError) -> Result<(), Failure> {
        let waited = self.begin.elapsed();
        if waited >= self.patience {
            return Err(busy.into());
        }
        if let (EngineError::HomeBusy { holder, .. }, false) = (&busy, self.told || waited < MOMENT) {
            self.told = true;
            complain(&self.app.fill(texts::WAITING, &[("holder", holder)]));
        }
        tokio::time::sleep(self.pause.min(self.patience.saturating_sub(waited))).await;
        self.pause = (self.pause * 2).min(Duration::from_millis(50));
        Ok(())
    }

    pub(crate) fn left(&self) -> Duration {
        self.patience.saturating_sub(self.begin.elapsed())
    }
}

impl Held {
    /// Starts the engine in this process, and lets others join.
    pub(crate) async fn start(
        app: &App,
        home: &Home,
        loaded: &Loaded,
        lock: HomeLock,
    ) -> Result<Self, Failure> {
        config_file(home).activate(loaded, now_ms())?;
        let store = open(home, &loaded.config, Access::Write).await?;
        let settings = Settings::new(loaded);
        let tenant = settings.scope(None)?.tenant;
        let standings = Arc::new(StoredStandings::new(Arc::clone(&store), tenant.clone()));
        let models = Arc::new(registry(app, home, loaded, standings));
        let toolbox = toolbox(app, home, &settings, Arc::new(sandboxes(app, home, &settings)?))?;
        let options = Options { models, toolbox, ..Options::passing(tenant, settings) };
        let engine = Engine::start(lock, store, Arc::new(SystemClock), options).await?;
        // Without a socket the others wait for the lock: slower, and still right.
        let control = tidegate_gateway::control(engine.clone(), &home.control_socket()).ok();
        Ok(Self { engine, control })
    }

    /// The way to it over the socket that others use, for a command that talks to any holder alike.
    pub(crate) fn client(&self, home: &Home) -> Result<Client, Failure> {
        let path = home.control_socket();
        if self.control.is_none() {
            let message = texts::chat::NO_SOCKET.with(&[("path", &path.display())]);
            return Err(Failure::new(ErrorCode::Unavailable, message));
        }
        Ok(Client::control(path))
    }

    /// Stays where others come to while something works on its own, then stops listening, brings everything accepted to
    /// its end, and lets the home go.
    pub(crate) async fn let_go(self) {
        self.engine.settled().await;
        if let Some(control) = &self.control {
            control.stop_listening();
        }
        self.engine.close(Drain::Everything).await;
        if let Some(control) = self.control {
            let _ = tokio::time::timeout(LAST_WORDS, control.drained()).await;
        }
    }
}

/// Does something where the home is held, and again with the next holder when one turns out to be closing.
pub(crate) async fn reach<T>(
    app: &App,
    home: &Home,
    loaded: &Loaded,
    purpose: &str,
    mut work: impl AsyncFnMut(Reach) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let begin = Instant::now();
    loop {
        match work(Reach::find(app, home, loaded, purpose).await?).await {
            Err(failure) if failure.code == ErrorCode::Closing && begin.elapsed() < app.home_patience() => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other => return other,
        }
    }
}

impl Reach {
    async fn find(app: &App, home: &Home, loaded: &Loaded, purpose: &str) -> Result<Self, Failure> {
        match Seeker::new(app, home, purpose, app.home_patience()).seek().await? {
            Found::Free(lock) => Ok(Self::Own(Box::new(Held::start(app, home, loaded, lock).await?))),
            Found::Held(client) => Ok(Self::Running(client)),
        }
    }

    pub(crate) async fn decide(self, id: OutboxId, decision: Decision) -> Result<Decided, Failure> {
        match self {
            Self::Running(client) => {
                let verb = match decision {
                    Decision::Retry => "retry",
                    Decision::Drop => "drop",
                };
                let decided = client.post(&format!("/api/v1/outbox/{id}/{verb}"), &Value::Null, CALL).await;
                match decided {
                    Ok(SendDecision::Done { parts }) => Ok(Decided::Done { parts }),
                    Ok(SendDecision::Refused { state }) => Ok(Decided::Refused(OutboxState::parse(&state))),
                    Err(ClientError::Server { status: 404, .. }) => Ok(Decided::NotFound),
                    Err(error) => Err(error.into()),
                }
            }
            Self::Own(held) => {
                let owner = Principal::local_owner(held.engine.tenant().clone());
                let decided = match decision {
                    Decision::Retry => held.engine.retry_send(&owner, id).await,
                    Decision::Drop => held.engine.drop_send(&owner, id).await,
                };
                held.let_go().await;
                Ok(decided?)
            }
        }
    }

    /// One tiny call to a model, metered wherever it is made.
    pub(crate) async fn test_model(self, asked: &TestModel) -> Result<ModelTested, Failure> {
        match self {
            Self::Running(client) => Ok(client.post("/api/v1/models/test", asked, TEST).await?),
            Self::Own(held) => {
                let tested = test_here(&held.engine, asked).await;
                held.let_go().await;
                Ok(tested?)
            }
        }
    }

    pub(crate) async fn abort(self, run: RunId) -> Result<AbortOutcome, Failure> {
        match self {
            Self::Running(client) => {
                match client.post::<Value>(&format!("/api/v1/runs/{run}/abort"), &Value::Null, CALL).await {
                    Ok(_) => Ok(AbortOutcome::Aborted),
                    Err(ClientError::Server { status: 404, .. }) => Ok(AbortOutcome::NotFound),
                    Err(error) => Err(error.into()),
                }
            }
            Self::Own(held) => {
                let owner = Principal::local_owner(held.engine.tenant().clone());
                let aborted = held.engine.abort(&owner, run).await;
                held.let_go().await;
                Ok(aborted?)
            }
        }
    }

    pub(crate) async fn delete_session(self, key: &SessionKey) -> Result<Vec<String>, Failure> {
        match self {
            Self::Running(client) => {
                let path = format!("/api/v1/sessions/{}", encoded(&key.to_string()));
                let deleted: Deleted = client.delete(&path, CALL).await?;
                Ok(deleted.removed)
            }
            Self::Own(held) => {
                let owner = Principal::local_owner(held.engine.tenant().clone());
                let deleted = held.engine.delete_session(&owner, key).await;
                held.let_go().await;
                Ok(deleted?)
            }
        }
    }
}

async fn test_here(engine: &Engine, asked: &TestModel) -> Result<ModelTested, EngineError> {
    let settings = engine.settings();
    let scope = settings.scope(asked.agent.as_deref())?;
    let wish = Wish {
        provider: asked.provider.as_deref(),
        model: asked.model.as_deref(),
        profile: asked.profile.as_deref(),
        ..Wish::default()
    };
    let spec = settings.run_spec(&scope, &wish)?;
    engine.probe(&scope, spec).await
}

/// For one step of an address.
fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_key_is_one_step_of_an_address() {
        assert_eq!(super::encoded("tenant:a/b %é"), "tenant%3Aa%2Fb%20%25%C3%A9");
    }
}
