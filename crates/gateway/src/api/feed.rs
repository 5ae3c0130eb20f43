//! A conversation live, as server-sent events: a snapshot, then every change.
//!
//! The feed listens first and reads the snapshot afterwards, so nothing falls between. It makes the next event only when
//! the connection has room for it: a reader that is too slow misses events on the bus and gets a new snapshot.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use futures_util::stream;
use serde::Serialize;
use tidegate_engine::{EngineEvent, Events, Follower, LaneWait, Missed, RunChange};
use tidegate_protocol::api::{Delta, Done, RunChanged, RunWaits};
use tidegate_protocol::{RunEvent, RunEventBody, RunId, RunState, SessionId, SessionKey};
use tokio::time::{Instant, MissedTickBehavior};

use crate::answer::{Answered, Refusal};
use crate::api::snapshot::{self, Commanded, Written};
use crate::gate::Gate;
use crate::names::key_of;

const PING: Duration = Duration::from_secs(15);

pub(crate) async fn events(State(gate): State<Gate>, Path(name): Path<String>) -> Answered {
    let engine = gate.engine();
    let key = key_of(engine.settings(), engine.tenant(), None, &name)?;
    let events = engine.events();
    let mut ping = tokio::time::interval_at(Instant::now() + PING, PING);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut feed = Feed { gate, key, name, events, ping, session: None, tail: None, ready: VecDeque::new() };
    feed.begin().await?;
    let body = Body::from_stream(stream::unfold(feed, Feed::next));
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

struct Feed {
    gate: Gate,
    key: SessionKey,
    name: String,
    events: Events,
    ping: tokio::time::Interval,
    /// The log that was shown.
    session: Option<SessionId>,
    /// The run that is being answered.
    tail: Option<Tail>,
    /// Written and not yet taken by the connection. A few frames: nothing is added while any is left.
    ready: VecDeque<Bytes>,
}

/// Follows one run from where the snapshot left it.
struct Tail {
    run: RunId,
    follower: Follower,
    /// Attempt and number of the last piece of text that was read here.
    read: (u32, u64),
    /// The same for the last one the reader has.
    last: (u32, u64),
}

enum Woken {
    Bus(Option<Result<EngineEvent, Missed>>),
    Run(Option<std::sync::Arc<RunEvent>>),
    Ping,
    Closing,
}

impl Feed {
    /// Puts a fresh snapshot out; everything the reader derived before is void.
    async fn begin(&mut self) -> Result<(), Refusal> {
        // What the bus holds is older than the snapshot that is read now.
        self.events = self.gate.engine().events();
        self.tail = None;
        let standing = snapshot::read(&self.gate, &self.key, &self.name).await?;
        let running = standing.snapshot.runs.iter().find(|run| run.state == RunState::Running);
        if let Some(run) = running {
            let seq = run.partial.as_ref().map_or(0, |partial| partial.seq);
            let last = (if seq == 0 { 0 } else { run.attempt }, seq);
            self.tail = self.follow(run.run_id, last).await;
        }
        self.session = standing.session;
        self.put("snapshot", &standing.snapshot);
        Ok(())
    }

    async fn follow(&self, run: RunId, last: (u32, u64)) -> Option<Tail> {
        let follower = self.gate.engine().follow(run).await.ok()?;
        Some(Tail { run, follower, read: (0, 0), last })
    }

    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        while self.ready.is_empty() {
            let woken = self.wait().await;
            let outcome = match woken {
                Woken::Bus(None) | Woken::Closing => return None,
                Woken::Bus(Some(Err(Missed))) => self.begin().await,
                Woken::Bus(Some(Ok(EngineEvent::Run(change)))) if change.key == self.key => {
                    self.change(change).await
                }
                Woken::Bus(Some(Ok(EngineEvent::Waits(wait)))) if wait.key == self.key => {
                    self.waits(&wait);
                    Ok(())
                }
                Woken::Bus(Some(Ok(_))) => Ok(()),
                Woken::Run(Some(event)) => {
                    self.progress(&event);
                    Ok(())
                }
                Woken::Run(None) => {
                    self.tail = None;
                    Ok(())
                }
                Woken::Ping => {
                    self.put("ping", &serde_json::json!({}));
                    Ok(())
                }
            };
            // The reader connects again and gets whatever there is then.
            outcome.inspect_err(|refusal| tracing::warn!(?refusal, "a feed ends early")).ok()?;
        }
        let frame = self.ready.pop_front()?;
        Some((Ok(frame), self))
    }

    async fn wait(&mut self) -> Woken {
        let Self { gate, events, ping, tail, .. } = self;
        tokio::select! {
            biased;
            () = gate.closing.requested() => Woken::Closing,
            // Before the bus: a run's text comes before its end.
            event = next_of(tail.as_mut()) => Woken::Run(event),
            event = events.next() => Woken::Bus(event),
            _ = ping.tick() => Woken::Ping,
        }
    }

    async fn change(&mut self, change: RunChange) -> Result<(), Refusal> {
        let RunChange { run: run_id, state, text, client_key: key, attempt, at, error, .. } = change;
        if state == RunState::Running && self.tail.as_ref().is_none_or(|tail| tail.run != run_id) {
            self.tail = self.follow(run_id, (0, 0)).await;
        }
        let ended = state.is_terminal();
        let changed = RunChanged { run_id, state, text, key, at, attempt, error };
        if !ended {
            self.put("run", &changed);
            return Ok(());
        }
        let heard = self.tail.take_if(|tail| tail.run == run_id).is_some_and(|tail| tail.last.1 > 0);
        let lines = snapshot::lines_of(&self.gate, run_id).await?;
        if lines.is_none() {
            match snapshot::commanded(&self.gate, run_id).await? {
                Some(Commanded::Reset) => return self.begin().await,
                // It was over before anybody could listen.
                Some(Commanded::Said(text)) if !heard => {
                    self.put("delta", &Delta { run_id, attempt, seq: 1, text });
                }
                Some(Commanded::Said(_)) | None => {}
            }
        }
        if lines.as_ref().is_some_and(|(session, _)| self.session.is_some_and(|shown| shown != *session)) {
            // The conversation began anew: the reader's log is another one.
            return self.begin().await;
        }
        self.put("run", &changed);
        if let Some((session, Written { messages, summaries })) = lines {
            self.session = Some(session);
            self.put("done", &Done { run_id, messages, summaries });
        }
        Ok(())
    }

    fn waits(&mut self, wait: &LaneWait) {
        let ahead = u32::try_from(wait.ahead).unwrap_or(u32::MAX);
        let (run_id, lane, waited_ms) = (wait.run, wait.lane, wait.waited_ms);
        self.put("waits", &RunWaits { run_id, lane, ahead, waited_ms });
    }

    fn progress(&mut self, event: &RunEvent) {
        let Some(tail) = self.tail.as_mut() else { return };
        let Some(text) = words_of(&event.body) else { return };
        let before = if tail.read.0 == event.attempt { tail.read.1 } else { 0 };
        tail.read = (event.attempt, before + 1);
        if tail.read <= tail.last {
            return;
        }
        tail.last = tail.read;
        let delta =
            Delta { run_id: event.run_id, attempt: event.attempt, seq: tail.read.1, text: text.to_owned() };
        self.put("delta", &delta);
    }

    fn put(&mut self, event: &str, data: &impl Serialize) {
        match serde_json::to_string(data) {
            // JSON has no line break outside its strings, and none inside that is not escaped.
            Ok(json) => self.ready.push_back(Bytes::from(format!("event: {event}\ndata: {json}\n\n"))),
            Err(error) => tracing::error!(%error, event, "an event cannot be written"),
        }
    }
}

/// What the page shows of a run under way. The bus tells the rest, with everything that belongs to it.
fn words_of(body: &RunEventBody) -> Option<&str> {
    match body {
        RunEventBody::TextDelta { text } => Some(text),
        RunEventBody::Started
        | RunEventBody::ThinkingDelta { .. }
        | RunEventBody::ToolStarted { .. }
        | RunEventBody::ToolUpdate { .. }
        | RunEventBody::ToolEnded { .. }
        | RunEventBody::ApprovalAsked { .. }
        | RunEventBody::ApprovalSettled { .. }
        | RunEventBody::Steered { .. }
        | RunEventBody::CompactionStarted { .. }
        | RunEventBody::CompactionEnded { .. }
        | RunEventBody::Usage { .. }
        | RunEventBody::ModelSwitched { .. }
        | RunEventBody::OverBudget { .. }
        | RunEventBody::Completed { .. }
        | RunEventBody::Failed { .. } => None,
    }
}

async fn next_of(tail: Option<&mut Tail>) -> Option<std::sync::Arc<RunEvent>> {
    match tail {
        Some(tail) => tail.follower.next().await,
        None => std::future::pending().await,
    }
}
