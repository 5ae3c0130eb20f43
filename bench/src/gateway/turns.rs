//! Turns: each client asks, reads the answer to its end, and asks again, in a conversation of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tidegate_runtime::{Task, spawn};
use tokio::time::timeout;

use super::http::{Connection, Stream, find};
use crate::store::Fallible;

/// A conversation is left after so many turns: what is measured is a turn, not a long past.
pub(crate) const TURNS_A_SESSION: usize = 20;
/// A turn that takes longer has failed.
const PATIENCE: Duration = Duration::from_mins(1);

/// Who is asked, and how.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) model: String,
    pub(crate) token: String,
}

impl Target {
    /// The model itself, without a gateway.
    pub(crate) fn model(address: SocketAddr) -> Self {
        Self { address, model: "mock".to_owned(), token: String::new() }
    }

    fn request(&self, user: &str) -> Vec<u8> {
        let body = format!(
            r#"{{"model":"{}","user":"{user}","stream":true,"messages":[{{"role":"user","content":"hello"}}]}}"#,
            self.model
        );
        let (address, token, length) = (self.address, &self.token, body.len());
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

/// How long one turn took: to its first word, and to its end.
pub(crate) struct Turn {
    pub(crate) first: Duration,
    pub(crate) whole: Duration,
}

/// What came of a piece of driving.
pub(crate) struct Piece {
    turns: Vec<Turn>,
    taken: Duration,
}

impl Piece {
    pub(crate) fn new(turns: Vec<Turn>, taken: Duration) -> Self {
        Self { turns, taken }
    }

    pub(crate) fn turns(&self) -> u64 {
        self.turns.len() as u64
    }

    pub(crate) fn a_second(&self) -> f64 {
        self.turns.len() as f64 / self.taken.as_secs_f64()
    }

    pub(crate) fn p50_ms(&self) -> f64 {
        at(self.turns.iter().map(|turn| turn.whole), 50)
    }

    pub(crate) fn p99_ms(&self) -> f64 {
        at(self.turns.iter().map(|turn| turn.whole), 99)
    }

    pub(crate) fn first_ms(&self) -> f64 {
        at(self.turns.iter().map(|turn| turn.first), 50)
    }
}

fn at(durations: impl Iterator<Item = Duration>, percent: usize) -> f64 {
    let mut sorted: Vec<f64> = durations.map(|duration| duration.as_secs_f64() * 1e3).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() * percent / 100).copied().unwrap_or(f64::NAN)
}

/// So many clients, for so long.
pub(crate) async fn drive(target: &Target, clients: usize, piece: Duration, round: usize) -> Fallible<Piece> {
    let start = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let target = target.clone();
            spawn("bench.client", async move {
                one(&target, start + piece, &format!("c{round}-{clients}-{client}")).await
            })
        })
        .collect();
    Ok(Piece::new(joined(tasks).await?, start.elapsed()))
}

/// The turns of all clients; the first that failed fails all.
pub(crate) async fn joined(tasks: Vec<Task<Fallible<Vec<Turn>>>>) -> Fallible<Vec<Turn>> {
    let mut turns = Vec::new();
    for task in tasks {
        turns.extend(task.join().await.map_err(|end| end.to_string())??);
    }
    Ok(turns)
}

async fn one(target: &Target, until: Instant, name: &str) -> Fallible<Vec<Turn>> {
    let mut connection = Connection::new(Stream::connect(target.address).await?)?;
    let mut turns = Vec::new();
    while Instant::now() < until {
        let request = target.request(&format!("{name}-{}", turns.len() / TURNS_A_SESSION));
        let asked = timeout(PATIENCE, turn(&mut connection, &request)).await;
        turns.push(asked.map_err(|_| "a turn did not end within a minute")??);
    }
    Ok(turns)
}

async fn turn(connection: &mut Connection, request: &[u8]) -> Fallible<Turn> {
    let start = Instant::now();
    connection.send(request).await?;
    let head = connection.head().await?.ok_or("hung up")?;
    let mut first = None;
    let body = connection
        .body(&head, |piece| {
            if first.is_none() && find(piece, b"word0").is_some() {
                first = Some(start.elapsed());
            }
        })
        .await?;
    let whole = start.elapsed();
    let complete =
        head.status() == 200 && find(&body, b"word19").is_some() && find(&body, b"[DONE]").is_some();
    if !complete {
        return Err(format!("a turn failed: {} {}", head.status(), String::from_utf8_lossy(&body)).into());
    }
    Ok(Turn { first: first.unwrap_or(whole), whole })
}
