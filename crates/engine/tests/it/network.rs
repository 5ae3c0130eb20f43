//! A network in memory, and requests that never end by themselves.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use tidegate_engine::Request;
use tidegate_models::{BuiltIn, CannotSpeak, Ledger, Model, ModelEvent, ModelStream, Providers};
use tidegate_protocol::{
    AgentId, ChannelName, Connector, ConnectorError, Doubt, Found, Inbound, InboundMessage, InboundSink,
    OutboundTarget, Part, Peer, PeerKind, Reply, RunSpec, SendOutcome, lane,
};

use crate::{request, spec};

/// A request to the model `wedged`, which begins and never ends.
pub(crate) fn wedged(session: &str) -> Request {
    Request { spec: spec("wedged", 600_000), ..request(session, "wedged") }
}

/// The built-in models, and two that misbehave.
pub(crate) struct Models;

#[async_trait]
impl Providers for Models {
    async fn ready(&self, _: &RunSpec) -> Result<(), CannotSpeak> {
        Ok(())
    }

    fn open(
        &self,
        agent: &AgentId,
        spec: &RunSpec,
        ledger: &Arc<Ledger>,
    ) -> Result<Arc<dyn Model>, CannotSpeak> {
        match spec.models[0].provider.as_str() {
            "wedged" => Ok(Arc::new(Wedged)),
            "panicking" => Ok(Arc::new(Panicking)),
            _ => BuiltIn.open(agent, spec, ledger),
        }
    }
}

struct Wedged;

impl Model for Wedged {
    fn stream(&self, _request: tidegate_models::Request) -> ModelStream {
        let begin = ModelEvent::TextDelta { index: 0, text: "I begin, ".to_owned() };
        Box::pin(futures_util::stream::iter([begin]).chain(futures_util::stream::pending()))
    }
}

struct Panicking;

impl Model for Panicking {
    fn stream(&self, _request: tidegate_models::Request) -> ModelStream {
        panic!("a model that panics")
    }
}

/// No model can be used.
pub(crate) struct NoModels;

#[async_trait]
impl Providers for NoModels {
    async fn ready(&self, _: &RunSpec) -> Result<(), CannotSpeak> {
        Ok(())
    }

    fn open(&self, _: &AgentId, spec: &RunSpec, _: &Arc<Ledger>) -> Result<Arc<dyn Model>, CannotSpeak> {
        Err(CannotSpeak::Unusable { model: spec.models[0].clone(), reason: "not today".to_owned() })
    }
}

/// What a network does with the next send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Send {
    Take,
    /// It arrives, and nobody is told.
    TakeSilently,
    /// It does not arrive, and nobody is told.
    Lose,
    Later,
    Refuse,
    Panic,
    Hang,
}

/// How receiving goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receive {
    Well,
    Panic,
    ReturnAtOnce,
    Refused,
}

/// A reply with this word cannot be rendered.
pub(crate) const UNRENDERABLE: &str = "unrenderable";

pub(crate) struct Memory {
    channel: ChannelName,
    account: String,
    doubt: Doubt,
    receive: Receive,
    pub(crate) begun: AtomicU64,
    inbox: Mutex<VecDeque<Inbound>>,
    posted: tokio::sync::Notify,
    script: Mutex<VecDeque<Send>>,
    /// Texts that everybody sees, with their keys.
    visible: Mutex<Vec<(String, String)>>,
}

impl Memory {
    pub(crate) fn new(account: &str, doubt: Doubt) -> Arc<Self> {
        Self::that(account, doubt, Receive::Well)
    }

    pub(crate) fn that(account: &str, doubt: Doubt, receive: Receive) -> Arc<Self> {
        Arc::new(Self {
            channel: "memory".parse().unwrap(),
            account: account.to_owned(),
            doubt,
            receive,
            begun: AtomicU64::new(0),
            inbox: Mutex::default(),
            posted: tokio::sync::Notify::new(),
            script: Mutex::default(),
            visible: Mutex::default(),
        })
    }

    pub(crate) fn post(&self, peer: &str, id: &str, text: &str) {
        self.post_as(PeerKind::Dm, peer, id, text);
    }

    pub(crate) fn post_as(&self, kind: PeerKind, peer: &str, id: &str, text: &str) {
        self.put(Peer { kind, id: peer.to_owned() }, None, id, text);
    }

    /// A member of a group writes there.
    pub(crate) fn post_in(&self, group: &str, sender: &str, id: &str, text: &str) {
        self.put(Peer { kind: PeerKind::Group, id: group.to_owned() }, Some(sender), id, text);
    }

    fn put(&self, peer: Peer, sender: Option<&str>, id: &str, text: &str) {
        self.inbox.lock().unwrap().push_back(Inbound {
            tenant_id: "local".parse().unwrap(),
            workspace_id: "default".parse().unwrap(),
            channel: self.channel.clone(),
            account_id: self.account.clone(),
            peer,
            sender_id: sender.map(str::to_owned),
            thread_id: None,
            message: InboundMessage { id: id.to_owned(), text: text.to_owned(), attachments: Vec::new() },
            timestamp: 0,
        });
        self.posted.notify_one();
    }

    pub(crate) fn will(&self, sends: &[Send]) {
        self.script.lock().unwrap().extend(sends.iter().cloned());
    }

    pub(crate) fn visible(&self) -> Vec<String> {
        self.visible.lock().unwrap().iter().map(|(_, text)| text.clone()).collect()
    }

    fn show(&self, part: &Part, key: &str) {
        let mut visible = self.visible.lock().unwrap();
        let known = visible.iter().any(|(seen, _)| seen == key);
        if !(known && self.doubt == Doubt::SameKey) {
            visible.push((key.to_owned(), part.body.clone()));
        }
    }
}

#[async_trait]
impl Connector for Memory {
    fn channel(&self) -> &ChannelName {
        &self.channel
    }

    fn account(&self) -> &str {
        &self.account
    }

    async fn receive(&self, sink: Arc<dyn InboundSink>) -> Result<(), ConnectorError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        match self.receive {
            Receive::Well => {}
            Receive::Panic => panic!("a connector that panics"),
            Receive::ReturnAtOnce => return Ok(()),
            Receive::Refused => return Err(ConnectorError::Refused("bad token".to_owned())),
        }
        loop {
            let next = self.inbox.lock().unwrap().front().cloned();
            match next {
                Some(inbound) => {
                    sink.accept(vec![inbound], None).await?;
                    self.inbox.lock().unwrap().pop_front();
                }
                None => self.posted.notified().await,
            }
        }
    }

    fn render(&self, reply: &Reply) -> Vec<Part> {
        assert!(!reply.text.contains(UNRENDERABLE), "a connector that panics");
        let lane = lane(&self.channel, &self.account, &OutboundTarget { ..reply.target.clone() });
        reply.text.split("---").map(|body| Part { body: body.to_owned(), lane: lane.clone() }).collect()
    }

    async fn send(&self, part: &Part, key: &str) -> SendOutcome {
        let next = self.script.lock().unwrap().pop_front().unwrap_or(Send::Take);
        let unknown = || SendOutcome::Unknown { reason: "the line went dead".to_owned() };
        match next {
            Send::Take => {
                self.show(part, key);
                SendOutcome::Sent { id: format!("n-{key}") }
            }
            Send::TakeSilently => {
                self.show(part, key);
                unknown()
            }
            Send::Lose => unknown(),
            Send::Later => SendOutcome::NotSent { retry_at: 0, reason: "slow down".to_owned() },
            Send::Refuse => SendOutcome::Rejected { reason: "blocked".to_owned() },
            Send::Panic => panic!("a connector that panics"),
            Send::Hang => std::future::pending().await,
        }
    }

    fn doubt(&self) -> Doubt {
        self.doubt
    }

    async fn find(&self, _part: &Part, key: &str) -> Found {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let visible = self.visible.lock().unwrap();
        if visible.iter().any(|(seen, _)| seen == key) {
            Found::Sent { id: format!("n-{key}") }
        } else {
            Found::Absent
        }
    }
}
