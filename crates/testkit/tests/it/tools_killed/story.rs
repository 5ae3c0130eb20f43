//! What people write, and the world they write to.

use std::ops::{Deref, DerefMut};

use serde_json::json;
use tidegate_testkit::host::{Account, Weather, Work};
use tidegate_testkit::network::Dice;
use tidegate_testkit::stores::Location;

use super::script::script;
use crate::delivery::world::World;

const SCRIPT: &str = "script.json";

/// What a world is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Story {
    /// Each message leads to three tools, two of which change something.
    Tools,
    /// Somebody writes while the tools run.
    Steered,
    /// The window is full inside the run and between runs.
    SummedUp,
    /// Each message leads to a run of its own, whose result comes back, and to a message to that one.
    Delegated,
}

impl Story {
    fn accounts(self) -> Vec<Account> {
        match self {
            Self::Tools => vec![Account::SameKey, Account::ReadBack],
            Self::Steered => vec![Account::Hasty],
            Self::SummedUp | Self::Delegated => vec![Account::SameKey],
        }
    }
}

/// A world in which one story is told.
pub(super) struct Stage {
    pub(super) story: Story,
    world: World,
    /// Messages so far, on all accounts.
    messages: usize,
}

impl Deref for Stage {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl DerefMut for Stage {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.world
    }
}

impl Stage {
    pub(super) fn new(story: Story, location: &Location, seed: u64) -> Self {
        let mut world = World::new(location, seed);
        world.plan.accounts = story.accounts();
        world.plan.weather = Weather::Calm;
        world.plan.work = Work::Tools;
        // The host has tools of these names; what they do is in its code.
        let own = json!({"description": "In the host.", "command": ["true"]});
        let config = json!({
            "agents": {"defaults": {"model": {"primary": "demo/m", "fallbacks": []}}},
            "models": {"providers": {"demo": {
                "api": "scripted",
                "script": world.file(SCRIPT),
                "models": [{"id": "m", "contextWindow": 128_000}],
            }}},
            "ui": {"language": "en"},
            "tools": {"profile": "full", "highRisk": "allow", "custom": {"note": own, "look": own}},
        });
        world.configure(&config.to_string());
        Self { story, world, messages: 0 }
    }

    /// Everybody writes something, some of them twice.
    pub(super) fn post(&mut self, dice: &mut Dice) {
        match self.story {
            Story::Tools => {
                self.say(Account::SameKey, "task");
                self.say(Account::SameKey, "task");
                self.say(Account::ReadBack, "task");
            }
            Story::Steered => {
                self.say(Account::Hasty, "task");
                self.say(Account::Hasty, "steer");
                self.say(Account::Hasty, if dice.below(2) == 0 { "task" } else { "steer" });
            }
            Story::SummedUp => {
                self.say(Account::SameKey, "task");
                self.say(Account::SameKey, "task");
            }
            Story::Delegated => {
                self.say(Account::SameKey, "delegate");
                self.say(Account::SameKey, "task");
            }
        }
        let script = script(self.messages, self.story == Story::SummedUp);
        std::fs::write(self.world.file(SCRIPT), script.to_string()).unwrap();
    }

    fn say(&mut self, account: Account, word: &str) {
        self.messages += 1;
        self.world.network(account).post("peer", &format!("{word} {}.", self.messages));
    }
}
