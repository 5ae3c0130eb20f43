//! What the engine tells, told to everybody who is connected. It works while there is anybody.
//!
//! One task listens to the bus; each run under way has a task that follows it and hands its events to the dialect. When
//! the last client leaves, all of them end; the next first client begins anew with whatever is under way then.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tidegate_engine::EngineEvent;
use tidegate_protocol::{RunId, RunState};
use tidegate_runtime::spawn;
use tidegate_storage::RunFilter;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::hello::TICK_MS;
use super::hub::Telling;
use super::outbox::Weight;
use super::peer::{Audience, Present};
use crate::dialect::native::{self, news};
use crate::dialect::openclaw::{approvals, story::Story};
use crate::gate::Gate;
use crate::openai::is_one_off;

/// Runs under way that are looked for.
const RUNS: u32 = 1000;
/// Runs that ended and are remembered.
const REMEMBERED: usize = 256;
/// How often the state of the house is told.
const HEALTH: Duration = Duration::from_mins(1);
/// How often it is told who is there, when that changed: many may go at once.
const PRESENCE: Duration = Duration::from_secs(1);

pub(crate) fn start(gate: &Gate, watching: watch::Receiver<u64>) {
    let pump = Pump {
        gate: gate.clone(),
        watching,
        events: gate.engine().events(),
        followed: HashSet::new(),
        ended: VecDeque::new(),
    };
    spawn("gateway.ws.pump", gate.shared.tasks.track_future(pump.run()));
}

struct Pump {
    gate: Gate,
    watching: watch::Receiver<u64>,
    events: tidegate_engine::Events,
    followed: HashSet<RunId>,
    /// Those among them that ended last.
    ended: VecDeque<RunId>,
}

impl Pump {
    async fn run(mut self) {
        self.follow_all().await;
        let every = |period: Duration| {
            let mut interval = interval_at(Instant::now() + period, period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        };
        let (mut tick, mut health) = (every(Duration::from_millis(TICK_MS)), every(HEALTH));
        let (mut presence, mut native_tick) = (every(PRESENCE), every(native::TICK));
        let mut presence_told = Instant::now();
        loop {
            tokio::select! {
                biased;
                // First: who has nobody left to tell must not tell what the next one tells too.
                _ = self.watching.changed() => return,
                () = self.gate.shared.cut.requested() => return,
                event = self.events.next() => match event {
                    None => return,
                    Some(Err(_missed)) => {
                        news::missed(&self.gate);
                        self.follow_all().await;
                    }
                    Some(Ok(event)) => {
                        news::tell(&self.gate, &event);
                        self.hear(event);
                    }
                },
                _ = tick.tick() => {
                    let payload = json!({ "ts": self.gate.shared.now() });
                    self.gate.shared.hub.broadcast("tick", &payload, Audience::Everybody, Weight::Droppable);
                }
                _ = native_tick.tick() => news::tick(&self.gate),
                _ = health.tick() => {
                    news::health(&self.gate);
                    tell_health(&self.gate).await;
                }
                _ = presence.tick() => {
                    let clients = self.gate.shared.hub.count();
                    if presence_told.elapsed() >= presence_pause(clients) && tell_presence(&self.gate) {
                        presence_told = Instant::now();
                    }
                }
            }
        }
    }

    /// Follows what is under way. What began before is told from its beginning.
    async fn follow_all(&mut self) {
        let engine = self.gate.engine();
        let filter = RunFilter { state: Some(RunState::Running), limit: RUNS, ..RunFilter::default() };
        let rows = match engine.library().runs(engine.tenant(), filter).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%error, "runs under way cannot be looked for");
                return;
            }
        };
        let under_way: HashSet<RunId> = rows.iter().map(|row| row.id).collect();
        self.followed.retain(|run| under_way.contains(run) || self.ended.contains(run));
        for row in rows {
            let text = row.input.text();
            self.follow(Story::new(row.id, row.key, row.client_key, text, row.created_at));
        }
    }

    fn hear(&mut self, event: EngineEvent) {
        match event {
            EngineEvent::Run(change) => {
                let ended = change.state.is_terminal();
                let story = Story::new(change.run, change.key, change.client_key, change.text, change.at);
                // A run may end so fast that it is never seen under way.
                if change.state == RunState::Running || ended {
                    self.follow(story);
                }
                if ended {
                    self.over(change.run);
                }
            }
            EngineEvent::Approval(approval) => approvals::tell(&self.gate, &approval),
            EngineEvent::Channel(_) | EngineEvent::Service(_) => self.gate.shared.hub.health_changed(),
            EngineEvent::Waits(_) => {}
        }
    }

    /// The end of a run may be told more than once; it is remembered for a while, so that nobody hears its story again.
    fn over(&mut self, run: RunId) {
        if self.ended.contains(&run) {
            return;
        }
        self.ended.push_back(run);
        if self.ended.len() > REMEMBERED
            && let Some(oldest) = self.ended.pop_front()
        {
            self.followed.remove(&oldest);
        }
    }

    fn follow(&mut self, story: Story) {
        // Nobody watches a conversation that lives for one request; its caller has its own stream.
        if is_one_off(&story.key) || !self.followed.insert(story.run) {
            return;
        }
        let (gate, mut watching) = (self.gate.clone(), self.watching.clone());
        let telling = Telling::new(&gate.shared.hub);
        let told = async move {
            let _telling = telling;
            tokio::select! {
                biased;
                _ = watching.changed() => {}
                () = gate.shared.cut.requested() => {}
                () = story.tell(&gate) => {}
            }
        };
        spawn("gateway.ws.run", self.gate.shared.tasks.track_future(told));
    }
}

/// Says how the house stands.
pub(crate) async fn tell_health(gate: &Gate) {
    gate.shared.hub.health_changed();
    if let Ok(health) = gate.shared.hub.standing.read(gate).await {
        gate.shared.hub.broadcast("health", &*health, Audience::Everybody, Weight::Kept);
    }
}

/// How long after it was told who is there it is told again at the earliest. Everybody is told about everybody, so a
/// crowd that comes or goes would otherwise be told of itself with all its might.
fn presence_pause(clients: usize) -> Duration {
    let each = Duration::from_millis(5);
    PRESENCE.max(each.saturating_mul(u32::try_from(clients).unwrap_or(u32::MAX)))
}

/// Says who is there, if that changed since it was last said.
fn tell_presence(gate: &Gate) -> bool {
    let hub = &gate.shared.hub;
    let changed = hub.presence_to_tell.swap(false, Ordering::AcqRel);
    if changed {
        let now = gate.shared.now();
        let presence = hub.presence(own_presence(gate, now), now);
        hub.broadcast("presence", &json!({ "presence": presence }), Audience::Everybody, Weight::Droppable);
    }
    changed
}

/// The gateway's own entry among those who are there.
pub(crate) fn own_presence(gate: &Gate, now: i64) -> Present {
    let mut own = Present::gateway(now);
    own.text = Some("Gateway");
    own.online_since = Some(gate.shared.started_at);
    own.roles = Some(vec!["gateway"]);
    own.instance_id = Some(gate.shared.hub.boot.clone());
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_told_of_itself_more_rarely() {
        assert_eq!(presence_pause(1), PRESENCE);
        assert_eq!(presence_pause(10_000), Duration::from_secs(50));
    }
}
