//! What a network delivered becomes runs: routed, accepted together with the network's cursor, then acknowledged.

use std::sync::Arc;

use async_trait::async_trait;
use tidegate_policy::Principal;
use tidegate_protocol::{
    Id as _, Inbound, InboundSink, InboxId, Message, OutboundTarget, PeerKind, ReplyTarget, RunId, SessionId,
    SinkError,
};
use tidegate_runtime::{fault, new_id};
use tidegate_storage::{
    Accept, Accepted, Admission, Idempotency, Ingest, NewRun, NewSession, SessionChoice, StoreError,
};

use crate::connectors::Supervised;
use crate::error::EngineError;
use crate::execute::Work;
use crate::start::Core;

/// Where one connector puts what it received.
#[derive(Clone)]
pub(crate) struct Sink {
    core: Arc<Core>,
    supervised: Arc<Supervised>,
}

impl Sink {
    pub(crate) fn new(core: Arc<Core>, supervised: Arc<Supervised>) -> Self {
        Self { core, supervised }
    }

    fn refuse(&self, error: &StoreError) -> SinkError {
        self.core.watch(error);
        match error {
            StoreError::StaleFence => {
                self.core.superseded();
                SinkError::Closed
            }
            error if error.is_fatal() => SinkError::Closed,
            error => SinkError::Retry(error.to_string()),
        }
    }
}

#[async_trait]
impl InboundSink for Sink {
    async fn cursor(&self) -> Result<Option<String>, SinkError> {
        let (core, connector) = (&self.core, &self.supervised.connector);
        let cursor = core.store.cursor(&core.tenant, connector.channel(), connector.account()).await;
        cursor.map_err(|error| self.refuse(&error))
    }

    async fn accept(&self, messages: Vec<Inbound>, cursor: Option<String>) -> Result<(), SinkError> {
        let sink = self.clone();
        let taken = self.core.unbroken("ingest", async move { sink.take(messages, cursor).await }).await;
        taken.unwrap_or_else(|error| Err(SinkError::Retry(error.to_string())))
    }
}

impl Sink {
    async fn take(self, messages: Vec<Inbound>, cursor: Option<String>) -> Result<(), SinkError> {
        let core = &self.core;
        if core.closing.is_requested() {
            return Err(SinkError::Closed);
        }
        let now = core.clock.now_ms();
        let mut batch = Vec::with_capacity(messages.len());
        for message in messages {
            let retry = |error: EngineError| SinkError::Retry(error.to_string());
            let (mut accept, mut work) = core.take_in(message, now).map_err(retry)?;
            let text = work.input.text();
            let reservation = core.reservation(&work.key, accept.session, &mut work.spec, &text).await;
            accept.reservation = reservation.map_err(|error| self.refuse(&error))?;
            accept.run.spec = work.spec.clone();
            batch.push((accept, work));
        }
        let permits: Vec<_> = batch.iter().map(|_| core.scheduler.permit_now()).collect();
        for ((accept, _), permit) in batch.iter_mut().zip(&permits) {
            accept.claim = permit.is_some();
        }
        let ingest = Ingest {
            tenant: core.tenant.clone(),
            owner: core.owner,
            channel: self.supervised.connector.channel().clone(),
            account_id: self.supervised.connector.account().to_owned(),
            messages: batch.iter().map(|(accept, _)| accept.clone()).collect(),
            cursor,
            now,
        };
        fault::pause("engine.ingest.received").await;
        let accepted = core.store.ingest(ingest).await.map_err(|error| self.refuse(&error))?;
        fault::pause("engine.ingest.accepted").await;
        for (((_, work), permit), Accepted { admission, .. }) in batch.into_iter().zip(permits).zip(accepted)
        {
            if !matches!(admission, Admission::Replayed) {
                core.admitted(work, admission, permit);
            }
        }
        self.supervised.note(|status| status.last_inbound_at = Some(now));
        Ok(())
    }
}

impl Core {
    /// What a message becomes: where it belongs, what its run is promised, and how it is known again.
    fn take_in(&self, inbound: Inbound, now: i64) -> Result<(Accept, Work), EngineError> {
        let scope = self.settings.scope(None)?;
        let key = tidegate_routing::route(&inbound, &scope);
        let run: RunId = new_id(self.clock.as_ref())?;
        let session: SessionId = new_id(self.clock.as_ref())?;
        let inbox: InboxId = new_id(self.clock.as_ref())?;
        let work = Work {
            run,
            key: key.clone(),
            client_key: Some(run.alias()),
            principal: Principal::peer(
                self.tenant.clone(),
                &inbound.channel,
                &inbound.account_id,
                &inbound.peer.id,
            ),
            spec: self.settings.inbound_spec(&scope)?,
            input: Message::user(inbound.message.text.clone(), now),
            reply: ReplyTarget::Channel {
                channel: inbound.channel.clone(),
                account_id: inbound.account_id.clone(),
                target: OutboundTarget {
                    peer_id: inbound.peer.id.clone(),
                    thread_id: inbound.thread_id.clone(),
                },
                in_reply_to: Some(inbound.message.id.clone()),
            },
            created_at: now,
        };
        let expires_at = self.remembered_until(now);
        let accept = Accept {
            principal: work.principal.clone(),
            key,
            run: NewRun {
                id: run,
                client_key: work.client_key.clone(),
                spec: work.spec.clone(),
                input: work.input.clone(),
                reply: work.reply.clone(),
            },
            session: SessionChoice::Current,
            new_session: NewSession { id: session, alias: Some(session.alias()) },
            // The same id twice is the same message, whatever else differs.
            idempotency: Some(Idempotency::new(&name_of(&inbound), b"inbound", expires_at)),
            inbound: Some((inbox, inbound)),
            reservation: None,
            ephemeral: false,
            owner: self.owner,
            claim: false,
            now,
        };
        Ok((accept, work))
    }
}

/// The message's name in the whole tenant: networks count their ids a chat.
fn name_of(inbound: &Inbound) -> String {
    let kind = match inbound.peer.kind {
        PeerKind::Dm => "dm",
        PeerKind::Group => "group",
        PeerKind::Channel => "channel",
    };
    let parts = [inbound.channel.as_str(), &inbound.account_id, kind, &inbound.peer.id, &inbound.message.id];
    serde_json::json!(parts).to_string()
}
