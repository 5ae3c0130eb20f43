//! Groups about conversations: their keys, and when they begin anew.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_config::{ConfigFile, Env};
use tidegate_engine::Settings;
use tidegate_protocol::{PeerKind, SessionKey};
use tidegate_routing::upstream_key::{
    AgentKey, DmScope, KeyedPeer, account_id, agent_id, is_subagent, thread_parent,
};
use tidegate_routing::{Command, ResetPolicy, Vocabulary, parse_line};

use super::{Answer, Compared, compared, in_and_out, read};

pub(super) fn answer_of(group: &str) -> Option<Answer> {
    Some(match group {
        "skey" => key,
        "session_key_parse" => key_parts,
        "agent_id" => agent,
        "id_normalize" => ids,
        "peer" => peer,
        "session_key_peer" => peer_key,
        "reset_policy" => reset_policy,
        "freshness_utc" => freshness,
        "compact_instructions" => compact_instructions,
        _ => return None,
    })
}

/// What somebody says with `/compact`. Where they say it does not matter here: a network takes its own marks away.
fn compact_instructions(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Input {
        raw_body: String,
    }
    let (Input { raw_body }, out) = in_and_out(case)?;
    let vocabulary = Vocabulary { is_model: &|_| false, reset_triggers: &[] };
    let ours = match parse_line(&raw_body, &vocabulary).command {
        Some(Command::Compact(instructions)) => json!(instructions),
        _ => Value::Null,
    };
    compared(out, ours)
}

fn parsed(text: &str) -> Value {
    AgentKey::parse(text).map_or(Value::Null, |key| json!({ "agentId": key.agent, "rest": key.rest }))
}

fn key(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        t: String,
        parsed: Value,
        sub: bool,
        parent: Value,
    }
    let Case { t, parsed: expected, sub, parent } = read(case)?;
    compared(json!([expected, sub, parent]), json!([parsed(&t), is_subagent(&t), thread_parent(&t)]))
}

/// We have no keys of the agent client protocol and no request keys: those two are not compared.
fn key_parts(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Out {
        parsed: Value,
        subagent: bool,
        thread_parent: Value,
        agent_id: String,
    }
    let (text, out): (String, Value) = in_and_out(case)?;
    let out: Out = read(&out)?;
    let agent = agent_id(AgentKey::parse(&text).map_or("", |key| key.agent));
    compared(
        json!([out.parsed, out.subagent, out.thread_parent, out.agent_id]),
        json!([parsed(&text), is_subagent(&text), thread_parent(&text), agent]),
    )
}

fn agent(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        t: String,
        id: String,
    }
    let Case { t, id } = read(case)?;
    compared(id, agent_id(&t))
}

fn ids(case: &Value) -> Result<Compared, String> {
    let (text, out): (String, Value) = in_and_out(case)?;
    let links = BTreeMap::new();
    let direct = KeyedPeer {
        agent: "main",
        main: &text,
        channel: "telegram",
        account: "",
        kind: PeerKind::Dm,
        id: "",
        scope: DmScope::Main,
        links: &links,
    };
    let key = direct.key();
    let main = key.strip_prefix("agent:main:").unwrap_or_default();
    compared(out, json!({ "agent": agent_id(&text), "account": account_id(&text), "main": main }))
}

fn scope(name: Option<&str>) -> Result<DmScope, String> {
    Ok(match name {
        None | Some("main") => DmScope::Main,
        Some("per-peer") => DmScope::PerPeer,
        Some("per-channel-peer") => DmScope::PerChannelPeer,
        Some("per-account-channel-peer") => DmScope::PerAccountChannelPeer,
        Some(other) => return Err(format!("unknown dmScope {other:?}")),
    })
}

/// A direct message of ABC on Telegram, first of a stranger, then of somebody who is known as Bob.
fn peer(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Case {
        dm_scope: String,
        key: String,
        linked: String,
    }
    let Case { dm_scope, key, linked } = read(case)?;
    let scope = scope(Some(&dm_scope))?;
    let ours = |links: &BTreeMap<String, Vec<String>>| {
        let kind = PeerKind::Dm;
        KeyedPeer { agent: "main", main: "", channel: "telegram", account: "", kind, id: "ABC", scope, links }
            .key()
    };
    let known = BTreeMap::from([("bob".to_owned(), vec!["abc".to_owned()])]);
    compared(vec![key, linked], vec![ours(&BTreeMap::new()), ours(&known)])
}

fn peer_key(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Input {
        agent_id: String,
        main_key: Option<String>,
        channel: String,
        account_id: Option<String>,
        peer_kind: Option<String>,
        peer_id: Option<String>,
        dm_scope: Option<String>,
        #[serde(default)]
        identity_links: BTreeMap<String, Vec<String>>,
    }
    let (input, out): (Input, Value) = in_and_out(case)?;
    let kind = match input.peer_kind.as_deref() {
        None | Some("dm") => PeerKind::Dm,
        Some("group") => PeerKind::Group,
        Some("channel") => PeerKind::Channel,
        Some(other) => return Err(format!("unknown peerKind {other:?}")),
    };
    let peer = KeyedPeer {
        agent: &input.agent_id,
        main: input.main_key.as_deref().unwrap_or_default(),
        channel: &input.channel,
        account: input.account_id.as_deref().unwrap_or_default(),
        kind,
        id: input.peer_id.as_deref().unwrap_or_default(),
        scope: scope(input.dm_scope.as_deref())?,
        links: &input.identity_links,
    };
    compared(out, peer.key())
}

/// A recorded policy. The hour is part of every one of them, and counts in a daily one only.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Policy {
    mode: String,
    at_hour: u8,
    idle_minutes: Option<u32>,
}

impl Policy {
    fn ours(&self) -> Result<ResetPolicy, String> {
        let daily_hour = match self.mode.as_str() {
            "daily" => Some(self.at_hour),
            "idle" => None,
            other => return Err(format!("unknown mode {other:?}")),
        };
        Ok(ResetPolicy { daily_hour, idle_minutes: self.idle_minutes })
    }
}

/// A session's part of a config file, and what it says for a person and for a group.
fn reset_policy(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    struct Case {
        cfg: Value,
        dm: Policy,
        group: Policy,
    }
    let Case { cfg, dm, group } = read(case)?;
    let settings = settings(&cfg)?;
    let at = |place: &str| -> Result<ResetPolicy, String> {
        let key = format!("tenant:local/workspace:default/agent:main/{place}");
        let key = key.parse::<SessionKey>().map_err(|error| error.to_string())?;
        Ok(settings.reset_policy(&key))
    };
    let told = |policy: ResetPolicy| json!([policy.daily_hour, policy.idle_minutes]);
    compared(
        vec![told(dm.ours()?), told(group.ours()?)],
        vec![told(at("dm:telegram:a:1")?), told(at("group:telegram:1")?)],
    )
}

/// What a file says that has this part and nothing else.
fn settings(session: &Value) -> Result<Settings, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("config.json5");
    std::fs::write(&file, json!({ "session": session }).to_string()).map_err(|error| error.to_string())?;
    let loaded = ConfigFile::new(file, folder.path().join("revisions")).load(&Env::default());
    loaded.map(|loaded| Settings::new(&loaded)).map_err(|error| error.to_string())
}

fn freshness(case: &Value) -> Result<Compared, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Case {
        updated_at: i64,
        now: i64,
        policy: Policy,
        fresh: bool,
        daily_reset_at: Option<i64>,
        idle_expires_at: Option<i64>,
    }
    let case: Case = read(case)?;
    let policy = case.policy.ours()?;
    let boundary = |policy: ResetPolicy| policy.boundary(case.now, &TimeZone::UTC);
    let fresh = boundary(policy).is_none_or(|boundary| case.updated_at >= boundary);
    let daily = boundary(ResetPolicy { idle_minutes: None, ..policy });
    let idle = boundary(ResetPolicy { daily_hour: None, ..policy });
    let expires = idle.map(|idle| case.updated_at + (case.now - idle));
    compared(json!([case.fresh, case.daily_reset_at, case.idle_expires_at]), json!([fresh, daily, expires]))
}
