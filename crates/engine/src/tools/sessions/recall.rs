//! What came of a call that was cut off. All that these tools change is one run that they start, and it is accepted
//! under a key made from the call: so it is there, or nothing has happened. Only what somebody deleted since is not there
//! either; where that may be so nobody knows what happened.

use std::sync::Arc;

use tidegate_agent::Recalled;
use tidegate_policy::Prepared;
use tidegate_protocol::{RunId, ToolMeta, ToolResult};
use tidegate_storage::{Idempotency, RunLookup};
use tidegate_tools::Output;

use super::caller::Caller;
use super::{call_key, send, spawn};
use crate::error::EngineError;
use crate::start::Core;

/// Whether anything can be found out about calls of this tool.
pub(crate) fn can_recall(tool: &str) -> bool {
    [spawn::NAME, send::NAME].contains(&tool.trim().to_lowercase().as_str())
}

/// Looks for the run that a call of this run was to start. The process that began the call is dead, so none comes later.
pub(crate) async fn recall(
    core: &Arc<Core>,
    run: RunId,
    prepared: &Prepared,
    begun_at: i64,
) -> Result<Recalled, EngineError> {
    let key = match prepared.tool() {
        spawn::NAME => spawn::key_of(run, prepared),
        send::NAME => Some(call_key(run, prepared.call())),
        _ => None,
    };
    let now = core.clock.now_ms();
    let Some(key) = key.filter(|_| core.remembered_until(begun_at) > now) else {
        return Ok(Recalled::Unknown);
    };
    let lookup = RunLookup::Idempotency { key: Idempotency::new(&key, b"", 0).key, now };
    let Some(row) = core.store.run(&core.tenant, &lookup).await? else {
        let caller = Caller::again(core, run, prepared);
        let is_sure = prepared.tool() != send::NAME || send::still_has(&caller, prepared, begun_at).await;
        return Ok(if is_sure { Recalled::Nothing } else { Recalled::Unknown });
    };
    let output = match prepared.tool() {
        spawn::NAME => spawn::answered(&row),
        _ => send::answered(&row, prepared, core.ended(row.id).await?.as_ref()),
    };
    Ok(Recalled::Done(result(prepared.tool(), output)))
}

fn result(tool: &str, output: Output) -> ToolResult {
    ToolResult {
        ok: true,
        content: output.content,
        data: output.data,
        error: None,
        meta: ToolMeta { tool: tool.to_owned(), duration_ms: 0, truncated: output.truncated },
    }
}
