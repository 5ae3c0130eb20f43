//! Conversations, wherever the home is held.

use tidegate_client::ClientError;
use tidegate_engine::{EngineError, Request, Wish};
use tidegate_policy::Principal;
use tidegate_protocol::api::{ForkSession, Forked, NameSession, PostMessage, Posted};
use tidegate_protocol::{ReplyTarget, RunId, SessionKey};
use tidegate_runtime::{SystemClock, new_id};
use tidegate_storage::SessionChoice;

use super::{CALL, Held, Reach, encoded};
use crate::failure::Failure;

/// What a person types to begin a conversation anew.
const RESET: &str = "/new";

impl Reach {
    /// Makes a log that shares its beginning with another one, and makes it current.
    pub(crate) async fn fork_session(self, key: &SessionKey, asked: &ForkSession) -> Result<Forked, Failure> {
        match self {
            Self::Running(client) => Ok(client.post(&address(key, "fork"), asked, CALL).await?),
            Self::Own(held) => {
                let owner = Principal::local_owner(held.engine.tenant().clone());
                let forked = held.engine.fork_as_asked(&owner, key, asked).await;
                held.let_go().await;
                Ok(forked?)
            }
        }
    }

    /// `false` when there is no such conversation.
    pub(crate) async fn set_title(self, key: &SessionKey, title: Option<&str>) -> Result<bool, Failure> {
        match self {
            Self::Running(client) => {
                let asked = NameSession { title: title.map(str::to_owned) };
                match client.post::<()>(&address(key, "title"), &asked, CALL).await {
                    Ok(()) => Ok(true),
                    Err(ClientError::Server { status: 404, .. }) => Ok(false),
                    Err(error) => Err(error.into()),
                }
            }
            Self::Own(held) => {
                let owner = Principal::local_owner(held.engine.tenant().clone());
                let named = held.engine.set_title(&owner, key, title).await;
                held.let_go().await;
                Ok(named?)
            }
        }
    }

    /// The conversation begins anew, behind whatever is under way in it.
    pub(crate) async fn reset_session(self, key: &SessionKey) -> Result<(), Failure> {
        let run: RunId = new_id(&SystemClock).map_err(EngineError::from)?;
        let client_key = format!("reset-{run}");
        match self {
            Self::Running(client) => {
                let asked = PostMessage { text: RESET.to_owned(), key: client_key, join: None };
                client.post::<Posted>(&address(key, "messages"), &asked, CALL).await?;
            }
            Self::Own(held) => {
                let reset = reset_here(&held, key, client_key).await;
                held.let_go().await;
                reset?;
            }
        }
        Ok(())
    }
}

fn address(key: &SessionKey, verb: &str) -> String {
    format!("/api/v1/sessions/{}/{verb}", encoded(&key.to_string()))
}

async fn reset_here(held: &Held, key: &SessionKey, client_key: String) -> Result<(), EngineError> {
    let engine = &held.engine;
    let request = Request {
        principal: Principal::local_owner(engine.tenant().clone()),
        key: key.clone(),
        session: SessionChoice::Current,
        ephemeral: false,
        text: RESET.to_owned(),
        commands: true,
        client_key: Some(client_key.clone()),
        idempotency: Some(client_key),
        spec: engine.asked_spec(key, &Wish::default()).await?,
        reply: ReplyTarget::Session,
        join: None,
        patience: None,
    };
    engine.submit(request).await?;
    Ok(())
}
