//! The house: who is there, how it stands, and what it has: models, tools, configuration, usage, the audit trail.

use tidegate_engine::Wish;
use tidegate_protocol::Usage;
use tidegate_protocol::api::{
    AgentRef, AuditList, ConfigView, HealthView, ListAudit, Me, ModelItem, ModelList, Nothing, Status,
    ToolList, UsageDay, UsageOf, UsageView,
};
use tidegate_storage::{UsageFilter, UsageGroup};

use super::news::health_now;
use crate::api;
use crate::methods::Caller;
use crate::ws::frame::WireError;

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Days that are told when nobody says.
const DAYS: u32 = 30;

pub(crate) async fn me(caller: Caller, _: Nothing) -> Result<Me, WireError> {
    Ok(api::status::who_is_there(&caller.gate)?)
}

pub(crate) async fn status(caller: Caller, _: Nothing) -> Result<Status, WireError> {
    Ok(api::status::standing(&caller.gate).await?)
}

pub(crate) async fn health(caller: Caller, _: Nothing) -> Result<HealthView, WireError> {
    Ok(health_now(&caller.gate))
}

pub(crate) async fn config(caller: Caller, _: Nothing) -> Result<ConfigView, WireError> {
    Ok(api::config::shown(&caller.gate).await?)
}

pub(crate) async fn audit(caller: Caller, params: ListAudit) -> Result<AuditList, WireError> {
    Ok(api::audit::listed(&caller.gate, params.limit).await?)
}

pub(crate) async fn models(caller: Caller, params: AgentRef) -> Result<ModelList, WireError> {
    let settings = caller.gate.engine().settings();
    let scope = settings.scope(params.agent.as_deref())?;
    let chain = settings.run_spec(&scope, &Wish::default())?.models;
    let known = settings.catalogue().providers().flat_map(|provider| {
        provider.models.iter().map(|model| ModelItem {
            id: format!("{}/{}", provider.id, model.id),
            name: model.name.clone(),
            provider: provider.id.clone(),
            context_window: u64::from(model.context_window),
            reasoning: model.reasoning,
            images: model.images,
        })
    });
    Ok(ModelList { chain: chain.iter().map(ToString::to_string).collect(), models: known.collect() })
}

pub(crate) async fn tools(caller: Caller, params: AgentRef) -> Result<ToolList, WireError> {
    Ok(ToolList { tools: caller.gate.engine().tools_of(params.agent.as_deref())? })
}

pub(crate) async fn usage(caller: Caller, params: UsageOf) -> Result<UsageView, WireError> {
    let engine = caller.gate.engine();
    let (now, days) = (caller.gate.shared.now(), params.days.unwrap_or(DAYS));
    let agent = params.agent.as_deref().map(|agent| engine.settings().reading_scope(Some(agent)));
    let filter = UsageFilter {
        since_ms: now - i64::from(days) * DAY_MS,
        until_ms: now + DAY_MS,
        agent: agent.transpose()?.map(|scope| scope.agent),
        session: None,
        group: UsageGroup::Day,
        limit: days + 1,
    };
    let rows = engine.library().usage(engine.tenant(), filter).await?;
    let mut total = Usage::default();
    let mut days = Vec::with_capacity(rows.len());
    for row in rows {
        total += row.usage;
        days.push(UsageDay { day: row.group, calls: row.calls, usage: row.usage });
    }
    Ok(UsageView { days, total })
}
