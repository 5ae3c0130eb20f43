//! One client that hears everything and reads nothing, beside clients that do: theirs must be as it was.

use std::time::Duration;

use serde_json::{Value, json};

use super::chats;
use super::program::Program;
use super::socket::Socket;
use crate::stats::{median, rounded};
use crate::store::{Fallible, goal};

const FAST: usize = 8;
const PIECE: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;

pub(crate) async fn beside_fast_ones(program: &Program) -> Fallible<Value> {
    let target = program.target();
    let (mut alone, mut beside, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let without = chats::drive(&target, FAST, PIECE, 2000 + round).await?;
        let mute = Socket::enter(&target).await?;
        let with = chats::drive(&target, FAST, PIECE, 3000 + round).await?;
        drop(mute);
        ratios.push(with.p99_ms() / without.p99_ms());
        alone.push(without.p99_ms());
        beside.push(with.p99_ms());
    }
    Ok(json!({
        "fast_clients": FAST,
        "p99_ms_alone": rounded(median(alone)),
        "p99_ms_beside_a_slow_one": rounded(median(beside)),
        "ratio": goal(median(ratios), "at most", 1.25),
    }))
}
