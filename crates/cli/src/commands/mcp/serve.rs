//! `mcp serve`: our tools and conversations on standard input and output. Whoever holds the home answers; a home that is
//! free is held for as long as somebody listens.

use std::collections::HashMap;
use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_client::{Client, ClientError};
use tidegate_runtime::{Shutdown, Task, spawn, spawn_blocking, spawn_thread};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::Outcome;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::commands::block_on;
use crate::failure::Failure;
use crate::reach::{Found, Held, Seeker};

/// A call may wait for a person, who is given this long at most.
const PATIENCE: Duration = Duration::from_hours(2);
/// For what is done at once or not at all.
const SOON: Duration = Duration::from_secs(5);
/// Messages under way at once; more are not read meanwhile.
const MOST: usize = 64;

pub(in crate::commands) fn serve(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    block_on(async {
        let mut seeker = Seeker::new(app, &home, "mcp", app.home_patience());
        let (client, held) = match seeker.seek().await? {
            Found::Held(client) => (client, None),
            Found::Free(lock) => {
                let held = Held::start(app, &home, &loaded, lock).await?;
                (held.client(&home)?, Some(held))
            }
        };
        let end = Shutdown::new();
        let joined = tokio::select! {
            joined = join(client) => joined,
            _ = end.on_signal() => Ok(()),
        };
        if let Some(held) = held {
            held.let_go().await;
        }
        joined
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Calls under way by their ids, so that they can be ended.
type UnderWay = Arc<Mutex<HashMap<String, CancellationToken>>>;

/// Passes messages on until the input ends.
async fn join(client: Client) -> Result<(), Failure> {
    let mut lines = input()?;
    let (out, mut answers) = mpsc::channel::<Value>(MOST);
    let writer = spawn_blocking("mcp answers", move || {
        let mut stdout = std::io::stdout().lock();
        while let Some(answer) = answers.blocking_recv() {
            if writeln!(stdout, "{answer}").and_then(|()| stdout.flush()).is_err() {
                return;
            }
        }
    });
    let under_way = UnderWay::default();
    let session = Arc::new(Session::default());
    let turns = Arc::new(tokio::sync::Semaphore::new(MOST));
    let mut tasks: Vec<Task<()>> = Vec::new();
    while let Some(line) = lines.recv().await {
        if line.trim().is_empty() {
            continue;
        }
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            let _ = out.send(error(&Value::Null, -32700, "this line is no JSON")).await;
            continue;
        };
        if let Some(id) = cancelled(&message) {
            if let Some(call) = under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&id) {
                call.cancel();
            }
            // Hanging up ends nothing in a session, which may be joined again: there it has to be said.
            if session.id().is_none() {
                continue;
            }
        }
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { break };
        let (client, out, under_way) = (client.clone(), out.clone(), Arc::clone(&under_way));
        let session = Arc::clone(&session);
        let call = CancellationToken::new();
        let id = message.get("id").map(Value::to_string);
        if let Some(id) = &id {
            under_way.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), call.clone());
        }
        tasks.push(spawn("mcp message", async move {
            // Hanging up ends the call.
            let passed = tokio::select! {
                passed = pass(&client, &message, &session, &out) => Some(passed),
                () = call.cancelled() => None,
            };
            if let Some(id) = id {
                under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            }
            if let (Some(Err(failure)), Some(id)) = (passed, message.get("id")) {
                let _ = out.send(error(id, -32603, &failure.body().message)).await;
            }
            drop(turn);
        }));
    }
    for task in tasks {
        let _ = task.join().await;
    }
    drop(out);
    let known = session.known().take();
    if let Some(Greeted { id, news, .. }) = known {
        news.cancel();
        let _ = client.mcp_end(&id, SOON).await;
    }
    let _ = writer.join().await;
    Ok(())
}

/// The session of the older era, once the client has greeted.
#[derive(Default)]
struct Session {
    known: Mutex<Option<Greeted>>,
    /// Held while another is begun in the place of one that ended.
    renewing: tokio::sync::Mutex<()>,
}

impl Session {
    fn known(&self) -> MutexGuard<'_, Option<Greeted>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self) -> Option<String> {
        self.known().as_ref().map(|known| known.id.clone())
    }
}

struct Greeted {
    id: String,
    /// How the client greeted.
    hello: Value,
    /// Ends the reading of what comes without being asked for.
    news: CancellationToken,
}

/// Passes a message on, and whatever comes back for it.
async fn pass(
    client: &Client,
    message: &Value,
    session: &Session,
    out: &mpsc::Sender<Value>,
) -> Result<(), ClientError> {
    let id = session.id();
    let mut answers = match (client.mcp(message, id.as_deref(), PATIENCE).await, &id) {
        (Err(ClientError::SessionEnded { .. }), Some(ended)) => {
            let id = begin_again(client, ended, session, out).await?;
            client.mcp(message, id.as_deref(), PATIENCE).await?
        }
        (answers, _) => answers?,
    };
    let begun = answers.session().filter(|_| id.is_none()).map(str::to_owned);
    while let Some(answer) = answers.next().await? {
        // Known before the client is told: its next message may follow at once.
        if let Some(id) = begun.clone()
            && session.id().is_none()
        {
            greeted(client, id, message.clone(), session, out);
        }
        let _ = out.send(answer).await;
    }
    Ok(())
}

/// Another session in the place of one that ended with the gateway it was begun at. The client greeted once and will not
/// do it again, so its greeting is repeated.
async fn begin_again(
    client: &Client,
    ended: &str,
    session: &Session,
    out: &mpsc::Sender<Value>,
) -> Result<Option<String>, ClientError> {
    let _turn = session.renewing.lock().await;
    let hello = {
        let mut known = session.known();
        match known.take_if(|known| known.id == ended) {
            Some(Greeted { hello, news, .. }) => {
                news.cancel();
                hello
            }
            // Somebody else was faster.
            None => return Ok(known.as_ref().map(|known| known.id.clone())),
        }
    };
    let mut answers = client.mcp(&hello, None, SOON).await?;
    let begun = answers.session().map(str::to_owned);
    while answers.next().await?.is_some() {}
    if let Some(id) = &begun {
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        client.mcp(&ready, Some(id), SOON).await?;
        greeted(client, id.clone(), hello, session, out);
    }
    Ok(begun)
}

/// Remembers the session, and reads what comes in it without being asked for.
fn greeted(client: &Client, id: String, hello: Value, session: &Session, out: &mpsc::Sender<Value>) {
    let news = CancellationToken::new();
    let (client, end, from) = (client.clone(), news.clone(), id.clone());
    // Whoever is gone needs no news.
    let out = out.downgrade();
    drop(spawn("mcp news", async move {
        let reading = async {
            let Ok(mut stream) = client.mcp_news(&from, SOON).await else { return };
            while let (Ok(Some(message)), Some(out)) = (stream.next().await, out.upgrade()) {
                let _ = out.send(message).await;
            }
        };
        tokio::select! {
            () = reading => {}
            () = end.cancelled() => {}
        }
    }));
    *session.known() = Some(Greeted { id, hello, news });
}

/// What comes in, line by line, until it ends. It is read on a thread of its own, which nobody waits for.
fn input() -> Result<mpsc::Receiver<String>, Failure> {
    let (to, lines) = mpsc::channel(1);
    spawn_thread("mcp input", move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if to.blocking_send(line).is_err() {
                return;
            }
        }
    })?;
    Ok(lines)
}

/// The id of the call that a message ends.
fn cancelled(message: &Value) -> Option<String> {
    (message["method"] == "notifications/cancelled").then(|| message["params"]["requestId"].to_string())
}

fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}
