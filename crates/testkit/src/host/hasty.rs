//! People who do not wait: their messages are submitted one behind the other, whatever is under way.

use std::path::Path;

use tidegate_engine::{Engine, EngineError, Request};
use tidegate_policy::Principal;
use tidegate_protocol::{JoinMode, OutboundTarget, ReplyTarget, SessionKey};
use tidegate_runtime::fault;
use tidegate_storage::SessionChoice;

use super::{Account, CHANNEL, GLANCE, scope};
use crate::network::Posted;
use crate::requests::parse;

/// A text that begins with this joins the run under way.
pub const STEERS: &str = "steer";

/// Submits what is not acknowledged, oldest first, and goes on with what comes. Returns only with an error.
pub(super) async fn submit_all(engine: &Engine, world: &Path) -> EngineError {
    let network = Account::Hasty.network(world);
    loop {
        for posted in network.waiting() {
            if let Err(error) = submit(engine, &posted).await {
                return error;
            }
            fault::pause("testkit.hasty.submitted").await;
            network.acknowledge(&posted.id);
        }
        tokio::time::sleep(GLANCE).await;
    }
}

async fn submit(engine: &Engine, posted: &Posted) -> Result<(), EngineError> {
    let scope = scope();
    let target = OutboundTarget { peer_id: posted.peer.clone(), thread_id: None };
    let request = Request {
        principal: Principal::local_owner(scope.tenant.clone()),
        key: SessionKey::named(scope.clone(), &posted.peer),
        session: SessionChoice::Current,
        ephemeral: false,
        text: posted.text.clone(),
        commands: false,
        client_key: None,
        idempotency: Some(format!("hasty:{}", posted.id)),
        spec: engine.settings().inbound_spec(&scope)?,
        reply: ReplyTarget::Channel {
            channel: parse(CHANNEL),
            account_id: Account::Hasty.as_str().to_owned(),
            target,
            in_reply_to: Some(posted.id.clone()),
        },
        join: posted.text.starts_with(STEERS).then_some(JoinMode::Steer),
        patience: None,
    };
    engine.submit(request).await.map(drop)
}
