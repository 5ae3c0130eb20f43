//! `policy.*` and `budget.*`: the sections `tools` and `budgets` of the configuration, in the words of this dialect.
//!
//! What is shown is what the file says; `restartRequired` says whether the gateway still works by an older text. A change
//! is a merge patch of the file, checked as a whole and on record.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tidegate_config::schema::{Budget, Config, ToolMode, ToolProfile};
use tidegate_config::{ConfigFile, EditError, Env};
use tidegate_protocol::{Scope, TenantId, WorkspaceId};
use tidegate_runtime::iso_timestamp;
use tidegate_storage::{AuditEvent, BudgetFilter};

use super::rows::ScopeKey;
use crate::gate::Gate;
use crate::methods::Caller;
use crate::ws::frame::WireError;

/// The one scope that has a policy.
const DEFAULT: &str = "default";

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Decision {
    Deny,
    Allow,
    ApprovalRequired,
}

impl Decision {
    fn mode(self) -> ToolMode {
        match self {
            Self::Deny => ToolMode::Deny,
            Self::Allow => ToolMode::Allow,
            Self::ApprovalRequired => ToolMode::ApprovalRequired,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PolicyPatch {
    tool_default: Option<Decision>,
    high_risk: Option<Decision>,
    bash_mode: Option<String>,
    /// By tool; `null` takes the rule away.
    tools: Option<BTreeMap<String, Option<Decision>>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "the key is read before it is taken apart")]
pub(crate) struct PolicyUpdate {
    #[schemars(length(min = 1))]
    idempotency_key: String,
    scope_key: Option<String>,
    patch: PolicyPatch,
}

/// `null` takes a limit away; what is left out stays.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "the key is read before it is taken apart")]
pub(crate) struct BudgetUpdate {
    #[schemars(length(min = 1))]
    idempotency_key: String,
    scope_key: Option<String>,
    patch: Map<String, Value>,
}

/// What every rule carries.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stamp {
    /// Of the configuration.
    version: u64,
    updated_at: String,
    /// Whether the gateway still works by an older text.
    restart_required: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Policy {
    tenant_id: TenantId,
    workspace_id: WorkspaceId,
    scope_key: &'static str,
    tool_default: ToolMode,
    high_risk: ToolMode,
    bash_mode: &'static str,
    /// By tool.
    tools: BTreeMap<String, ToolMode>,
    #[serde(flatten)]
    stamp: Stamp,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyShown {
    policy: Policy,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BudgetPolicy {
    scope_key: String,
    token_daily_limit: Option<u32>,
    cost_monthly_usd_limit: Option<f64>,
    hard_limit: bool,
    #[serde(flatten)]
    stamp: Stamp,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BudgetUse {
    date: String,
    month: String,
    tokens_used_daily: u64,
    cost_usd_monthly: f64,
    runs_rejected_daily: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BudgetShown {
    policy: BudgetPolicy,
    usage: BudgetUse,
}

/// What the file says now.
struct Said {
    config: Config,
    hash: String,
    version: u64,
    changed_at: Option<i64>,
}

impl Said {
    fn stamp(&self, gate: &Gate) -> Stamp {
        Stamp {
            version: self.version,
            updated_at: iso_timestamp(self.changed_at.unwrap_or(gate.shared.started_at)),
            restart_required: self.hash != gate.engine().settings().revision(),
        }
    }
}

/// Works with the file off the tasks that serve sockets, after a change if there is one.
async fn said(gate: &Gate, patch: Option<Value>) -> Result<Said, WireError> {
    let home = gate.engine().home();
    let (file, now) = (ConfigFile::new(home.config_file(), home.revisions()), gate.shared.now());
    let work = move || {
        let env = Env::of_this_process();
        if let Some(patch) = patch {
            file.patch(&patch, None, &env, now).map_err(|error| refused(&error))?;
        }
        let loaded = file.load(&env).map_err(|error| WireError::invalid(error.to_string()))?;
        let newest = file.revisions().ok().and_then(|mut revisions| revisions.pop());
        Ok(Said {
            config: loaded.config,
            hash: loaded.hash,
            version: newest.as_ref().map_or(0, |revision| revision.number),
            changed_at: newest.map(|revision| revision.saved_at_ms),
        })
    };
    let done = tidegate_runtime::spawn_blocking("gateway.rules", work).join().await;
    done.map_err(|end| WireError::unavailable(end.to_string()))?
}

fn refused(error: &EditError) -> WireError {
    WireError::invalid(format!("the configuration would not be valid: {error}"))
}

async fn record(gate: &Gate, action: &'static str, scope: &str, patch: &Value) -> Result<(), WireError> {
    let event = AuditEvent {
        action,
        resource_type: "configuration",
        resource_id: scope.to_owned(),
        metadata: json!({ "patch": patch }),
        now: gate.shared.now(),
    };
    Ok(gate.engine().record(&gate.principal(), event).await?)
}

fn policy_scope(key: Option<&str>) -> Result<(), WireError> {
    match key {
        None | Some(DEFAULT) => Ok(()),
        Some(key) => {
            let message = format!("there is no policy {key:?}; the one policy here is `{DEFAULT}`");
            Err(WireError::invalid(message))
        }
    }
}

fn policy_shown(gate: &Gate, said: &Said) -> Result<PolicyShown, WireError> {
    let scope = gate.engine().settings().scope(None)?;
    let tools = &said.config.tools;
    let default = if tools.profile == ToolProfile::Full { ToolMode::Allow } else { ToolMode::Deny };
    let policy = Policy {
        tenant_id: scope.tenant,
        workspace_id: scope.workspace,
        scope_key: DEFAULT,
        tool_default: default,
        high_risk: tools.high_risk,
        bash_mode: "sandbox",
        tools: tools.modes.clone(),
        stamp: said.stamp(gate),
    };
    Ok(PolicyShown { policy })
}

pub(crate) async fn policy_get(caller: Caller, params: ScopeKey) -> Result<PolicyShown, WireError> {
    policy_scope(params.scope_key.as_deref())?;
    policy_shown(&caller.gate, &said(&caller.gate, None).await?)
}

pub(crate) async fn policy_update(caller: Caller, params: PolicyUpdate) -> Result<PolicyShown, WireError> {
    let gate = &caller.gate;
    policy_scope(params.scope_key.as_deref())?;
    let patch = policy_patch(&said(gate, None).await?.config, params.patch)?;
    let now = said(gate, Some(patch.clone())).await?;
    record(gate, "policy.update", DEFAULT, &patch).await?;
    policy_shown(gate, &now)
}

/// The patch of the file that a patch of the policy means.
fn policy_patch(config: &Config, patch: PolicyPatch) -> Result<Value, WireError> {
    let mut tools = Map::new();
    if patch.bash_mode.is_some_and(|mode| mode != "sandbox") {
        let message =
            "bashMode cannot be changed here; what commands are held to is `sandbox` in the configuration";
        return Err(WireError::invalid(message));
    }
    let full = config.tools.profile == ToolProfile::Full;
    match patch.tool_default {
        Some(Decision::Allow) => {
            tools.insert("profile".into(), json!(ToolProfile::Full));
        }
        Some(Decision::Deny) if full => {
            tools.insert("profile".into(), json!(ToolProfile::default()));
        }
        Some(Decision::ApprovalRequired) => {
            return Err(WireError::invalid("toolDefault must be deny or allow"));
        }
        // A narrower profile than all denies by default already.
        Some(Decision::Deny) | None => {}
    }
    if let Some(decision) = patch.high_risk {
        tools.insert("highRisk".into(), json!(decision.mode()));
    }
    if let Some(rules) = patch.tools {
        let modes: Map<String, Value> =
            rules.into_iter().map(|(tool, rule)| (tool, json!(rule.map(Decision::mode)))).collect();
        tools.insert("modes".into(), Value::Object(modes));
    }
    if tools.is_empty() && patch.tool_default.is_none() {
        return Err(WireError::invalid("patch changes nothing; it has toolDefault, highRisk and tools"));
    }
    Ok(json!({ "tools": tools }))
}

/// Whom a budget is for.
enum Whose {
    Tenant,
    Workspace,
    Agent(String),
}

/// The scope of a key, which must be of this tenant and workspace.
fn whose(scope: &Scope, key: &str) -> Result<Whose, WireError> {
    let parts: Vec<&str> = key.split(':').collect();
    let (tenant, workspace, whose) = match parts.as_slice() {
        ["tenant", tenant] => (*tenant, None, Whose::Tenant),
        ["workspace", tenant, workspace] => (*tenant, Some(*workspace), Whose::Workspace),
        ["agent", tenant, workspace, agent] => (*tenant, Some(*workspace), Whose::Agent((*agent).to_owned())),
        _ => {
            let forms = "`tenant:<t>`, `workspace:<t>:<w>` or `agent:<t>:<w>:<a>`";
            return Err(WireError::invalid(format!("scopeKey {key:?} is none of {forms}")));
        }
    };
    if tenant != scope.tenant.as_str() {
        return Err(WireError::new("TENANT_SCOPE_MISMATCH", "that tenant is not yours"));
    }
    if workspace.is_some_and(|workspace| workspace != scope.workspace.as_str()) {
        return Err(WireError::new("WORKSPACE_SCOPE_MISMATCH", "that workspace is not yours"));
    }
    Ok(whose)
}

fn budget_scope(gate: &Gate, key: Option<String>) -> Result<(String, Whose), WireError> {
    let scope = gate.engine().settings().scope(None)?;
    let key = key.unwrap_or_else(|| format!("workspace:{}:{}", scope.tenant, scope.workspace));
    let whose = whose(&scope, &key)?;
    Ok((key, whose))
}

fn budget_shown(gate: &Gate, said: &Said, key: &str, whose: &Whose) -> BudgetPolicy {
    let budgets = &said.config.budgets;
    let none = Budget::default();
    let budget = match whose {
        Whose::Tenant => &budgets.tenant,
        Whose::Workspace => &budgets.workspace,
        Whose::Agent(agent) => budgets.agents.get(agent).unwrap_or(&none),
    };
    BudgetPolicy {
        scope_key: key.to_owned(),
        token_daily_limit: budget.daily_tokens,
        cost_monthly_usd_limit: budget.monthly_usd,
        hard_limit: budget.hard_limit,
        stamp: said.stamp(gate),
    }
}

pub(crate) async fn budget_get(caller: Caller, params: ScopeKey) -> Result<BudgetShown, WireError> {
    let gate = &caller.gate;
    let (key, whose) = budget_scope(gate, params.scope_key)?;
    let said = said(gate, None).await?;
    budget_with_use(gate, &said, &key, &whose).await
}

async fn budget_with_use(
    gate: &Gate,
    said: &Said,
    key: &str,
    whose: &Whose,
) -> Result<BudgetShown, WireError> {
    let engine = gate.engine();
    let day = engine.settings().zone().day(gate.shared.now());
    let month = day.get(..7).unwrap_or(&day).to_owned();
    let filter = BudgetFilter { scopes: vec![key.to_owned()], periods: Vec::new(), limit: 1000 };
    let rows = engine.library().budgets(engine.tenant(), filter).await?;
    let of = |period: String| rows.iter().find(|row| row.key.period == period);
    let (today, this_month) = (of(format!("day:{day}")), of(format!("month:{month}")));
    let usage = BudgetUse {
        date: day,
        month,
        tokens_used_daily: today.map_or(0, |row| row.used.tokens_spent),
        cost_usd_monthly: this_month.map_or(0.0, |row| row.used.cost_spent.usd()),
        runs_rejected_daily: today.map_or(0, |row| row.rejected),
    };
    Ok(BudgetShown { policy: budget_shown(gate, said, key, whose), usage })
}

pub(crate) async fn budget_update(caller: Caller, params: BudgetUpdate) -> Result<BudgetShown, WireError> {
    let gate = &caller.gate;
    let (key, whose) = budget_scope(gate, params.scope_key)?;
    let limits = budget_patch(params.patch)?;
    let patch = match &whose {
        Whose::Tenant => json!({ "budgets": { "tenant": limits } }),
        Whose::Workspace => json!({ "budgets": { "workspace": limits } }),
        Whose::Agent(agent) => json!({ "budgets": { "agents": { agent: limits } } }),
    };
    let now = said(gate, Some(patch.clone())).await?;
    record(gate, "budget.update", &key, &patch).await?;
    budget_with_use(gate, &now, &key, &whose).await
}

/// The limits in the words of the file. What they may be is checked with the file.
fn budget_patch(patch: Map<String, Value>) -> Result<Map<String, Value>, WireError> {
    const NAMES: [(&str, &str); 3] = [
        ("tokenDailyLimit", "dailyTokens"),
        ("costMonthlyUsdLimit", "monthlyUsd"),
        ("hardLimit", "hardLimit"),
    ];
    let mut limits = Map::new();
    for (name, value) in patch {
        let Some((_, ours)) = NAMES.iter().find(|(theirs, _)| *theirs == name) else {
            let known = NAMES.map(|(theirs, _)| theirs).join(", ");
            return Err(WireError::invalid(format!("patch has no {name:?}; it has {known}")));
        };
        limits.insert((*ours).to_owned(), value);
    }
    if limits.is_empty() {
        return Err(WireError::invalid("patch changes nothing"));
    }
    Ok(limits)
}
