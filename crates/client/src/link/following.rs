//! A conversation that is followed: what its reader hears, and where the reader stands in it.

use serde_json::Value;
use tidegate_protocol::api::{Delta, Done, Note, RunChanged, RunWaits, Snapshot, SubscribeSession, ToolNews};
use tokio::sync::mpsc;

use super::EVENTS;
use super::count::{Order, Place};
use crate::error::ClientError;

/// What is told of a conversation.
#[derive(Debug)]
pub enum Heard {
    /// How it stands. It replaces what was known; one that is `partial` leaves the lines that were told before.
    Snapshot(Snapshot),
    Run(RunChanged),
    /// More of an answer. It is provisional.
    Delta(Delta),
    Tool(ToolNews),
    Note(Note),
    /// A run of it waits for a place.
    Waits(RunWaits),
    /// Lines of the log.
    Done(Done),
    /// The last: it cannot be followed.
    Refused(ClientError),
}

/// Reads a conversation. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Following {
    receiver: mpsc::Receiver<Heard>,
}

impl Following {
    pub(super) fn new(receiver: mpsc::Receiver<Heard>) -> Self {
        Self { receiver }
    }

    /// The next event; `None` when the link is gone.
    pub async fn next(&mut self) -> Option<Heard> {
        self.receiver.recv().await
    }
}

/// Reads an event by its name. `None` for one that this release does not know.
fn read(event: &str, payload: Value) -> Result<Option<Heard>, serde_json::Error> {
    Ok(Some(match event {
        "session.snapshot" => Heard::Snapshot(serde_json::from_value(payload)?),
        "session.run" => Heard::Run(serde_json::from_value(payload)?),
        "session.delta" => Heard::Delta(serde_json::from_value(payload)?),
        "session.tool" => Heard::Tool(serde_json::from_value(payload)?),
        "session.note" => Heard::Note(serde_json::from_value(payload)?),
        "session.waits" => Heard::Waits(serde_json::from_value(payload)?),
        "session.done" => Heard::Done(serde_json::from_value(payload)?),
        _ => return Ok(None),
    }))
}

/// How a subscription stands on the connection of now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has to be asked for.
    Wanted,
    Asked,
    /// By this name.
    Open(String),
    /// The reader has no room: it is asked for again, after the last line that it has, when there is some.
    Full,
}

/// What the keeper of a link knows of one.
pub(super) struct Followed {
    what: SubscribeSession,
    place: Place,
    pub(super) standing: Standing,
    reader: mpsc::Sender<Heard>,
}

impl Followed {
    pub(super) fn new(what: SubscribeSession, reader: mpsc::Sender<Heard>) -> Self {
        let place = Place::after(what.cursor.clone());
        Self { what, place, standing: Standing::Wanted, reader }
    }

    pub(super) fn is_left(&self) -> bool {
        self.reader.is_closed()
    }

    /// Whether it has to be asked for now.
    pub(super) fn is_wanted(&self) -> bool {
        match self.standing {
            Standing::Wanted => true,
            Standing::Full => self.reader.capacity() == EVENTS,
            Standing::Asked | Standing::Open(_) => false,
        }
    }

    /// What to subscribe to: everything after what the reader has.
    pub(super) fn request(&self) -> SubscribeSession {
        SubscribeSession { cursor: self.place.cursor.clone(), ..self.what.clone() }
    }

    pub(super) fn opened(&mut self, sub: String) {
        self.place.begin();
        self.standing = Standing::Open(sub);
    }

    pub(super) fn refused(&self, error: ClientError) {
        let _ = self.reader.try_send(Heard::Refused(error));
    }

    /// Passes an event on. After a jump in the count it has to be subscribed to anew: `false`.
    pub(super) fn hear(&mut self, event: &str, payload: Value, n: u64) -> bool {
        match self.place.hear(n) {
            Order::Again => return true,
            Order::Gap => {
                self.standing = Standing::Wanted;
                return false;
            }
            Order::Next => {}
        }
        let heard = match read(event, payload) {
            Ok(Some(heard)) => heard,
            Ok(None) => return true,
            Err(error) => {
                tracing::warn!(%error, event, "an event cannot be read");
                return true;
            }
        };
        // The reader has it once it is in its queue: only then the cursor may go on.
        let Ok(room) = self.reader.try_reserve() else {
            self.standing = Standing::Full;
            return false;
        };
        match &heard {
            Heard::Snapshot(snapshot) => self.place.has_snapshot(snapshot),
            Heard::Done(done) => self.place.has_done(done),
            _ => {}
        }
        room.send(heard);
        true
    }
}
