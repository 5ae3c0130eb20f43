//! A connector that misbehaves on purpose: late acknowledgements, messages delivered twice or out of order between
//! peers, lost answers, refusals, outages, panics.
//!
//! The same seed and the same history give the same faults. Whatever it does, it keeps to what a real network promises:
//! an acknowledged message was accepted, and the first deliveries of one peer come in order.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tidegate_protocol::{
    ChannelName, Connector, ConnectorError, Doubt, Found, Inbound, InboundMessage, InboundSink, Part, Peer,
    PeerKind, Reply, Scope, SendOutcome, SinkError, lane,
};
use tidegate_runtime::{Clock, SystemClock, fault};

use super::{Network, Posted};

/// The time between two looks at the script.
const POLL: Duration = Duration::from_millis(5);
/// Messages delivered at once.
const MAX_BATCH: u64 = 5;

/// How often something goes wrong, in a thousand times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// An accepted message is acknowledged one delivery later: a death in between delivers it again.
    pub late_ack: u64,
    /// A message that was delivered before comes once more.
    pub duplicate: u64,
    /// Another peer's message comes first.
    pub reorder: u64,
    /// The message appears, and nobody hears that it did.
    pub lost_answer: u64,
    /// The message does not appear, and the network says so.
    pub not_sent: u64,
    /// The message does not appear, and nobody knows.
    pub lost_send: u64,
    pub rejected: u64,
    /// Reading back fails.
    pub unreadable: u64,
    /// A delivery ends with the loss of the connection, and the next few connections fail.
    pub down: u64,
    /// A delivery ends with a panic.
    pub panic: u64,
}

impl Faults {
    /// Everything, often enough that a short script meets it.
    pub const STORM: Self = Self {
        late_ack: 200,
        duplicate: 150,
        reorder: 500,
        lost_answer: 100,
        not_sent: 150,
        lost_send: 60,
        rejected: 30,
        unreadable: 100,
        down: 80,
        panic: 30,
    };
}

/// How a connector receives, apart from its faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reception {
    #[default]
    Receives,
    /// Ends at once without an error, every time.
    EndsAtOnce,
    /// Never gets a connection.
    Down,
    Panics,
    /// What people write is taken in by somebody else; this one only sends.
    Elsewhere,
}

/// Who connects, and what is wrong with it.
#[derive(Debug, Clone)]
pub struct Character {
    pub channel: ChannelName,
    pub account: String,
    /// Only tenant and workspace are used: whose account it is.
    pub scope: Scope,
    pub seed: u64,
    pub faults: Faults,
    pub reception: Reception,
    pub doubt: Doubt,
}

/// A connector to a [`Network`], with faults.
#[derive(Debug)]
pub struct Faulty {
    network: Network,
    character: Character,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    dice: Dice,
    /// Accepted in this process. The network may not know yet.
    accepted: HashSet<String>,
    /// To be acknowledged with the next delivery.
    owed: Vec<String>,
    /// Connections that still fail.
    outage: u64,
}

impl Faulty {
    pub fn new(network: Network, character: Character) -> Self {
        let dice = Dice::new(character.seed, network.count_start());
        let state = State { dice, accepted: HashSet::new(), owed: Vec::new(), outage: 0 };
        Self { network, character, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn happens(&self, per_thousand: u64) -> bool {
        self.state().dice.below(1000) < per_thousand
    }

    fn still_down(&self) -> bool {
        let mut state = self.state();
        let down = state.outage > 0;
        state.outage = state.outage.saturating_sub(1);
        down
    }

    /// One delivery: what is next, accepted, then acknowledged.
    async fn deliver(&self, sink: &dyn InboundSink) -> Result<(), ConnectorError> {
        let batch = self.next_batch();
        if batch.is_empty() {
            self.acknowledge(&[]);
            tokio::time::sleep(POLL).await;
            return Ok(());
        }
        for posted in &batch {
            self.network.append("delivered", &json!({"id": posted.id}));
        }
        fault::pause("testkit.network.delivered").await;
        let cursor = batch.last().map(|posted| posted.id.clone());
        match sink.accept(batch.iter().map(|posted| self.inbound(posted)).collect(), cursor).await {
            Ok(()) => {}
            Err(SinkError::Retry(_)) => {
                tokio::time::sleep(POLL).await;
                return Ok(());
            }
            Err(closed @ SinkError::Closed) => return Err(closed.into()),
        }
        fault::pause("testkit.network.accepted").await;
        self.acknowledge(&batch);
        if self.happens(self.character.faults.panic) {
            panic_as_asked();
        }
        if self.happens(self.character.faults.down) {
            let mut state = self.state();
            state.outage = state.dice.below(4);
            return Err(ConnectorError::Lost("the network hung up".to_owned()));
        }
        Ok(())
    }

    /// Messages that are not acknowledged, in order for each peer, and now and then one that was delivered before.
    fn next_batch(&self) -> Vec<Posted> {
        let Faults { reorder, duplicate, .. } = self.character.faults;
        let posted = self.network.posted();
        let known: HashSet<String> = self.network.acknowledged().into_iter().collect();
        let mut state = self.state();
        let is_new = |state: &State, it: &Posted| !known.contains(&it.id) && !state.accepted.contains(&it.id);
        let mut waiting: Vec<Posted> = posted.iter().filter(|it| is_new(&state, it)).cloned().collect();
        let size = 1 + state.dice.below(MAX_BATCH);
        let mut batch = Vec::new();
        while !waiting.is_empty() && (batch.len() as u64) < size {
            let mut index = 0;
            if state.dice.below(1000) < reorder {
                let any = state.dice.pick(&waiting).peer.clone();
                // The first of that peer: a network keeps the order inside of a conversation.
                index = waiting.iter().position(|it| it.peer == any).unwrap_or(0);
            }
            batch.push(waiting.remove(index));
        }
        let old: Vec<&Posted> = posted.iter().filter(|it| !is_new(&state, it)).collect();
        if !old.is_empty() && state.dice.below(1000) < duplicate {
            batch.push((*state.dice.pick(&old)).clone());
        }
        if let Some(twice) = batch.last().filter(|_| state.dice.below(1000) < duplicate).cloned() {
            batch.push(twice);
        }
        batch
    }

    /// Tells the network to forget what it delivered; some of it later.
    fn acknowledge(&self, batch: &[Posted]) {
        let late_ack = self.character.faults.late_ack;
        let known = self.network.acknowledged();
        let mut state = self.state();
        let mut now = std::mem::take(&mut state.owed);
        for posted in batch {
            let first = state.accepted.insert(posted.id.clone()) && !known.contains(&posted.id);
            match (first, state.dice.below(1000) < late_ack) {
                (false, _) => {}
                (true, true) => state.owed.push(posted.id.clone()),
                (true, false) => now.push(posted.id.clone()),
            }
        }
        for id in now.iter().filter(|id| !known.contains(id)) {
            self.network.append("acknowledged", &json!({"id": id}));
        }
    }

    /// The message appears; a network that knows keys shows each one once.
    fn put(&self, part: &Part, key: &str) {
        let _one_at_a_time = self.state();
        if self.character.doubt != Doubt::SameKey || !self.network.shows(key) {
            self.network.show(part, key);
        }
    }

    fn inbound(&self, posted: &Posted) -> Inbound {
        let Character { channel, account, scope, .. } = &self.character;
        Inbound {
            tenant_id: scope.tenant.clone(),
            workspace_id: scope.workspace.clone(),
            channel: channel.clone(),
            account_id: account.clone(),
            peer: Peer { kind: PeerKind::Dm, id: posted.peer.clone() },
            sender_id: None,
            thread_id: None,
            message: InboundMessage {
                id: posted.id.clone(),
                text: posted.text.clone(),
                attachments: Vec::new(),
            },
            timestamp: SystemClock.now_ms(),
        }
    }
}

#[expect(clippy::panic, reason = "the fault a test asked for")]
fn panic_as_asked() {
    panic!("the connector panics, as asked");
}

#[async_trait]
impl Connector for Faulty {
    fn channel(&self) -> &ChannelName {
        &self.character.channel
    }

    fn account(&self) -> &str {
        &self.character.account
    }

    async fn receive(&self, sink: Arc<dyn InboundSink>) -> Result<(), ConnectorError> {
        match self.character.reception {
            Reception::Receives => {}
            Reception::EndsAtOnce => return Ok(()),
            Reception::Down => return Err(ConnectorError::Lost("no connection".to_owned())),
            Reception::Panics => panic_as_asked(),
            Reception::Elsewhere => std::future::pending().await,
        }
        if self.still_down() {
            return Err(ConnectorError::Lost("no connection yet".to_owned()));
        }
        loop {
            match self.deliver(sink.as_ref()).await {
                Ok(()) => {}
                Err(ConnectorError::Sink(SinkError::Closed)) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn render(&self, reply: &Reply) -> Vec<Part> {
        fault::point("testkit.network.render");
        let answers = reply.quote.as_ref().map(|quote| quote.message_id.as_str());
        let body = json!({"peer": reply.target.peer_id, "text": reply.text, "answers": answers});
        let lane = lane(&reply.channel, &reply.account_id, &reply.target);
        vec![Part { body: body.to_string(), lane }]
    }

    async fn send(&self, part: &Part, key: &str) -> SendOutcome {
        let Faults { lost_answer, not_sent, lost_send, rejected, .. } = self.character.faults;
        fault::pause("testkit.network.before_send").await;
        let slow = Duration::from_millis(self.state().dice.below(4));
        tokio::time::sleep(slow).await;
        if self.state().outage > 0 || self.happens(not_sent) {
            return SendOutcome::NotSent { retry_at: SystemClock.now_ms() + 10, reason: "busy".to_owned() };
        }
        // A network that knows keys looks the key up first: it does not refuse what it shows.
        let known = self.character.doubt == Doubt::SameKey && self.network.shows(key);
        if self.happens(rejected) && !known {
            return SendOutcome::Rejected { reason: "not welcome".to_owned() };
        }
        if self.happens(lost_send) {
            return SendOutcome::Unknown { reason: "lost on the way".to_owned() };
        }
        self.put(part, key);
        fault::pause("testkit.network.sent").await;
        if self.happens(lost_answer) {
            return SendOutcome::Unknown { reason: "the answer was lost".to_owned() };
        }
        SendOutcome::Sent { id: key.to_owned() }
    }

    fn doubt(&self) -> Doubt {
        self.character.doubt
    }

    async fn find(&self, _part: &Part, key: &str) -> Found {
        if self.character.doubt != Doubt::ReadBack || self.happens(self.character.faults.unreadable) {
            return Found::Unknown { reason: "the network cannot be read".to_owned() };
        }
        if self.network.shows(key) { Found::Sent { id: key.to_owned() } } else { Found::Absent }
    }
}

/// Xorshift: small, and the same on every machine.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// The same seed and the same start give the same numbers.
    pub fn new(seed: u64, start: u64) -> Self {
        let mixed = (seed ^ start.rotate_left(32)).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut dice = Self(mixed | 1);
        // The first numbers of near seeds are near each other.
        for _ in 0..8 {
            dice.next();
        }
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let index = self.below(from.len() as u64);
        &from[usize::try_from(index).unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidegate_protocol::OutboundTarget;
    use tidegate_runtime::{TaskEnd, spawn};

    use super::*;

    fn faulty(folder: &Path, seed: u64, faults: Faults, doubt: Doubt) -> Arc<Faulty> {
        let character = Character {
            channel: "faulty".parse().unwrap(),
            account: "a".to_owned(),
            scope: Scope::personal("main".parse().unwrap()),
            seed,
            faults,
            reception: Reception::Receives,
            doubt,
        };
        Arc::new(Faulty::new(Network::open(folder), character))
    }

    /// Accepts most offers; everything accepted is noted, repetitions too.
    #[derive(Default)]
    struct Sink(Mutex<(Vec<(String, String)>, u64)>);

    impl Sink {
        fn accepted(&self) -> Vec<(String, String)> {
            self.0.lock().unwrap().0.clone()
        }

        /// (peer, id) without the repetitions.
        fn kept(&self) -> Vec<(String, String)> {
            let mut seen = HashSet::new();
            self.accepted().into_iter().filter(|it| seen.insert(it.clone())).collect()
        }
    }

    #[async_trait]
    impl InboundSink for Sink {
        async fn cursor(&self) -> Result<Option<String>, SinkError> {
            Ok(None)
        }

        async fn accept(&self, messages: Vec<Inbound>, _: Option<String>) -> Result<(), SinkError> {
            let mut held = self.0.lock().unwrap();
            held.1 += 1;
            if held.1.is_multiple_of(5) {
                return Err(SinkError::Retry("every fifth".to_owned()));
            }
            held.0.extend(messages.into_iter().map(|it| (it.peer.id, it.message.id)));
            Ok(())
        }
    }

    /// Receives until all is acknowledged, with a new connector whenever one panics: as if the process had died.
    async fn receive_all(folder: &Path, seed: u64, sink: &Arc<Sink>) -> (usize, usize) {
        let network = Network::open(folder);
        let (mut lost, mut panics) = (0, 0);
        let mut connector = faulty(folder, seed, Faults::STORM, Doubt::Blind);
        while network.acknowledged().len() < network.posted().len() {
            let (receiver, into) = (Arc::clone(&connector), Arc::clone(sink));
            let all = network.clone();
            let ended = spawn("receive", async move {
                let done = async {
                    while all.acknowledged().len() < all.posted().len() {
                        tokio::time::sleep(POLL).await;
                    }
                };
                tokio::select! { ended = receiver.receive(into) => Some(ended), () = done => None }
            });
            match ended.join().await {
                Ok(None) => {}
                Ok(Some(Err(ConnectorError::Lost(_)))) => lost += 1,
                Err(TaskEnd::Panicked { .. }) => {
                    panics += 1;
                    connector = faulty(folder, seed, Faults::STORM, Doubt::Blind);
                }
                other => panic!("{other:?}"),
            }
        }
        (lost, panics)
    }

    #[tokio::test]
    async fn in_a_storm_all_arrives_in_order_for_each_peer_and_every_fault_shows_itself() {
        let (mut lost, mut panics, mut repeated, mut reordered) = (0, 0, 0, 0);
        for seed in 0..8 {
            let folder = tempfile::tempdir().unwrap();
            let network = Network::open(folder.path());
            for number in 0..24 {
                network.post(&format!("p{}", number % 3), "hi");
            }
            let sink = Arc::new(Sink::default());
            let (some_lost, some_panics) = receive_all(folder.path(), seed, &sink).await;
            let posted: Vec<_> = network.posted().into_iter().map(|it| (it.peer, it.id)).collect();
            let kept = sink.kept();
            for peer in ["p0", "p1", "p2"] {
                let of = |all: &[(String, String)]| -> Vec<_> {
                    all.iter().filter(|it| it.0 == peer).cloned().collect()
                };
                assert_eq!(of(&kept), of(&posted), "seed {seed}");
            }
            let acknowledged: HashSet<_> = network.acknowledged().into_iter().collect();
            assert_eq!(acknowledged.len(), network.acknowledged().len(), "acknowledged once");
            assert_eq!(network.delivered().len(), 24);
            (lost, panics) = (lost + some_lost, panics + some_panics);
            repeated += sink.accepted().len() - kept.len();
            reordered += usize::from(kept != posted);
        }
        assert!(
            lost > 0 && panics > 0 && repeated > 0 && reordered > 0,
            "{lost} {panics} {repeated} {reordered}"
        );
    }

    fn part(connector: &Faulty) -> Part {
        let reply = Reply {
            channel: "faulty".parse().unwrap(),
            account_id: "a".to_owned(),
            target: OutboundTarget { peer_id: "p".to_owned(), thread_id: None },
            text: "hello".to_owned(),
            attachments: Vec::new(),
            quote: None,
            error: None,
        };
        connector.render(&reply).remove(0)
    }

    #[tokio::test]
    async fn only_an_unknown_send_leaves_open_whether_it_is_to_be_seen() {
        let folder = tempfile::tempdir().unwrap();
        let connector = faulty(folder.path(), 7, Faults::STORM, Doubt::ReadBack);
        let part = part(&connector);
        let mut seen = HashSet::new();
        for number in 0..300 {
            let key = format!("k{number}");
            let outcome = connector.send(&part, &key).await;
            let visible = connector.network.shows(&key);
            let (name, possible) = match outcome {
                SendOutcome::Sent { .. } => ("sent", visible),
                SendOutcome::NotSent { .. } => ("not sent", !visible),
                SendOutcome::Rejected { .. } => ("rejected", !visible),
                SendOutcome::Unknown { .. } => (if visible { "lost answer" } else { "lost send" }, true),
            };
            assert!(possible, "{name}, visible: {visible}");
            seen.insert(name);
            match connector.find(&part, &key).await {
                Found::Sent { .. } => assert!(visible),
                Found::Absent => assert!(!visible),
                Found::Unknown { .. } => drop(seen.insert("unreadable")),
            }
        }
        assert_eq!(seen.len(), 6, "{seen:?}");
        assert_eq!(connector.network.doubled(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_network_that_knows_keys_swallows_the_second_send_and_any_other_shows_it() {
        for (doubt, shown) in [(Doubt::SameKey, 1), (Doubt::ReadBack, 2), (Doubt::Blind, 2)] {
            let folder = tempfile::tempdir().unwrap();
            for _ in 0..2 {
                let connector = faulty(folder.path(), 1, Faults::default(), doubt);
                let sent = connector.send(&part(&connector), "k").await;
                assert_eq!(sent, SendOutcome::Sent { id: "k".to_owned() });
                let found = connector.find(&part(&connector), "k").await;
                assert_eq!(matches!(found, Found::Sent { .. }), doubt == Doubt::ReadBack, "{found:?}");
            }
            let network = Network::open(folder.path());
            assert_eq!(network.visible().len(), shown, "{doubt:?}");
            assert_eq!(network.doubled().len(), shown - 1);
        }
    }

    #[tokio::test]
    async fn a_connector_can_end_at_once_stay_down_or_panic_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        for reception in [Reception::EndsAtOnce, Reception::Down, Reception::Panics] {
            let calm = faulty(folder.path(), 1, Faults::default(), Doubt::Blind);
            let character = Character { reception, ..calm.character.clone() };
            let connector = Arc::new(Faulty::new(calm.network.clone(), character));
            for _ in 0..2 {
                let receiver = Arc::clone(&connector);
                let ended =
                    spawn("receive", async move { receiver.receive(Arc::new(Sink::default())).await });
                match (reception, ended.join().await) {
                    (Reception::EndsAtOnce, Ok(Ok(())))
                    | (Reception::Down, Ok(Err(ConnectorError::Lost(_))))
                    | (Reception::Panics, Err(TaskEnd::Panicked { .. })) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}
