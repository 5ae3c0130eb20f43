//! A client that is connected: who it is, what it may do, what it listens to, and what waits to be written to it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_runtime::catalogue::Language;

use super::connect::Client;
use super::frame;
use super::outbox::{Outbox, Weight};
use super::scope::{Need, Role, Scopes};
use super::socket::Utf8Bytes;
use super::subscriptions::Subscriptions;
use crate::gate::VERSION;

/// Conversations that one client may watch at once.
const WATCHED: usize = 256;
/// Requests of one client under way at once.
pub(crate) const REQUESTS: u32 = 64;

/// Which wire a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    Openclaw,
    Openfoal,
    /// Our own, of the page and the command line.
    Native,
}

impl Dialect {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openclaw => "openclaw",
            Self::Openfoal => "openfoal",
            Self::Native => "native",
        }
    }
}

/// What a client listens to besides what everybody hears.
#[derive(Debug, Default)]
struct Watch {
    /// Changes in the list of conversations.
    sessions: bool,
    /// Messages of these conversations, as the client calls them.
    messages: Vec<String>,
}

pub(crate) struct Peer {
    /// Among those of this process.
    pub(crate) number: u64,
    /// As the client knows it.
    pub(crate) connection: String,
    pub(crate) dialect: Dialect,
    pub(crate) protocol: u32,
    pub(crate) role: Role,
    pub(crate) scopes: Scopes,
    /// Shown to others.
    pub(crate) client: Box<Client>,
    pub(crate) device: Option<String>,
    /// It wants to see what tools do.
    pub(crate) tool_events: bool,
    pub(crate) connected_at: i64,
    /// What it reads.
    pub(crate) language: Language,
    pub(crate) outbox: Outbox,
    watch: Mutex<Watch>,
    /// Conversations it follows, where its wire numbers them.
    pub(crate) subscriptions: Subscriptions,
    under_way: AtomicU32,
    /// Of events that go to this client alone, where its wire counts them.
    own_seq: AtomicU64,
}

/// What makes a peer.
pub(crate) struct NewPeer {
    pub(crate) number: u64,
    pub(crate) connection: String,
    pub(crate) dialect: Dialect,
    pub(crate) protocol: u32,
    pub(crate) role: Role,
    pub(crate) scopes: Scopes,
    pub(crate) client: Client,
    pub(crate) device: Option<String>,
    pub(crate) tool_events: bool,
    pub(crate) connected_at: i64,
    pub(crate) language: Language,
}

/// The place of a request among those of its client.
pub(crate) struct Place {
    peer: Arc<Peer>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.peer.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Who hears an event.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Audience<'a> {
    Everybody,
    /// Operators with this scope.
    Scope(Need),
    /// Those who want to see what tools do.
    Tools,
    /// Those who watch the list of conversations.
    SessionList,
    /// Those who watch this conversation.
    Messages(&'a str),
    /// Those who speak our own dialect.
    Native,
}

impl Peer {
    pub(crate) fn new(new: NewPeer) -> Self {
        let NewPeer {
            number,
            connection,
            dialect,
            protocol,
            role,
            scopes,
            client,
            device,
            tool_events,
            connected_at,
            language,
        } = new;
        Self {
            number,
            connection,
            dialect,
            protocol,
            role,
            scopes,
            client: Box::new(client),
            device,
            tool_events,
            connected_at,
            language,
            outbox: Outbox::default(),
            watch: Mutex::default(),
            subscriptions: Subscriptions::default(),
            under_way: AtomicU32::new(0),
            own_seq: AtomicU64::new(0),
        }
    }

    fn watching<T>(&self, work: impl FnOnce(&mut Watch) -> T) -> T {
        work(&mut self.watch.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn watch_sessions(&self, watch: bool) {
        self.watching(|state| state.sessions = watch);
    }

    /// `false` when it watches too many already.
    pub(crate) fn watch_messages(&self, key: &str) -> bool {
        self.watching(|state| {
            let known = state.messages.iter().any(|watched| watched == key);
            if !known && state.messages.len() < WATCHED {
                state.messages.push(key.to_owned());
                return true;
            }
            known
        })
    }

    pub(crate) fn unwatch_messages(&self, key: &str) {
        self.watching(|state| state.messages.retain(|watched| watched != key));
    }

    pub(crate) fn hears(&self, audience: Audience<'_>) -> bool {
        if self.dialect != Dialect::Openclaw {
            return self.dialect == Dialect::Native && matches!(audience, Audience::Native);
        }
        let operator = self.role == Role::Operator;
        match audience {
            Audience::Everybody => true,
            Audience::Scope(need) => operator && self.scopes.allow(need),
            Audience::Tools => operator && self.tool_events && self.scopes.allow(Need::Read),
            Audience::Native => false,
            Audience::SessionList => operator && self.watching(|state| state.sessions),
            Audience::Messages(key) => {
                operator && self.watching(|state| state.messages.iter().any(|known| known == key))
            }
        }
    }

    /// Sends a frame that must not be lost.
    pub(crate) fn send(&self, frame: impl Into<Utf8Bytes>) {
        self.outbox.put(frame.into(), Weight::Kept);
    }

    /// Sends an event to this client alone. It has no place among those that everybody hears.
    pub(crate) fn tell(&self, event: &str, payload: &impl Serialize) {
        self.send(frame::event(event, &frame::to_json(payload), None, None));
    }

    /// The same, counted for this client.
    pub(crate) fn tell_counted(&self, event: &str, payload: &impl Serialize, weight: Weight) {
        let seq = self.own_seq.fetch_add(1, Ordering::Relaxed) + 1;
        let frame = frame::event(event, &frame::to_json(payload), Some(seq), None);
        self.outbox.put(frame.into(), weight);
    }

    /// Takes a place for a request; `None` when there is none. It is free again when the place is dropped.
    pub(crate) fn begins(self: &Arc<Self>) -> Option<Place> {
        let before = self.under_way.fetch_add(1, Ordering::AcqRel);
        let place = Place { peer: Arc::clone(self) };
        (before < REQUESTS).then_some(place)
    }

    /// Whether a request of it is being answered.
    pub(crate) fn has_requests(&self) -> bool {
        self.under_way.load(Ordering::Acquire) > 0
    }

    /// Who it is in the eyes of others.
    pub(crate) fn name(&self) -> String {
        self.client.display_name.clone().unwrap_or_else(|| self.client.id.clone())
    }

    /// As what others see it: its device, its own name for itself, or this connection.
    pub(crate) fn presence_key(&self) -> &str {
        self.device.as_deref().or(self.client.instance_id.as_deref()).unwrap_or(&self.connection)
    }

    pub(crate) fn presence(&self, now: i64) -> Present {
        let client = &self.client;
        Present {
            host: self.name(),
            version: client.version.clone(),
            platform: client.platform.clone(),
            mode: client.mode.clone(),
            reason: "connect",
            ts: now,
            text: None,
            roles: Some(vec![self.role.as_str()]),
            online_since: Some(self.connected_at),
            device_family: client.device_family.clone(),
            model_identifier: client.model_identifier.clone(),
            time_zone: client.time_zone.clone(),
            instance_id: client.instance_id.clone(),
            device_id: self.device.clone(),
        }
    }
}

/// Somebody who is there, in the eyes of others.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Present {
    host: String,
    version: String,
    platform: String,
    mode: String,
    reason: &'static str,
    ts: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) roles: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) online_since: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_family: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_identifier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) instance_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_id: Option<String>,
}

impl Present {
    /// The gateway itself.
    pub(crate) fn gateway(now: i64) -> Self {
        Self {
            host: "tidegate".to_owned(),
            version: VERSION.to_owned(),
            platform: std::env::consts::OS.to_owned(),
            mode: "gateway".to_owned(),
            reason: "self",
            ts: now,
            text: None,
            roles: None,
            online_since: None,
            device_family: None,
            model_identifier: None,
            time_zone: None,
            instance_id: None,
            device_id: None,
        }
    }
}
