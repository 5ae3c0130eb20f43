//! A conversation live, as server-sent events: a snapshot, then every change.
//!
//! It asks for the next event only when the connection has room for it. Tools and notes are told on our socket only.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use futures_util::stream;
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior};

use crate::answer::Answered;
use crate::api::follow::{Follow, Told};
use crate::gate::Gate;
use crate::names::key_of;

const PING: Duration = Duration::from_secs(15);

pub(crate) async fn events(State(gate): State<Gate>, Path(name): Path<String>) -> Answered {
    let engine = gate.engine();
    let key = key_of(engine.settings(), engine.tenant(), None, &name)?;
    let mut ping = tokio::time::interval_at(Instant::now() + PING, PING);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let follow = Follow::open(&gate, key, name, None).await?;
    let body = Body::from_stream(stream::unfold(Feed { gate, follow, ping }, Feed::next));
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

struct Feed {
    gate: Gate,
    follow: Follow,
    ping: tokio::time::Interval,
}

impl Feed {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        loop {
            if let Some(told) = self.follow.next() {
                if let Some(frame) = written(&told) {
                    return Some((Ok(frame), self));
                }
                continue;
            }
            let woken = tokio::select! {
                biased;
                () = self.gate.closing.requested() => return None,
                woken = self.follow.wait() => woken,
                _ = self.ping.tick() => return Some((Ok(event("ping", &serde_json::json!({}))?), self)),
            };
            if !self.follow.hear(woken).await {
                return None;
            }
        }
    }
}

fn written(told: &Told) -> Option<Bytes> {
    match told {
        Told::Snapshot(snapshot) => event("snapshot", snapshot),
        Told::Run(run) => event("run", run),
        Told::Delta(delta) => event("delta", delta),
        Told::Done(done) => event("done", done),
        Told::Tool(_) | Told::Note(_) => None,
    }
}

fn event(name: &str, data: &impl Serialize) -> Option<Bytes> {
    // JSON has no line break outside its strings, and none inside that is not escaped.
    let json = serde_json::to_string(data);
    let json = json.inspect_err(|error| tracing::error!(%error, name, "an event cannot be written")).ok()?;
    Some(Bytes::from(format!("event: {name}\ndata: {json}\n\n")))
}
