//! Every model vendor's cloud, played over real HTTP on the loopback: Anthropic, OpenAI (chat completions, responses,
//! Codex, embeddings), Google, Ollama, Bedrock, and the sign-in of GitHub and of OAuth.
//!
//! A test says in [`Turn`]s what happens, without a vendor's words; the server renders a turn in whichever format it was
//! asked in, and keeps every request whole. Without a turn it echoes. The official SDKs read it (`scripts/sdk`), so what
//! passes here is what the vendors' own clients take for an answer. It owns no policy: any key is good unless a turn
//! refuses.

mod account;
mod body;
mod embed;
mod eventstream;
mod format;
mod obey;
mod play;
mod program;
mod record;
mod route;
mod script;
mod serve;
#[cfg(test)]
mod tests;
mod turn;

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use tidegate_runtime::{Shutdown, Task};
use tokio::net::TcpListener;

pub use format::Format;
pub use program::Program;
pub use record::Recorded;
pub use turn::{Kind, Refusal, Step, Stop, Tokens, Turn};

use serve::{State, lock, serve};

/// A running server. Dropping it closes its port and every connection where it is.
pub struct ModelServer {
    state: Arc<State>,
    shutdown: Shutdown,
    serving: Option<Task<()>>,
}

impl ModelServer {
    /// Starts on a free port of the loopback.
    pub async fn start() -> Self {
        Self::start_on(0).await.expect("a free port of the loopback")
    }

    /// Starts on that port of the loopback; 0 is any free one.
    pub async fn start_on(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let base_url = format!("http://{}", listener.local_addr()?);
        let (state, shutdown) = (Arc::new(State::new(base_url)), Shutdown::new());
        let serving =
            tidegate_runtime::spawn("model server", serve(listener, state.clone(), shutdown.clone()));
        Ok(Self { state, shutdown, serving: Some(serving) })
    }

    /// `http://127.0.0.1:<port>`, without a slash at its end.
    pub fn base_url(&self) -> &str {
        &self.state.base_url
    }

    /// The next request for an answer gets this turn, whichever model it asks.
    pub fn push(&self, turn: Turn) -> &Self {
        lock(&self.state.script).push(None, turn);
        self
    }

    /// The next request for this model gets this turn, or the next one at this path (`/oauth/token`). Embeddings, lists
    /// of models and sign-ins take their turns only so.
    pub fn push_for(&self, target: &str, turn: Turn) -> &Self {
        lock(&self.state.script).push(Some(target), turn);
        self
    }

    /// Every request for an answer that finds nothing in a queue gets this turn.
    pub fn always(&self, turn: Turn) -> &Self {
        lock(&self.state.script).always(None, turn);
        self
    }

    /// The same for one model or one path.
    pub fn always_for(&self, target: &str, turn: Turn) -> &Self {
        lock(&self.state.script).always(Some(target), turn);
        self
    }

    /// Every request for an answer that finds no turn is obeyed: lines `CALL <tool> <JSON>` of whoever spoke last become
    /// calls, lines `SAY <text>` the answer, and `$SEEN` in them the first word with this mark in all that was shown.
    pub fn obey(&self, mark: &str) -> &Self {
        *lock(&self.state.obeys) = Some(mark.to_owned());
        self
    }

    /// Turns of a script file: a JSON list of `{"for": <model or path>, "always": true, "turn": [<steps>]}`.
    pub fn read_script(&self, text: &str) -> serde_json::Result<()> {
        lock(&self.state.script).add(serde_json::from_str(text)?);
        Ok(())
    }

    /// Turns in queues that nobody has asked for.
    pub fn turns_left(&self) -> usize {
        lock(&self.state.script).left()
    }

    /// What the lists of models contain.
    pub fn set_models(&self, ids: &[&str]) {
        *lock(&self.state.models) = ids.iter().map(|id| (*id).to_owned()).collect();
    }

    /// How often GitHub says that the person has not confirmed yet.
    pub fn set_pending_polls(&self, polls: usize) {
        lock(&self.state.accounts).pending = polls;
    }

    /// Writes each request to a file as well, a JSON line each.
    pub fn record_to(&self, path: &Path) -> io::Result<()> {
        self.state.log.write_to(File::create(path)?);
        Ok(())
    }

    pub fn requests(&self) -> Vec<Recorded> {
        self.state.log.requests()
    }

    /// Panics when nobody has asked anything.
    pub fn last_request(&self) -> Recorded {
        self.state.log.last().expect("there was a request")
    }

    /// The first request that this has not given out yet; waits for it.
    pub async fn next_request(&self) -> Recorded {
        self.state.log.next().await
    }

    /// Requests whose client went away before the end of the answer.
    pub fn dropped(&self) -> usize {
        self.state.log.dropped()
    }

    /// Waits until so many clients went away.
    pub async fn until_dropped(&self, count: usize) {
        self.state.log.until_dropped(count).await;
    }

    /// Requests that are being answered.
    pub fn active(&self) -> usize {
        self.state.log.active()
    }

    /// The most that were answered at once.
    pub fn peak(&self) -> usize {
        self.state.log.peak()
    }

    /// Stops, and returns when the port is free.
    pub async fn stop(mut self) {
        self.shutdown.request();
        if let Some(serving) = self.serving.take() {
            let _ = serving.join().await;
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shutdown.request();
    }
}
