//! A link: one connection to a gateway that is kept, whatever becomes of the gateway.
//!
//! Requests are typed and have deadlines. When the connection breaks, or no sign of life comes for two ticks, it is made
//! again with growing pauses; broadcasts that were missed are heard again, and conversations that are followed go on after
//! the last line the reader has. The task that keeps it ends with the last handle: dropping the link hangs up.

mod backoff;
mod count;
mod following;
mod keeper;
mod socket;

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_protocol::api::{CallProblem, Hello, SubscribeSession};
use tidegate_runtime::spawn;
use tokio::sync::{mpsc, oneshot};

use crate::call::within;
use crate::connect::Client;
use crate::error::ClientError;
use socket::Socket;

pub use following::{Following, Heard};

/// Requests that may wait for the connection.
const WAITING: usize = 64;
/// Events that may wait for a reader; who reads slower is told to read again what it knows.
const EVENTS: usize = 1024;

/// What happens to a link, and what everybody hears on it.
#[derive(Debug)]
pub enum LinkEvent {
    /// It is connected (again).
    Up(Box<Hello>),
    /// It is not; it will be tried again.
    Down(ClientError),
    /// A broadcast, each once and in order.
    News { event: String, payload: Value },
    /// Broadcasts were missed that cannot be heard again: what is known must be read again.
    Stale,
    /// It is over: the gateway does not let this client in.
    Ended(ClientError),
}

/// A request on its way to the task that has the connection.
struct Request {
    method: String,
    params: Value,
    answer: oneshot::Sender<Result<Value, ClientError>>,
}

enum Command {
    Call(Request),
    Follow(Box<SubscribeSession>, mpsc::Sender<Heard>),
}

/// A handle; clones are the same link.
#[derive(Clone)]
pub struct Link {
    client: Client,
    commands: mpsc::Sender<Command>,
}

impl Client {
    /// Connects, and keeps the connection as long as the link is held. Broadcasts come out of the receiver; who does not
    /// want them drops it.
    pub async fn link(&self, patience: Duration) -> Result<(Link, mpsc::Receiver<LinkEvent>), ClientError> {
        let (socket, hello) = Socket::open(self, patience.min(socket::CONNECT)).await?;
        let (commands, asked) = mpsc::channel(WAITING);
        let (news, heard) = mpsc::channel(EVENTS);
        spawn("client.link", keeper::keep(self.clone(), socket, hello, asked, news));
        Ok((Link { client: self.clone(), commands }, heard))
    }
}

impl Link {
    /// Calls a method. While the link is down the call waits, until its patience ends. `Closing` means that nobody can tell
    /// whether it was heard: what carries a key may be sent again.
    pub async fn call<P: Serialize, R: DeserializeOwned>(
        &self,
        method: &str,
        params: &P,
        patience: Duration,
    ) -> Result<R, ClientError> {
        let params = serde_json::to_value(params).map_err(|error| self.client.protocol(error.to_string()))?;
        let gone = || ClientError::Closing { at: self.client.at() };
        let called = async {
            let (answer, answered) = oneshot::channel();
            let request = Request { method: method.to_owned(), params, answer };
            self.commands.send(Command::Call(request)).await.map_err(|_| gone())?;
            answered.await.map_err(|_| gone())?
        };
        let payload = within(patience, called).await?;
        serde_json::from_value(payload).map_err(|error| self.client.protocol(error.to_string()))
    }

    /// Follows a conversation until what this returns is dropped.
    pub async fn follow(&self, what: SubscribeSession) -> Result<Following, ClientError> {
        let (sender, receiver) = mpsc::channel(EVENTS);
        let gone = |_| ClientError::Closing { at: self.client.at() };
        self.commands.send(Command::Follow(Box::new(what), sender)).await.map_err(gone)?;
        Ok(Following::new(receiver))
    }
}

fn refusal(problem: Option<CallProblem>, client: &Client) -> ClientError {
    match problem {
        Some(problem) => ClientError::Refused { problem: Box::new(problem) },
        None => client.protocol("a refusal without an error".to_owned()),
    }
}
