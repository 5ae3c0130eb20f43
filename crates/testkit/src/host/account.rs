//! The accounts a host connects to: one for each answer to doubt, and some that are ill.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use rustix::process::{Signal, getpid, kill_process};
use tidegate_protocol::{
    ChannelName, Connector, ConnectorError, Doubt, Found, InboundSink, Part, Reply, Scope, SendOutcome,
};

use crate::network::{Character, Faults, Faulty, Network, Reception};
use crate::requests::parse;

/// A text that a [`Account::Fatal`] connector does not survive.
pub const POISON: &str = "poison";

/// The network of every account.
pub const CHANNEL: &str = "faulty";

/// An account on the faulty network, known by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Account {
    SameKey,
    ReadBack,
    Blind,
    /// Panics whenever it receives.
    Panics,
    /// Stops receiving at once, every time.
    EndsAtOnce,
    /// Never gets a connection.
    Down,
    /// Loses its connection with every delivery.
    Flaps,
    /// Takes the process with it when it renders [`POISON`].
    Fatal,
    /// People who do not wait for an answer: what they write joins the run under way if it says so.
    Hasty,
}

impl Account {
    /// Those that deliver and send, each with another answer to doubt.
    pub const SOUND: [Self; 3] = [Self::SameKey, Self::ReadBack, Self::Blind];
    const ALL: [Self; 9] = [
        Self::SameKey,
        Self::ReadBack,
        Self::Blind,
        Self::Panics,
        Self::EndsAtOnce,
        Self::Down,
        Self::Flaps,
        Self::Fatal,
        Self::Hasty,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::SameKey => "same-key",
            Self::ReadBack => "read-back",
            Self::Blind => "blind",
            Self::Panics => "panics",
            Self::EndsAtOnce => "ends-at-once",
            Self::Down => "down",
            Self::Flaps => "flaps",
            Self::Fatal => "fatal",
            Self::Hasty => "hasty",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|account| account.as_str() == name)
    }

    /// What the outside world sees of it.
    pub fn network(self, world: &Path) -> Network {
        Network::open(&world.join(self.as_str()))
    }

    fn reception(self) -> Reception {
        match self {
            Self::SameKey | Self::ReadBack | Self::Blind | Self::Flaps | Self::Fatal => Reception::Receives,
            Self::Panics => Reception::Panics,
            Self::EndsAtOnce => Reception::EndsAtOnce,
            Self::Down => Reception::Down,
            Self::Hasty => Reception::Elsewhere,
        }
    }

    pub(super) fn receives(self) -> bool {
        matches!(self.reception(), Reception::Receives | Reception::Elsewhere)
    }

    pub(super) fn connect(
        self,
        world: &Path,
        scope: &Scope,
        seed: u64,
        faults: Faults,
    ) -> Arc<dyn Connector> {
        let doubt = match self {
            Self::SameKey | Self::Flaps | Self::Fatal | Self::Hasty => Doubt::SameKey,
            Self::ReadBack => Doubt::ReadBack,
            _ => Doubt::Blind,
        };
        let character = Character {
            channel: parse(CHANNEL),
            account: self.as_str().to_owned(),
            scope: scope.clone(),
            // Each account meets faults of its own.
            seed: seed.wrapping_mul(31).wrapping_add(self as u64),
            faults: if self == Self::Flaps { Faults { down: 1000, ..faults } } else { faults },
            reception: self.reception(),
            doubt,
        };
        let faulty = Faulty::new(self.network(world), character);
        if self == Self::Fatal { Arc::new(Fatal(faulty)) } else { Arc::new(faulty) }
    }
}

/// A connector with a fault that no `catch_unwind` holds: one text kills the process.
struct Fatal(Faulty);

#[async_trait]
impl Connector for Fatal {
    fn channel(&self) -> &ChannelName {
        self.0.channel()
    }

    fn account(&self) -> &str {
        self.0.account()
    }

    async fn receive(&self, sink: Arc<dyn InboundSink>) -> Result<(), ConnectorError> {
        self.0.receive(sink).await
    }

    fn render(&self, reply: &Reply) -> Vec<Part> {
        if reply.text.contains(POISON) {
            kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
        }
        self.0.render(reply)
    }

    async fn send(&self, part: &Part, key: &str) -> SendOutcome {
        self.0.send(part, key).await
    }

    fn doubt(&self) -> Doubt {
        self.0.doubt()
    }

    async fn find(&self, part: &Part, key: &str) -> Found {
        self.0.find(part, key).await
    }
}
