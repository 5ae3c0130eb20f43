//! What a network delivered becomes runs: routed, accepted together with the network's cursor, then acknowledged.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_policy::Principal;
use tidegate_protocol::{
    Id as _, Inbound, InboundSink, InboxId, Message, OutboundTarget, PeerKind, Place, ReplyTarget, RunId,
    SessionId, SessionKey, SinkError,
};
use tidegate_runtime::{fault, new_id};
use tidegate_storage::{Accept, Accepted, Admission, Idempotency, Ingest, NewRun, NewSession, StoreError};

use crate::connectors::Supervised;
use crate::error::EngineError;
use crate::execute::Work;
use crate::sessions::{Plan, Standing, Step, Writer};
use crate::start::{Core, Engine};
use crate::submit::before;

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
        // Runs that a message ends, by the place of its own run in the batch.
        let mut ends = Vec::new();
        let mut names = HashSet::new();
        for message in messages {
            let retry = |error: EngineError| SinkError::Retry(error.to_string());
            let name = name_of(&message);
            let again = !names.insert(name.clone());
            let (steps, ended) = core.take_in(message, &name, again, now).await.map_err(retry)?;
            let writer = steps.last().map(|(_, work)| work.principal.clone());
            for (mut accept, mut work) in steps {
                let text = work.input.text();
                let reservation = core.reservation(&work.key, accept.session, &mut work.spec, &text).await;
                accept.reservation = reservation.map_err(|error| self.refuse(&error))?;
                accept.run.spec = work.spec.clone();
                batch.push((accept, work));
            }
            ends.extend(writer.map(|writer| (batch.len() - 1, writer, ended)));
        }
        let lanes = core.scheduler.lanes();
        let permits: Vec<_> =
            batch.iter().map(|(_, work)| lanes.permit_now(work.spec.lane(&work.key))).collect();
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
        ends.retain(|(at, ..)| {
            accepted.get(*at).is_some_and(|told| !matches!(told.admission, Admission::Replayed))
        });
        for (((_, work), permit), Accepted { admission, .. }) in batch.into_iter().zip(permits).zip(accepted)
        {
            if !matches!(admission, Admission::Replayed) {
                core.admitted(work, admission, permit);
            }
        }
        for (_, writer, ended) in ends {
            self.end(&writer, ended).await;
        }
        self.supervised.note(|status| status.last_inbound_at = Some(now));
        Ok(())
    }
}

impl Sink {
    /// Ends what a person wanted ended. Their message is accepted, whatever comes of that.
    async fn end(&self, writer: &Principal, runs: Vec<RunId>) {
        let engine = Engine { core: Arc::clone(&self.core) };
        if let Err(error) = engine.end_all(writer, runs).await {
            tracing::warn!(%error, "a run could not be ended");
        }
    }
}

impl Core {
    /// What a message becomes: one run or two, and what it ends. `again` when it is in the batch twice.
    async fn take_in(
        self: &Arc<Self>,
        inbound: Inbound,
        name: &str,
        again: bool,
        now: i64,
    ) -> Result<(Vec<(Accept, Work)>, Vec<RunId>), EngineError> {
        let scope = self.settings.scope(None)?;
        let key = tidegate_routing::route(&inbound, &scope);
        let spec = self.inbound_spec(&key).await?;
        let person = inbound.sender_id.as_ref().unwrap_or(&inbound.peer.id);
        let principal = Principal::peer(self.tenant.clone(), &inbound.channel, &inbound.account_id, person);
        let standing = match &key.place {
            Place::Group { .. } if self.settings.members_command() => Standing::Full,
            Place::Group { .. } if inbound.sender_id.is_some() => Standing::Member,
            Place::Group { .. } => Standing::Unknown,
            Place::Main | Place::Named { .. } | Place::Dm { .. } | Place::Sub { .. } => Standing::Full,
        };
        let writer = Writer { principal: &principal, key: &key, standing, message: Some(name), again };
        let Plan { first, main, ignored, ends } =
            self.plan(writer, inbound.message.text.clone(), spec).await?;
        let reply = if ignored { ReplyTarget::Session } else { reply_to(&inbound) };
        let mut steps = Vec::new();
        if let Some(first) = first {
            let work = self.work_of(&key, &principal, first, ReplyTarget::Session, now)?;
            let accept = self.accept_of(&work, &before(name), now)?;
            steps.push((accept, work));
        }
        let work = self.work_of(&key, &principal, main, reply, now)?;
        let mut accept = self.accept_of(&work, name, now)?;
        accept.inbound = Some((new_id::<InboxId>(self.clock.as_ref())?, inbound));
        steps.push((accept, work));
        Ok((steps, ends))
    }

    fn work_of(
        &self,
        key: &SessionKey,
        principal: &Principal,
        step: Step,
        reply: ReplyTarget,
        now: i64,
    ) -> Result<Work, EngineError> {
        let run: RunId = new_id(self.clock.as_ref())?;
        Ok(Work {
            run,
            key: key.clone(),
            client_key: Some(run.alias()),
            principal: principal.clone(),
            spec: step.spec,
            input: Message::user(step.text, now),
            reply,
            created_at: now,
        })
    }

    fn accept_of(&self, work: &Work, name: &str, now: i64) -> Result<Accept, EngineError> {
        let session: SessionId = new_id(self.clock.as_ref())?;
        Ok(Accept {
            principal: work.principal.clone(),
            key: work.key.clone(),
            run: NewRun {
                id: work.run,
                client_key: work.client_key.clone(),
                spec: work.spec.clone(),
                input: work.input.clone(),
                reply: work.reply.clone(),
                join: None,
                parent: None,
            },
            session: self.settings.log_of_now(&work.key, now),
            new_session: NewSession { id: session, alias: Some(session.alias()) },
            // The same id twice is the same message, whatever else differs.
            idempotency: Some(Idempotency::new(name, b"inbound", self.redelivered_until(now))),
            inbound: None,
            reservation: None,
            ephemeral: false,
            owner: self.owner,
            claim: false,
            now,
        })
    }
}

fn reply_to(inbound: &Inbound) -> ReplyTarget {
    ReplyTarget::Channel {
        channel: inbound.channel.clone(),
        account_id: inbound.account_id.clone(),
        target: OutboundTarget { peer_id: inbound.peer.id.clone(), thread_id: inbound.thread_id.clone() },
        in_reply_to: Some(inbound.message.id.clone()),
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
