//! Conversations that a client follows. Every subscription has a task of its own, which ends with it or with the client.
//!
//! Events of a subscription are counted. Words may be left out for a slow reader, and then the count jumps; whatever is
//! durable is never left out.

use std::sync::Arc;

use serde::Serialize;
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::{Ack, MissedEvents, SubscribeSession, Subscribed, ToolPhase, Unsubscribe};
use tidegate_runtime::spawn;
use tokio_util::sync::CancellationToken;

use crate::answer::Refusal;
use crate::api::follow::{Follow, Told};
use crate::gate::Gate;
use crate::methods::Caller;
use crate::names::key_of;
use crate::ws::frame::{self, WireError};
use crate::ws::hub::Telling;
use crate::ws::outbox::Weight;
use crate::ws::peer::Peer;
use crate::ws::subscriptions;

pub(crate) async fn subscribe(caller: Caller, params: SubscribeSession) -> Result<Subscribed, WireError> {
    let gate = &caller.gate;
    let engine = gate.engine();
    let key = key_of(engine.settings(), engine.tenant(), params.agent.as_deref(), &params.session)?;
    let follow = Follow::open(gate, key, params.session, params.cursor.as_ref()).await?;
    let Some((number, cancelled)) = caller.peer.subscriptions.open() else {
        let most = subscriptions::MOST;
        let message = format!("a client may follow {most} conversations; unsubscribe from one first");
        return Err(Refusal::new(ErrorCode::TooManyRequests, message).into());
    };
    let sub = name_of(number);
    let watch = Watch { gate: gate.clone(), peer: Arc::clone(&caller.peer), sub: sub.clone(), number, n: 0 };
    let tasks = gate.shared.tasks.clone();
    // Its events come after the answer that names it.
    caller.afterwards(Box::pin(async move {
        spawn("gateway.ws.watch", tasks.track_future(watch.run(follow, cancelled)));
    }));
    Ok(Subscribed { sub })
}

pub(crate) async fn unsubscribe(caller: Caller, params: Unsubscribe) -> Result<Ack, WireError> {
    let number = params.sub.strip_prefix('s').and_then(|number| number.parse().ok());
    if number.is_some_and(|number| caller.peer.subscriptions.close(number)) {
        return Ok(Ack {});
    }
    Err(Refusal::new(ErrorCode::NotFound, format!("there is no subscription {}", params.sub)).into())
}

fn name_of(number: u64) -> String {
    format!("s{number}")
}

struct Watch {
    gate: Gate,
    peer: Arc<Peer>,
    sub: String,
    number: u64,
    /// Of the last event.
    n: u64,
}

impl Watch {
    async fn run(mut self, mut follow: Follow, cancelled: CancellationToken) {
        let mut telling = None;
        loop {
            while let Some(told) = follow.next() {
                self.tell(&told);
            }
            // While a run is being answered, a shutdown waits a moment for its end.
            telling =
                follow.is_answering().then(|| telling.unwrap_or_else(|| Telling::new(&self.gate.shared.hub)));
            let woken = tokio::select! {
                biased;
                () = cancelled.cancelled() => break,
                () = self.gate.closing.requested(), if telling.is_none() => break,
                woken = follow.wait() => woken,
            };
            if !follow.hear(woken).await {
                self.lose();
                break;
            }
        }
        self.peer.subscriptions.close(self.number);
    }

    /// Something could not be read, and the subscription ends. Its count jumps: the client subscribes again and gets whatever
    /// there is then.
    fn lose(&mut self) {
        self.n += 1;
        self.put("missed", &MissedEvents {}, Weight::Kept);
    }

    fn tell(&mut self, told: &Told) {
        let update = |phase| if phase == ToolPhase::Update { Weight::Droppable } else { Weight::Kept };
        match told {
            Told::Snapshot(snapshot) => self.put("session.snapshot", snapshot, Weight::Kept),
            Told::Run(run) => self.put("session.run", run, Weight::Kept),
            Told::Waits(waits) => self.put("session.waits", waits, Weight::Kept),
            Told::Delta(delta) => self.put("session.delta", delta, Weight::Droppable),
            Told::Tool(tool) => self.put("session.tool", tool, update(tool.phase)),
            Told::Note(note) => self.put("session.note", note, Weight::Kept),
            Told::Done(done) => self.put("session.done", done, Weight::Kept),
        }
    }

    fn put(&mut self, event: &str, payload: &impl Serialize, weight: Weight) {
        self.n += 1;
        let frame = frame::subscribed(event, &frame::to_json(payload), &self.sub, self.n);
        self.peer.outbox.put(frame.into(), weight);
    }
}
