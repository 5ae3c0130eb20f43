//! An answer that is streamed: what is new of it as it comes, and how the stream ends. Both streams of this dialect read
//! their run here, and only write down what they hear.

use axum::body::Bytes;
use tidegate_engine::{Answer, Follower};
use tidegate_protocol::{ErrorBody, RunEventBody};

use super::told::Told;
use crate::presence::Presence;

/// The last frame of every stream.
pub(super) const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");

/// What there is to write.
pub(super) enum Heard {
    More(String),
    /// The run has ended, and that is durable.
    Ended(Result<Ended, ErrorBody>),
}

/// A run that answered.
pub(super) struct Ended {
    /// Its text is what the program has read, with the rest.
    pub(super) answer: Box<Answer>,
    /// What of it was not told yet.
    pub(super) rest: String,
}

pub(super) struct Listening {
    /// `None` once the end was heard.
    follower: Option<Follower>,
    presence: Presence,
    told: Told,
}

impl Listening {
    pub(super) fn new(follower: Follower, presence: Presence) -> Self {
        Self { follower: Some(follower), presence, told: Told::default() }
    }

    /// What comes next; `None` after the end.
    pub(super) async fn next(&mut self) -> Option<Heard> {
        loop {
            let Some(event) = self.follower.as_mut()?.next().await else { break };
            match &event.body {
                RunEventBody::Started => self.told.began(),
                RunEventBody::TextDelta { text } => {
                    if let Some(more) = self.told.heard(event.attempt, text) {
                        return Some(Heard::More(more.to_owned()));
                    }
                }
                _ => {}
            }
        }
        let end = self.follower.take()?.end().await;
        self.presence.over();
        Some(Heard::Ended(end.and_then(|mut answer| {
            let rest = self.told.rest(&answer.text)?.to_owned();
            answer.text = format!("{}{rest}", self.told.text());
            Ok(Ended { answer: Box::new(answer), rest })
        })))
    }
}
