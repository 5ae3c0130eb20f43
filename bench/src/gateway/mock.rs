//! A model that answers every question at once with the same twenty words, as an OpenAI-compatible server.

use std::net::SocketAddr;

use tidegate_runtime::spawn;
use tokio::net::TcpListener;

use super::http::{Connection, Stream};
use crate::store::Fallible;

const WORDS: usize = 20;

/// Starts it on a free port; it ends with the process.
pub(crate) async fn start() -> Fallible<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let answer = answer();
    drop(spawn("bench.model", async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            // A caller that leaves in the middle is no concern of a model.
            drop(spawn("bench.model.caller", async move { drop(serve(stream, &answer).await) }));
        }
    }));
    Ok(address)
}

async fn serve(stream: Stream, answer: &[u8]) -> Fallible<()> {
    let mut connection = Connection::new(stream)?;
    while let Some(head) = connection.head().await? {
        connection.body(&head, |_| {}).await?;
        connection.send(answer).await?;
    }
    Ok(())
}

fn answer() -> Vec<u8> {
    let mut events = String::new();
    for word in 0..WORDS {
        let piece = format!(
            r#"{{"id":"m","object":"chat.completion.chunk","created":1,"model":"mock","choices":[{{"index":0,"delta":{{"content":"word{word} "}},"finish_reason":null}}]}}"#
        );
        events.push_str("data: ");
        events.push_str(&piece);
        events.push_str("\n\n");
    }
    events.push_str(r#"data: {"id":"m","object":"chat.completion.chunk","created":1,"model":"mock","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}}"#);
    events.push_str("\n\ndata: [DONE]\n\n");
    let length = events.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{events}")
        .into_bytes()
}
