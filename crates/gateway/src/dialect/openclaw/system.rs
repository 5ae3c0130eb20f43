//! The house itself: how it stands, who is there, what it runs on.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_engine::{ChannelState, ChannelStatus};
use tidegate_protocol::api::LaneStatus;
use tidegate_storage::{SessionFilter, SessionRow};

use super::answers::{DONE, Done, EmptyList, EmptyMap};
use super::keys;
use super::session_row::{self, SessionDefaults};
use crate::api::metrics::lane_statuses;
use crate::gate::{Gate, VERSION};
use crate::methods::{Caller, Nothing};
use crate::ws::frame::WireError;
use crate::ws::hub;
use crate::ws::peer::Present;

/// Conversations that a summary names.
const RECENT: u32 = 10;
/// What stands where other gateways name a file.
pub(crate) const STORED: &str = "(database)";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct Health {
    probe: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct SystemEvent {
    #[schemars(length(min = 1))]
    text: String,
    host: Option<String>,
    ip: Option<String>,
    mode: Option<String>,
    version: Option<String>,
    platform: Option<String>,
    reason: Option<String>,
    instance_id: Option<String>,
    device_id: Option<String>,
    last_input_seconds: Option<f64>,
    tags: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resume {
    /// `server.bootId` of the hello in which the client heard the last broadcast.
    #[schemars(length(min = 1))]
    boot_id: String,
    /// The number of that broadcast.
    after_seq: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "taken on the wire, without a meaning here")]
pub(crate) struct ChannelsStatus {
    probe: Option<bool>,
    #[schemars(range(min = 1000))]
    timeout_ms: Option<u64>,
}

/// How the house stands.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HealthSummary {
    ok: bool,
    ts: i64,
    /// How long it took to find out.
    duration_ms: u64,
    channels: BTreeMap<String, ChannelAccount>,
    channel_order: Vec<String>,
    channel_labels: BTreeMap<String, String>,
    heartbeat_seconds: u32,
    default_agent_id: String,
    agents: Vec<AgentHealth>,
    sessions: RecentSessions,
}

/// One account on a network.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChannelAccount {
    channel: String,
    account: String,
    /// `running`, `retrying`, `refused` or `stopped`.
    #[schemars(with = "String")]
    state: ChannelState,
    since: i64,
    restarts: u64,
    last_error: Option<String>,
    last_inbound_at: Option<i64>,
    last_outbound_at: Option<i64>,
}

impl ChannelAccount {
    fn of(status: &ChannelStatus) -> Self {
        Self {
            channel: status.channel.to_string(),
            account: status.account.clone(),
            state: status.state,
            since: status.since,
            restarts: status.restarts,
            last_error: status.last_error.clone(),
            last_inbound_at: status.last_inbound_at,
            last_outbound_at: status.last_outbound_at,
        }
    }
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentHealth {
    agent_id: String,
    is_default: bool,
    heartbeat: Heartbeat,
    sessions: RecentSessions,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Heartbeat {
    enabled: bool,
    every: &'static str,
    every_ms: Option<u64>,
    prompt: &'static str,
    target: &'static str,
    ack_max_chars: u32,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RecentSessions {
    path: &'static str,
    count: u64,
    recent: Vec<RecentSession>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecentSession {
    key: String,
    updated_at: i64,
    /// Milliseconds since then.
    age: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusSummary {
    runtime_version: &'static str,
    ready: bool,
    problems: Vec<String>,
    heartbeat: StatusHeartbeat,
    channel_summary: EmptyList,
    queued_system_events: EmptyList,
    sessions: StatusSessions,
    clients: usize,
    lanes: Vec<LaneStatus>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusHeartbeat {
    default_agent_id: String,
    agents: EmptyList,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusSessions {
    paths: [&'static str; 1],
    count: u64,
    defaults: SessionDefaults,
    recent: Vec<RecentSession>,
    by_agent: EmptyList,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChannelsSummary {
    ts: i64,
    channel_order: Vec<String>,
    channel_labels: BTreeMap<String, String>,
    channel_detail_labels: EmptyMap,
    channel_system_images: EmptyMap,
    channel_meta: EmptyList,
    channels: BTreeMap<String, ChannelAccount>,
    channel_accounts: BTreeMap<String, Vec<ChannelAccount>>,
    channel_default_account_id: EmptyMap,
}

/// Which names clients may leave out.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionNames {
    default_agent_id: String,
    main_key: &'static str,
    main_session_key: String,
    scope: &'static str,
}

/// Who is there.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Presence(Vec<Present>);

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SystemInfo {
    machine_name: &'static str,
    hostname: &'static str,
    platform: &'static str,
    release: &'static str,
    arch: &'static str,
    os_label: &'static str,
    node_version: &'static str,
    pid: u32,
    process_instance_id: String,
    uptime_ms: i64,
    cpu_count: usize,
    memory_total_bytes: u64,
    memory_free_bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EventsResumed {
    /// `false` when some are not kept any more: what is known must be read again.
    resumed: bool,
    sent: usize,
    /// The newest broadcast.
    seq: u64,
}

/// Nobody wakes an agent by the clock yet.
fn no_heartbeat() -> Heartbeat {
    Heartbeat {
        enabled: false,
        every: "disabled",
        every_ms: None,
        prompt: "",
        target: "none",
        ack_max_chars: 0,
    }
}

fn recent(row: &SessionRow, now: i64) -> RecentSession {
    RecentSession { key: keys::write(&row.key), updated_at: row.updated_at, age: now - row.updated_at }
}

/// Reads it from the store; clients are told through [`crate::ws`]'s standing.
pub(crate) async fn read_health(gate: &Gate) -> Result<HealthSummary, WireError> {
    let began = std::time::Instant::now();
    let engine = gate.engine();
    let filter = SessionFilter { limit: RECENT, ..SessionFilter::default() };
    let rows = engine.library().sessions(engine.tenant(), filter).await?;
    let stored = engine.library().status(engine.tenant()).await?;
    let now = gate.shared.now();
    let channels = engine.channels();
    let names: Vec<String> = channels.iter().map(|status| status.channel.to_string()).collect();
    let default = engine.settings().agents()[0].to_owned();
    let agent = |agent: &&str| AgentHealth {
        agent_id: (*agent).to_owned(),
        is_default: *agent == default,
        heartbeat: no_heartbeat(),
        sessions: RecentSessions { path: STORED, count: 0, recent: Vec::new() },
    };
    Ok(HealthSummary {
        ok: true,
        ts: now,
        channels: channels
            .iter()
            .map(|status| (status.channel.to_string(), ChannelAccount::of(status)))
            .collect(),
        channel_labels: names.iter().map(|name| (name.clone(), name.clone())).collect(),
        channel_order: names,
        heartbeat_seconds: 0,
        agents: engine.settings().agents().iter().map(agent).collect(),
        sessions: RecentSessions {
            path: STORED,
            count: stored.sessions,
            recent: rows.iter().map(|row| recent(row, now)).collect(),
        },
        default_agent_id: default,
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

pub(crate) fn session_defaults(gate: &Gate) -> SessionNames {
    let default = gate.engine().settings().agents()[0].to_owned();
    SessionNames {
        main_session_key: format!("agent:{default}:main"),
        default_agent_id: default,
        main_key: "main",
        scope: "per-sender",
    }
}

pub(crate) async fn health(caller: Caller, _: Health) -> Result<HealthSummary, WireError> {
    let health = caller.gate.shared.hub.standing.read(&caller.gate).await?;
    Ok(Arc::unwrap_or_clone(health))
}

pub(crate) async fn status(caller: Caller, _: Nothing) -> Result<StatusSummary, WireError> {
    let gate = &caller.gate;
    let health = Arc::unwrap_or_clone(gate.shared.hub.standing.read(gate).await?);
    let engine = gate.engine().health();
    Ok(StatusSummary {
        runtime_version: VERSION,
        ready: engine.ready,
        problems: engine.problems,
        heartbeat: StatusHeartbeat { default_agent_id: health.default_agent_id, agents: EmptyList },
        channel_summary: EmptyList,
        queued_system_events: EmptyList,
        sessions: StatusSessions {
            paths: [STORED],
            count: health.sessions.count,
            defaults: session_row::defaults(gate),
            recent: health.sessions.recent,
            by_agent: EmptyList,
        },
        clients: gate.shared.hub.count(),
        lanes: lane_statuses(&gate.engine().lanes()),
    })
}

pub(crate) async fn channels_status(caller: Caller, _: ChannelsStatus) -> Result<ChannelsSummary, WireError> {
    let gate = &caller.gate;
    let health = Arc::unwrap_or_clone(gate.shared.hub.standing.read(gate).await?);
    let channels = gate.engine().channels();
    let account = |status: &ChannelStatus| (status.channel.to_string(), vec![ChannelAccount::of(status)]);
    Ok(ChannelsSummary {
        ts: health.ts,
        channel_order: health.channel_order,
        channel_labels: health.channel_labels,
        channel_detail_labels: EmptyMap,
        channel_system_images: EmptyMap,
        channel_meta: EmptyList,
        channels: health.channels,
        channel_accounts: channels.iter().map(account).collect(),
        channel_default_account_id: EmptyMap,
    })
}

pub(crate) async fn presence(caller: Caller, _: Nothing) -> Result<Presence, WireError> {
    let gate = &caller.gate;
    let now = gate.shared.now();
    Ok(Presence(gate.shared.hub.presence(Present::gateway(now), now)))
}

/// A client says something about itself; others see who is there anew.
pub(crate) async fn system_event(caller: Caller, params: SystemEvent) -> Result<Done, WireError> {
    if params.text.trim().is_empty() {
        return Err(WireError::invalid("text required"));
    }
    caller.gate.shared.hub.presence_changed();
    Ok(DONE)
}

pub(crate) async fn info(caller: Caller, _: Nothing) -> Result<SystemInfo, WireError> {
    let gate = &caller.gate;
    Ok(SystemInfo {
        machine_name: "tidegate",
        hostname: "tidegate",
        platform: std::env::consts::OS,
        release: VERSION,
        arch: std::env::consts::ARCH,
        os_label: std::env::consts::OS,
        node_version: "none",
        pid: std::process::id(),
        process_instance_id: gate.shared.hub.boot.clone(),
        uptime_ms: gate.shared.now() - gate.shared.started_at,
        cpu_count: std::thread::available_parallelism().map_or(1, usize::from),
        memory_total_bytes: 0,
        memory_free_bytes: 0,
    })
}

/// What a client missed while it was away.
pub(crate) async fn resume(caller: Caller, params: Resume) -> Result<EventsResumed, WireError> {
    let resumed = caller.gate.shared.hub.resume(&caller.peer, &params.boot_id, params.after_seq);
    Ok(match resumed {
        hub::Resumed::Yes { sent, seq } => EventsResumed { resumed: true, sent, seq },
        hub::Resumed::No { seq } => EventsResumed { resumed: false, sent: 0, seq },
    })
}
