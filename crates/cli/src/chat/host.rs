//! Where the conversation is held: in the process that holds the home, which is this one when no other does. Either way it
//! is talked to over the control socket.

use std::time::Duration;

use tidegate_client::{Client, ClientError};
use tidegate_config::Loaded;
use tidegate_engine::Home;
use tidegate_protocol::api::{AnswerApproval, ApprovalAnswered, Ask, AskEvent, StopRuns, StoppedRuns};
use tidegate_protocol::{ApprovalId, ErrorBody, ErrorCode, RunId};
use tidegate_runtime::catalogue::{Language, Text};
use tidegate_runtime::{Shutdown, spawn};
use tokio::sync::mpsc;

use super::app::TurnId;
use super::elsewhere::{Elsewhere, Watch};
use crate::app::App;
use crate::failure::Failure;
use crate::reach::{Found, Held, Seeker};
use crate::texts::chat as words;

/// How often a message that nobody took is sent again.
pub(super) const TRIES: usize = 3;
/// How long a call that changes one thing may take.
const CALL: Duration = Duration::from_secs(30);
/// How long a message may take to become durable.
const ACCEPT: Duration = Duration::from_mins(1);
/// Longer than any run: it may wait for a person.
const RUN: Duration = Duration::from_hours(48);

/// What comes back of what was sent.
pub(super) enum Back {
    Told(TurnId, AskEvent),
    /// The answer ended without a last line.
    Broken(TurnId, ErrorBody),
    /// Nobody took the message; another holder may.
    NotTaken(TurnId, Box<Ask>),
    Decided(ApprovalId, Result<ApprovalAnswered, ErrorBody>),
    /// What ended in the conversation, from wherever it came, and how many subagents work for it.
    Elsewhere {
        ended: Vec<Elsewhere>,
        at_work: usize,
    },
    /// How many subagents were ended.
    Stopped(Result<usize, ErrorBody>),
}

pub(super) struct Host<'a> {
    app: &'a App,
    home: &'a Home,
    loaded: &'a Loaded,
    /// The engine, when it is in this process.
    held: Option<Held>,
    client: Client,
    back: mpsc::Sender<Back>,
    /// Asked for when the terminal closes: everything that is read hangs up.
    closing: Shutdown,
}

impl<'a> Host<'a> {
    pub(super) async fn find(
        app: &'a App,
        home: &'a Home,
        loaded: &'a Loaded,
        back: mpsc::Sender<Back>,
    ) -> Result<Self, Failure> {
        let client = Client::control(home.control_socket());
        let mut host = Self { app, home, loaded, held: None, client, back, closing: Shutdown::new() };
        host.seek().await?;
        Ok(host)
    }

    /// Finds who holds the home now; starts the engine here when nobody does.
    pub(super) async fn seek(&mut self) -> Result<(), Failure> {
        if self.held.is_some() {
            return Ok(());
        }
        match Seeker::new(self.app, self.home, "chat", self.app.home_patience()).seek().await? {
            Found::Free(lock) => {
                let held = Held::start(self.app, self.home, self.loaded, lock).await?;
                self.client = held.client(self.home)?;
                self.held = Some(held);
            }
            Found::Held(client) => self.client = client,
        }
        Ok(())
    }

    pub(super) fn say(&self, text: Text) -> &'static str {
        self.app.say(text)
    }

    pub(super) fn language(&self) -> Language {
        self.app.language()
    }

    /// What is told of a message that nobody took.
    pub(super) fn gone(&self) -> ErrorBody {
        ErrorBody::new(ErrorCode::Closing, self.app.say(words::NOBODY_TOOK_IT))
    }

    /// Sends a message; what is told about it comes back.
    pub(super) fn ask(&self, turn: TurnId, ask: Ask) {
        let (client, back, closing) = (self.client.clone(), self.back.clone(), self.closing.clone());
        spawn("chat.turn", async move {
            tokio::select! {
                () = follow(&client, turn, ask, &back) => {}
                // Hanging up ends the run.
                () = closing.requested() => {}
            }
        });
    }

    /// Has the conversation watched; what happens in it comes back.
    pub(super) fn watch(&self, watch: Watch) {
        let (back, closing) = (self.back.clone(), self.closing.clone());
        spawn("chat.watch", async move {
            tokio::select! {
                () = watch.report(&back) => {}
                () = closing.requested() => {}
            }
        });
    }

    pub(super) fn abort(&self, run: RunId) {
        let client = self.client.clone();
        spawn("chat.abort", async move { abort(&client, run).await });
    }

    /// Ends whatever works for this conversation, and then these runs: what waits behind them is not under way before. How
    /// many subagents there were comes back.
    pub(super) fn stop_helpers(&self, key: String, runs: Vec<RunId>) {
        let (client, back) = (self.client.clone(), self.back.clone());
        spawn("chat.stop", async move {
            let asked = StopRuns { session: Some(key.clone()), agent: None, all: false };
            let stopped = client.post::<StoppedRuns>("/api/v1/runs/stop", &asked, CALL).await;
            for run in runs {
                abort(&client, run).await;
            }
            // The turn under way tells its own end.
            let helpers = |stopped: StoppedRuns| stopped.runs.iter().filter(|run| run.session != key).count();
            let _ = back.send(Back::Stopped(stopped.map(helpers).map_err(|error| error.body()))).await;
        });
    }

    pub(super) fn answer(&self, approval: ApprovalId, answer: AnswerApproval) {
        let (client, back) = (self.client.clone(), self.back.clone());
        spawn("chat.answer", async move {
            let path = format!("/api/v1/approvals/{approval}");
            let decided = client.post(&path, &answer, CALL).await;
            let _ = back.send(Back::Decided(approval, decided.map_err(|error| error.body()))).await;
        });
    }

    /// Ends what this terminal began, and lets the home go if it is held here.
    pub(super) async fn let_go(self) {
        self.closing.request();
        // Tasks see it the next time they are looked at: those who listen must hear the hanging up first.
        tokio::task::yield_now().await;
        if let Some(held) = self.held {
            held.let_go().await;
        }
    }
}

/// The run tells its own end; one that has ended is none to abort.
async fn abort(client: &Client, run: RunId) {
    let path = format!("/api/v1/runs/{run}/abort");
    let aborted = client.post::<serde_json::Value>(&path, &serde_json::Value::Null, CALL).await;
    if let Err(error) = aborted {
        tracing::debug!(%error, %run, "nothing to abort");
    }
}

async fn follow(client: &Client, turn: TurnId, ask: Ask, back: &mpsc::Sender<Back>) {
    let mut stream = match client.ask(&ask, ACCEPT).await {
        Ok((accepted, stream)) => {
            let _ = back.send(Back::Told(turn, accepted)).await;
            stream
        }
        Err(ClientError::Nobody { .. } | ClientError::Closing { .. }) => {
            let _ = back.send(Back::NotTaken(turn, Box::new(ask))).await;
            return;
        }
        Err(error) => {
            let _ = back.send(Back::Broken(turn, error.body())).await;
            return;
        }
    };
    loop {
        let event = match stream.next(RUN).await {
            Ok(Some(event)) => Back::Told(turn, event),
            Ok(None) => return,
            Err(error) => {
                let _ = back.send(Back::Broken(turn, error.body())).await;
                return;
            }
        };
        if back.send(event).await.is_err() {
            return;
        }
    }
}
