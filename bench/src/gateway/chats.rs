//! Turns over WebSocket: `chat.send`, then words and the end as events. Everybody hears everybody's, as this protocol has it.

use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_runtime::spawn;

use super::socket::Socket;
use super::turns::{Piece, TURNS_A_SESSION, Target, Turn, joined};
use crate::store::Fallible;

/// So many clients, for so long.
pub(crate) async fn drive(target: &Target, clients: usize, piece: Duration, round: usize) -> Fallible<Piece> {
    let mut sockets = Vec::new();
    for _ in 0..clients {
        sockets.push(Socket::enter(target).await?);
    }
    let start = Instant::now();
    let tasks: Vec<_> = sockets
        .into_iter()
        .enumerate()
        .map(|(client, mut socket)| {
            spawn("bench.chat", async move {
                one(&mut socket, start + piece, &format!("w{round}-{clients}-{client}")).await
            })
        })
        .collect();
    Ok(Piece::new(joined(tasks).await?, start.elapsed()))
}

async fn one(socket: &mut Socket, until: Instant, name: &str) -> Fallible<Vec<Turn>> {
    let mut turns = Vec::new();
    while Instant::now() < until {
        let session = format!("agent:main:{name}-{}", turns.len() / TURNS_A_SESSION);
        turns.push(turn(socket, &session, &format!("{name}-{}", turns.len())).await?);
    }
    Ok(turns)
}

/// One turn: until the event that ends it.
pub(crate) async fn turn(socket: &mut Socket, session: &str, key: &str) -> Fallible<Turn> {
    let start = Instant::now();
    let params = json!({ "sessionKey": session, "message": "hello", "idempotencyKey": key });
    let id = socket.send("chat.send", &params).await?;
    let (answer, run) = (format!(r#""id":"{id}""#), format!(r#""runId":"{key}""#));
    let mut first = None;
    loop {
        let frame = socket.frame().await?;
        if frame.contains(&answer) && frame.contains(r#""ok":false"#) {
            return Err(format!("a turn was refused: {frame}").into());
        }
        if !frame.contains(&run) || !frame.starts_with(r#"{"type":"event""#) {
            continue;
        }
        if first.is_none() && frame.contains("word0") {
            first = Some(start.elapsed());
        }
        if !frame.contains(r#""event":"chat""#) {
            continue;
        }
        if frame.contains(r#""state":"final""#) && frame.contains("word19") {
            let whole = start.elapsed();
            return Ok(Turn { first: first.unwrap_or(whole), whole });
        }
        if frame.contains(r#""state":"error""#) || frame.contains(r#""state":"aborted""#) {
            return Err(format!("a turn failed: {frame}").into());
        }
    }
}
