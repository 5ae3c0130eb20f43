//! Everybody who is connected, and what they all hear.
//!
//! A broadcast is written once and handed to every queue. Broadcasts are counted by one counter for all; the newest that
//! may not be lost are kept for a while, so that a client that comes back hears what it missed.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;

use super::devices::Devices;
use super::frame::{self, StateVersion};
use super::outbox::{Ending, LARGEST, Weight};
use super::peer::{Audience, Dialect, Peer, Present};
use super::scope::Need;
use super::socket::Utf8Bytes;
use super::standing::Standing;
use crate::dialect::openclaw::nodes::Nodes;
use crate::dialect::openclaw::questions::Questions;
use crate::dialect::openclaw::talk::Talk;
use crate::methods::once::Once;

/// Clients at once.
pub(crate) const CLIENTS: usize = 20_000;
/// Clients that have not said who they are.
pub(crate) const STRANGERS: usize = 512;
/// Broadcasts that are kept, in number and bytes: whoever comes back has room for all of them beside what is new.
const PAST_FRAMES: usize = 2048;
const PAST_BYTES: usize = LARGEST / 2;
/// Entries of the presence list.
const PRESENT: usize = 200;

/// Who heard a broadcast that is kept.
#[derive(Debug, Clone, Copy)]
enum Heard {
    Everybody,
    Scope(Need),
    Tools,
    Native,
}

struct Kept {
    seq: u64,
    heard: Heard,
    frame: Utf8Bytes,
}

#[derive(Default)]
struct Broadcasts {
    seq: u64,
    past: VecDeque<Kept>,
    past_bytes: usize,
    /// The last broadcast that is not kept any more and was to be.
    forgotten: u64,
    /// Somebody listened to the engine for them before.
    began: bool,
}

/// Up to where a client has heard everything.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cursor {
    boot_id: String,
    seq: u64,
}

/// What came of wanting to hear what was missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resumed {
    /// So many were sent again; the newest broadcast has this number.
    Yes { sent: usize, seq: u64 },
    /// Some are not kept any more: what is known must be read again.
    No { seq: u64 },
}

pub(crate) struct Hub {
    /// Of this process; numbers of broadcasts mean nothing in another.
    pub(crate) boot: String,
    peers: RwLock<HashMap<u64, Arc<Peer>>>,
    broadcasts: Mutex<Broadcasts>,
    /// Those of our own dialect: clients of the other one take every number that they do not hear for a loss.
    native: Mutex<Broadcasts>,
    next_number: AtomicU64,
    presence_version: AtomicU64,
    health_version: AtomicU64,
    /// Somebody left, or said something about themselves.
    pub(crate) presence_to_tell: AtomicBool,
    /// Goes up when the last client leaves: whoever watches the engine for them ends.
    watching: watch::Sender<u64>,
    /// Runs whose events are being told.
    pub(crate) telling: AtomicUsize,
    pub(crate) strangers: Arc<tokio::sync::Semaphore>,
    pub(crate) devices: Devices,
    pub(crate) nodes: Nodes,
    pub(crate) questions: Questions,
    pub(crate) standing: Standing,
    /// Calls with a key that are under way.
    pub(crate) once: Once,
    /// What was last said about talking.
    pub(crate) talk: Talk,
}

impl Hub {
    pub(crate) fn new(boot: String, devices: Devices) -> Self {
        Self {
            boot,
            peers: RwLock::default(),
            broadcasts: Mutex::default(),
            native: Mutex::default(),
            next_number: AtomicU64::new(1),
            presence_version: AtomicU64::new(1),
            health_version: AtomicU64::new(1),
            presence_to_tell: AtomicBool::new(false),
            watching: watch::Sender::new(0),
            telling: AtomicUsize::new(0),
            strangers: Arc::new(tokio::sync::Semaphore::new(STRANGERS)),
            devices,
            nodes: Nodes::default(),
            questions: Questions::default(),
            standing: Standing::default(),
            once: Once::default(),
            talk: Talk::default(),
        }
    }

    fn broadcasts(&self, native: bool) -> std::sync::MutexGuard<'_, Broadcasts> {
        let broadcasts = if native { &self.native } else { &self.broadcasts };
        broadcasts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Lets a client in. `hello` is its first frame, if it has one that says where the broadcasts of its dialect stand: it
    /// hears all that come after. `Some` for the first client: somebody has to watch the engine until what it answers
    /// changes.
    pub(crate) fn join(
        &self,
        peer: Arc<Peer>,
        hello: impl FnOnce(u64) -> Option<Utf8Bytes>,
    ) -> Option<watch::Receiver<u64>> {
        // In the order in which a broadcast takes them.
        let (mut others, mut native) = (self.broadcasts(false), self.broadcasts(true));
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        let first = peers.is_empty();
        if first {
            others.begin();
            native.begin();
        }
        let seq = if peer.dialect == Dialect::Native { native.seq } else { others.seq };
        if let Some(hello) = hello(seq) {
            peer.send(hello);
        }
        peers.insert(peer.number, peer);
        // Under the lock: whoever leaves later is seen.
        let watching = first.then(|| self.watching.subscribe());
        drop(peers);
        self.presence_version.fetch_add(1, Ordering::Relaxed);
        watching
    }

    pub(crate) fn leave(&self, peer: &Peer) {
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        peers.remove(&peer.number);
        if peers.is_empty() {
            self.watching.send_modify(|count| *count += 1);
        }
        drop(peers);
        self.presence_changed();
    }

    /// It is told in a moment, with whatever else changes until then.
    pub(crate) fn presence_changed(&self) {
        self.presence_version.fetch_add(1, Ordering::Relaxed);
        self.presence_to_tell.store(true, Ordering::Release);
    }

    pub(crate) fn count(&self) -> usize {
        self.peers.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn peers(&self) -> std::sync::RwLockReadGuard<'_, HashMap<u64, Arc<Peer>>> {
        self.peers.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everybody who may hear it, under the next number.
    pub(crate) fn broadcast(
        &self,
        event: &str,
        payload: &impl Serialize,
        audience: Audience<'_>,
        weight: Weight,
    ) {
        let payload = frame::to_json(payload);
        let native = matches!(audience, Audience::Native);
        let version = (!native && matches!(event, "presence" | "health")).then(|| self.versions());
        // Held until all queues have it: everybody reads broadcasts in the order of their numbers.
        let mut broadcasts = self.broadcasts(native);
        broadcasts.seq += 1;
        let frame: Utf8Bytes = frame::event(event, &payload, Some(broadcasts.seq), version).into();
        if weight == Weight::Kept {
            broadcasts.keep(audience, frame.clone());
        }
        for peer in self.peers().values().filter(|peer| peer.hears(audience)) {
            peer.outbox.put(frame.clone(), weight);
        }
    }

    /// Tells those who watch something, without a number: others would see a gap.
    pub(crate) fn tell(&self, event: &str, payload: &impl Serialize, audience: Audience<'_>) {
        let peers = self.peers();
        let mut hearing = peers.values().filter(|peer| peer.hears(audience)).peekable();
        if hearing.peek().is_none() {
            return;
        }
        let frame: Utf8Bytes = frame::event(event, &frame::to_json(payload), None, None).into();
        hearing.for_each(|peer| {
            peer.outbox.put(frame.clone(), Weight::Kept);
        });
    }

    /// Whether anybody hears it: what nobody hears need not be read.
    pub(crate) fn anybody_hears(&self, audience: Audience<'_>) -> bool {
        self.peers().values().any(|peer| peer.hears(audience))
    }

    /// Sends a client again what it missed since a broadcast of this process.
    pub(crate) fn resume(&self, peer: &Peer, boot: &str, after: u64) -> Resumed {
        let broadcasts = self.broadcasts(peer.dialect == Dialect::Native);
        let seq = broadcasts.seq;
        if boot != self.boot || after > seq || after < broadcasts.forgotten {
            return Resumed::No { seq };
        }
        let mut sent = 0;
        for kept in broadcasts.past.iter().filter(|kept| kept.seq > after) {
            let audience = match kept.heard {
                Heard::Everybody => Audience::Everybody,
                Heard::Scope(need) => Audience::Scope(need),
                Heard::Tools => Audience::Tools,
                Heard::Native => Audience::Native,
            };
            if peer.hears(audience) {
                peer.send(kept.frame.clone());
                sent += 1;
            }
        }
        Resumed::Yes { sent, seq }
    }

    pub(crate) fn versions(&self) -> StateVersion {
        StateVersion {
            presence: self.presence_version.load(Ordering::Relaxed),
            health: self.health_version.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn health_changed(&self) {
        self.health_version.fetch_add(1, Ordering::Relaxed);
    }

    /// Who is there: the gateway itself, then its clients. Programs that ask one thing and go are left out.
    pub(crate) fn presence(&self, own: Present, now: i64) -> Vec<Present> {
        let mut present = vec![own];
        let peers = self.peers();
        let mut seen: Vec<&str> = Vec::new();
        for peer in peers.values().filter(|peer| !matches!(peer.client.mode.as_str(), "cli" | "probe")) {
            if present.len() == PRESENT {
                break;
            }
            if !seen.contains(&peer.presence_key()) {
                seen.push(peer.presence_key());
                present.push(peer.presence(now));
            }
        }
        present
    }

    /// Closes every connection of a device.
    pub(crate) fn remove_device(&self, device: &str) {
        self.end_of(device, |_| true);
    }

    /// Closes every connection of a device but the one that asks for it.
    pub(crate) fn remove_others(&self, device: &str, asking: &Peer) {
        self.end_of(device, |peer| peer.number != asking.number);
    }

    fn end_of(&self, device: &str, ends: impl Fn(&Peer) -> bool) {
        let peers = self.peers();
        let of_device = peers.values().filter(|peer| peer.device.as_deref() == Some(device));
        of_device.filter(|peer| ends(peer)).for_each(|peer| peer.outbox.end(Ending::Removed));
    }

    /// Where the broadcasts stand.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor { boot_id: self.boot.clone(), seq: self.broadcasts(false).seq }
    }
}

/// A run that is being told to its end; at a shutdown clients wait for it. Given back also when telling it fails.
pub(crate) struct Telling(Arc<Hub>);

impl Telling {
    pub(crate) fn new(hub: &Arc<Hub>) -> Self {
        hub.telling.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(hub))
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.telling.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Broadcasts {
    /// Somebody listens again. What happened since the last one left was never told, so nobody can hear it again.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.began, true) {
            self.seq += 1;
            self.forgotten = self.seq;
            self.past.clear();
            self.past_bytes = 0;
        }
    }

    fn keep(&mut self, audience: Audience<'_>, frame: Utf8Bytes) {
        let heard = match audience {
            Audience::Everybody => Heard::Everybody,
            Audience::Scope(need) => Heard::Scope(need),
            Audience::Tools => Heard::Tools,
            Audience::Native => Heard::Native,
            // Never broadcast with a number.
            Audience::SessionList | Audience::Messages(_) => return,
        };
        self.past_bytes += frame.len();
        self.past.push_back(Kept { seq: self.seq, heard, frame });
        while self.past.len() > PAST_FRAMES || self.past_bytes > PAST_BYTES {
            let Some(oldest) = self.past.pop_front() else { break };
            self.past_bytes -= oldest.frame.len();
            self.forgotten = oldest.seq;
        }
    }
}
