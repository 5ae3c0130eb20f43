//! Services: programs that the operator wants to run as long as the gateway does, each under its own supervision.
//!
//! One that ends, hangs or floods is started again, later each time, or given up with a reason; it hurts neither the
//! others nor the gateway. All of them end with the engine, and at the latest with its process.

mod health;
mod log;
mod supervise;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_policy::{Confinement, Principal};
use tidegate_storage::AuditEvent;
use tokio::sync::Notify;

use crate::events::EngineEvent;
use crate::settings::Again;
use crate::start::{Core, Engine};

pub(crate) use supervise::supervise;

/// What sets the limits of a service.
const LIMITS: &str = "sandbox.limits of the service, or else agents.defaults.sandbox.limits";

/// A service as it is configured.
#[derive(Debug, Clone)]
pub(crate) struct ServiceSpec {
    pub(crate) name: String,
    pub(crate) argv: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) folder: PathBuf,
    pub(crate) watch: Option<Watch>,
    pub(crate) again: Again,
    pub(crate) backoff: Duration,
    pub(crate) longest_backoff: Duration,
    /// Failures in a row after which it is given up.
    pub(crate) attempts: Option<u32>,
    /// To end by itself before it is killed.
    pub(crate) grace: Duration,
    pub(crate) log: PathBuf,
    pub(crate) confinement: Confinement,
}

/// How to find out whether a service does its work.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    pub(crate) look: Look,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    /// Until the first good look.
    pub(crate) start: Duration,
    pub(crate) failures: u32,
}

#[derive(Debug, Clone)]
pub(crate) enum Look {
    Http(String),
    Tcp(String),
    Command(Vec<String>),
}

/// Where a service stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServiceState {
    /// It was started and is not known to work yet.
    Starting,
    Running,
    /// It runs and the last look at it was bad.
    Unhealthy,
    /// It ended and is started again after a pause.
    Waiting,
    /// It ended and is not to be started again.
    Ended,
    /// It failed too often: somebody must change something, or restart it.
    GaveUp,
    Stopped,
}

/// What is known about a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    pub name: String,
    pub state: ServiceState,
    /// Since when, in milliseconds since the epoch.
    pub since: i64,
    /// The process id of its supervisor, while it runs.
    pub pid: Option<u32>,
    pub restarts: u64,
    pub last_error: Option<String>,
    pub last_healthy_at: Option<i64>,
    pub log: PathBuf,
}

/// A service and how it does.
pub(crate) struct Service {
    pub(crate) spec: ServiceSpec,
    status: Mutex<ServiceStatus>,
    /// Told that somebody wants it started anew.
    pub(crate) anew: Notify,
}

impl Service {
    pub(crate) fn new(spec: ServiceSpec, now: i64) -> Self {
        let status = ServiceStatus {
            name: spec.name.clone(),
            state: ServiceState::Stopped,
            since: now,
            pid: None,
            restarts: 0,
            last_error: None,
            last_healthy_at: None,
            log: spec.log.clone(),
        };
        Self { spec, status: Mutex::new(status), anew: Notify::new() }
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut ServiceStatus)) -> ServiceStatus {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut status);
        status.clone()
    }
}

impl Engine {
    /// Every service that is configured to run here.
    pub fn services(&self) -> Vec<ServiceStatus> {
        self.core.companions.iter().map(|service| service.note(|_| {})).collect()
    }

    /// Has a service start anew, also one that was given up. `None` if there is none of this name.
    pub fn restart_service(&self, name: &str) -> Option<ServiceStatus> {
        let service = self.core.companions.iter().find(|service| service.spec.name == name)?;
        service.anew.notify_one();
        Some(service.note(|_| {}))
    }
}

impl Core {
    /// Puts what became of a service on record. It goes on also where that cannot be written: the log says so.
    pub(crate) async fn audit_service(&self, service: &Service, action: &'static str, metadata: Value) {
        let event = AuditEvent {
            action,
            resource_type: "service",
            resource_id: service.spec.name.clone(),
            metadata,
            now: self.clock.now_ms(),
        };
        let owner = Principal::local_owner(self.tenant.clone());
        match self.store.audit_event(&owner, event).await {
            Ok(()) => self.unsealed.notify_one(),
            Err(error) => {
                self.watch(&error);
                tracing::warn!(%error, service = service.spec.name, action, "a service is not on record");
            }
        }
    }

    pub(crate) fn tell_service(&self, service: &Arc<Service>, state: ServiceState, error: Option<String>) {
        let now = self.clock.now_ms();
        let status = service.note(|status| {
            if status.state != state {
                (status.state, status.since) = (state, now);
            }
            if error.is_some() {
                status.last_error = error;
            }
        });
        self.bus.publish(|| EngineEvent::Service(status));
    }
}
