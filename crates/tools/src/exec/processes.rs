//! All programs that tools started: those that run, and for a while those that ran in the background.
//!
//! One registry an engine. Whoever looks something up says whose it is; what belongs to another agent or session is not
//! there for them. Nothing in it outlives it: closing or dropping it kills everything.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_policy::{PermittedPlan, Runner, Start};
use tidegate_runtime::Clock;
use tokio::sync::{Notify, watch};

use super::collect::{Collector, OUTPUT_CAP};
use super::names;
use super::started::{Ended, Owner, Started, watch_to_its_end};
use crate::tool::ToolFailure;

/// How much a registry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Programs of one session that run at the same time.
    pub running: usize,
    /// Programs of everybody that run at the same time.
    pub running_in_all: usize,
    /// Programs of one session that ended and can still be read.
    pub finished: usize,
    /// For how long they can.
    pub keep_finished: Duration,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self { running: 16, running_in_all: 64, finished: 16, keep_finished: Duration::from_mins(30) }
    }
}

pub struct Processes {
    limits: ProcessLimits,
    clock: Arc<dyn Clock>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    by_name: BTreeMap<String, Arc<Started>>,
    /// How many were started, for names.
    count: u64,
    closed: bool,
}

/// What is started, besides the plan.
pub(crate) struct Order {
    pub(crate) owner: Owner,
    pub(crate) command: String,
    pub(crate) start: Start,
    pub(crate) timeout: Duration,
}

impl Processes {
    pub fn new(limits: ProcessLimits, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { limits, clock, held: Mutex::default() })
    }

    /// The map stays whole whatever panics beside it.
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a permitted plan and watches it. It dies with whoever holds the answer, until it is put in the background.
    pub(crate) async fn start(
        self: &Arc<Self>,
        runner: &Arc<dyn Runner>,
        plan: PermittedPlan<'_>,
        order: Order,
    ) -> Result<Foreground, ToolFailure> {
        self.room_for(&self.lock(), &order.owner)?;
        let output = Arc::new(Collector::new(OUTPUT_CAP));
        let cwd = plan.plan().cwd().to_owned();
        let running = runner.start(plan, order.start, output.clone()).await;
        let running = running.map_err(|error| ToolFailure::execution(error.to_string()))?;

        let began_at = self.clock.now_ms();
        let started = {
            let mut held = self.lock();
            // Others may have taken the room while this one started; what was started dies as it is dropped.
            self.room_for(&held, &order.owner)?;
            held.count += 1;
            let seed = held.count.wrapping_add(began_at.unsigned_abs() << 16);
            let started = Arc::new(Started {
                name: names::name(seed, |name| held.by_name.contains_key(name)),
                owner: order.owner,
                command: order.command,
                cwd,
                pty: order.start.pty.is_some(),
                input: order.start.input,
                began_at,
                since: Instant::now(),
                output,
                running,
                killed: Notify::new(),
                in_background: AtomicBool::new(false),
                ended: watch::Sender::new(None),
                watcher: Mutex::new(None),
            });
            held.by_name.insert(started.name.clone(), started.clone());
            started
        };
        let watcher = watch_to_its_end(started.clone(), order.timeout, Arc::downgrade(self));
        started.keep_watcher(tidegate_runtime::spawn("process watcher", watcher));
        Ok(Foreground { started, registry: self.clone() })
    }

    fn room_for(&self, held: &Held, owner: &Owner) -> Result<(), ToolFailure> {
        if held.closed {
            return Err(ToolFailure::execution("the gateway is closing; nothing is started any more"));
        }
        let running = || held.by_name.values().filter(|started| started.end().is_none());
        let own = running().filter(|started| started.owner == *owner).count();
        if own >= self.limits.running {
            return Err(ToolFailure::execution(format!(
                "{own} commands of this session run already; end one with the process tool first"
            )));
        }
        if running().count() >= self.limits.running_in_all {
            return Err(ToolFailure::execution("too many commands run at the moment; try again later"));
        }
        Ok(())
    }

    /// Writes its end down. What ran in the foreground has an owner who was told; the rest can be read for a while.
    pub(crate) fn finish(&self, started: &Arc<Started>, end: Ended) {
        let mut held = self.lock();
        started.ended.send_replace(Some(end));
        if !started.is_in_background() {
            held.by_name.remove(&started.name);
        }
        self.sweep(&mut held, Instant::now());
    }

    /// Whether it runs on by itself from now on: no when it has ended meanwhile.
    fn put_in_background(&self, started: &Started) -> bool {
        let _held = self.lock();
        let runs = started.end().is_none();
        if runs {
            started.in_background.store(true, Ordering::Release);
        }
        runs
    }

    /// Forgets what ended long ago, and the oldest of what is too much.
    fn sweep(&self, held: &mut Held, now: Instant) {
        let keep = self.limits.keep_finished;
        held.by_name.retain(|_, started| {
            started.end().is_none_or(|end| now.saturating_duration_since(end.at) < keep)
        });
        let mut finished: Vec<_> =
            held.by_name.values().filter_map(|started| Some((started.end()?.at, started.clone()))).collect();
        finished.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        for (index, (_, started)) in finished.iter().enumerate() {
            let newer = finished[..index].iter().filter(|(_, other)| other.owner == started.owner).count();
            if newer >= self.limits.finished || index >= self.limits.running_in_all {
                held.by_name.remove(&started.name);
            }
        }
    }

    /// What somebody has in the background, the newest first.
    pub(crate) fn list(&self, owner: &Owner) -> Vec<Arc<Started>> {
        let mut held = self.lock();
        self.sweep(&mut held, Instant::now());
        let own =
            held.by_name.values().filter(|started| started.owner == *owner && started.is_in_background());
        let mut own: Vec<_> = own.cloned().collect();
        own.sort_by_key(|started| std::cmp::Reverse(started.since));
        own
    }

    pub(crate) fn get(&self, owner: &Owner, name: &str) -> Option<Arc<Started>> {
        self.list(owner).into_iter().find(|started| started.name == name)
    }

    /// Forgets one that has ended; whether it had.
    pub(crate) fn forget(&self, started: &Started) -> bool {
        let ended = started.end().is_some();
        if ended {
            self.lock().by_name.remove(&started.name);
        }
        ended
    }

    /// Kills everything and waits until it is gone. Nothing can be started afterwards.
    pub async fn close(&self) {
        let all: Vec<_> = {
            let mut held = self.lock();
            held.closed = true;
            held.by_name.values().cloned().collect()
        };
        for started in &all {
            started.kill();
        }
        for started in all {
            if let Some(watcher) = started.take_watcher() {
                // A panic in it was reported where it happened.
                let _ = watcher.join().await;
            }
        }
        self.lock().by_name.clear();
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for started in self.lock().by_name.values() {
            started.kill();
        }
    }
}

/// A started program whose caller waits. Dropping it kills the program unless it was put in the background.
pub(crate) struct Foreground {
    started: Arc<Started>,
    registry: Arc<Processes>,
}

impl Foreground {
    pub(crate) fn started(&self) -> &Arc<Started> {
        &self.started
    }

    /// Lets it run on without the caller; no when it has ended meanwhile.
    pub(crate) fn put_in_background(&self) -> bool {
        self.registry.put_in_background(&self.started)
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        if !self.started.is_in_background() && self.started.end().is_none() {
            self.started.kill();
        }
    }
}
