//! Plays a turn into a body, step by step, while the client reads it or goes away.

use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::mpsc;

use super::format::Writer;
use super::turn::{Step, Turn};

/// How a body goes on.
#[derive(Debug)]
pub(crate) enum Piece {
    Bytes(Bytes),
    Break(Breakage),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breakage {
    Reset,
    Close,
}

/// Characters of one piece of text.
const PIECE: usize = 12;
/// What was taken has this long to reach the client, which a break would otherwise overtake.
const BEFORE_BREAK: Duration = Duration::from_millis(30);
/// How often somebody looks whether everything was taken.
const LOOK: Duration = Duration::from_millis(2);

/// The client is gone, or the turn ended otherwise than by its last event.
struct Over;

/// Where the events go. It does to them what the turn asks for all of it: doubling, swapping, cutting.
struct Sink {
    to: mpsc::Sender<Piece>,
    duplicate: bool,
    swap: bool,
    /// An event that waits for the next one to overtake it.
    held: Option<Vec<u8>>,
    split: Option<usize>,
    buffer: Vec<u8>,
}

impl Sink {
    fn new(turn: &Turn, to: mpsc::Sender<Piece>) -> Self {
        let split = turn.steps.iter().find_map(|step| match step {
            Step::SplitEvery(bytes) => Some((*bytes).max(1)),
            _ => None,
        });
        Self {
            to,
            duplicate: turn.steps.contains(&Step::Duplicate),
            swap: turn.steps.contains(&Step::OutOfOrder),
            held: None,
            split,
            buffer: Vec::new(),
        }
    }

    async fn events(&mut self, events: Vec<Vec<u8>>) -> Result<(), Over> {
        for event in events {
            if !self.swap {
                self.event(event).await?;
            } else if let Some(held) = self.held.take() {
                self.event(event).await?;
                self.event(held).await?;
            } else {
                self.held = Some(event);
            }
        }
        Ok(())
    }

    async fn event(&mut self, event: Vec<u8>) -> Result<(), Over> {
        if self.duplicate {
            self.bytes(event.clone()).await?;
        }
        self.bytes(event).await
    }

    async fn bytes(&mut self, bytes: Vec<u8>) -> Result<(), Over> {
        let Some(size) = self.split else { return self.send(bytes).await };
        self.buffer.extend(bytes);
        while self.buffer.len() >= size {
            let rest = self.buffer.split_off(size);
            let piece = std::mem::replace(&mut self.buffer, rest);
            self.send(piece).await?;
        }
        Ok(())
    }

    /// Everything that waits goes out.
    async fn flush(&mut self) -> Result<(), Over> {
        if let Some(held) = self.held.take() {
            self.event(held).await?;
        }
        let rest = std::mem::take(&mut self.buffer);
        self.send(rest).await
    }

    async fn send(&self, bytes: Vec<u8>) -> Result<(), Over> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.to.send(Piece::Bytes(bytes.into())).await.map_err(|_| Over)
    }

    async fn pause(&mut self, time: Duration) -> Result<(), Over> {
        self.flush().await?;
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            () = self.to.closed() => Err(Over),
        }
    }

    /// Breaks the connection after what was sent before: a body that fails takes with it what is not written yet.
    async fn break_off(&mut self, how: Breakage) -> Result<(), Over> {
        self.flush().await?;
        while self.to.capacity() < self.to.max_capacity() {
            self.pause(LOOK).await?;
        }
        self.pause(BEFORE_BREAK).await?;
        self.to.send(Piece::Break(how)).await.map_err(|_| Over)
    }

    /// Does what ends a body before its time, if the step is one that does.
    async fn fault(&mut self, step: &Step) -> Result<(), Over> {
        match step {
            Step::Pause(time) => return self.pause(*time).await,
            Step::Reset => self.break_off(Breakage::Reset).await?,
            Step::Close => self.break_off(Breakage::Close).await?,
            Step::End => self.flush().await?,
            Step::Silence | Step::HalfOpen => {
                self.flush().await?;
                self.to.closed().await;
            }
            _ => return Ok(()),
        }
        Err(Over)
    }
}

/// Plays the turn as a stream.
pub(crate) async fn stream(turn: &Turn, mut writer: Box<dyn Writer>, to: mpsc::Sender<Piece>) {
    let mut sink = Sink::new(turn, to);
    // Whoever went away has been counted where the body was dropped.
    let _ = play(turn, &mut *writer, &mut sink).await;
}

async fn play(turn: &Turn, writer: &mut dyn Writer, sink: &mut Sink) -> Result<(), Over> {
    sink.events(writer.begin()).await?;
    for step in &turn.steps {
        match step {
            Step::Say(text) => {
                for piece in pieces(text) {
                    sink.events(writer.text(piece)).await?;
                }
            }
            Step::Repeat { text, times } => repeat(writer, sink, text, *times).await?,
            Step::Think { text, signature } => {
                for piece in pieces(text) {
                    sink.events(writer.thinking(piece)).await?;
                }
                sink.events(writer.signature(signature)).await?;
            }
            Step::Redacted(data) => sink.events(writer.redacted(data)).await?,
            Step::Call { id, name, arguments } => {
                call(writer, sink, id, name, &arguments.to_string()).await?;
                sink.events(writer.close()).await?;
            }
            Step::PartOfCall { id, name, json } => call(writer, sink, id, name, json).await?,
            Step::ErrorInside(kind) => {
                sink.events(writer.error(*kind)).await?;
                return sink.flush().await;
            }
            Step::Raw(bytes) => sink.bytes(bytes.clone()).await?,
            other => {
                if breaks(other) {
                    let begun = writer.cut();
                    sink.bytes(begun).await?;
                }
                sink.fault(other).await?;
            }
        }
    }
    sink.events(writer.finish(&turn.stop())).await?;
    sink.flush().await
}

/// The same text many times; where the events are the same too, they are made once.
async fn repeat(writer: &mut dyn Writer, sink: &mut Sink, text: &str, times: usize) -> Result<(), Over> {
    let mut made = None;
    for time in 0..times {
        let events = made.clone().unwrap_or_else(|| writer.text(text));
        if time == 1 && writer.repeats() {
            made = Some(events.clone());
        }
        sink.events(events).await?;
    }
    Ok(())
}

/// A call up to the end of its arguments.
async fn call(
    writer: &mut dyn Writer,
    sink: &mut Sink,
    id: &str,
    name: &str,
    json: &str,
) -> Result<(), Over> {
    sink.events(writer.call(id, name)).await?;
    for piece in pieces(json) {
        sink.events(writer.arguments(piece)).await?;
    }
    Ok(())
}

fn breaks(step: &Step) -> bool {
    matches!(step, Step::Reset | Step::Close | Step::End | Step::Silence | Step::HalfOpen)
}

/// Plays the turn as one JSON text. What breaks, breaks in its middle.
pub(crate) async fn whole(turn: &Turn, body: Vec<u8>, to: mpsc::Sender<Piece>) {
    let mut sink = Sink::new(turn, to);
    let _ = play_whole(turn, body, &mut sink).await;
}

async fn play_whole(turn: &Turn, mut body: Vec<u8>, sink: &mut Sink) -> Result<(), Over> {
    if turn.steps.iter().any(breaks) {
        body.truncate(body.len() / 2);
        sink.bytes(std::mem::take(&mut body)).await?;
    }
    for step in &turn.steps {
        sink.fault(step).await?;
    }
    sink.bytes(body).await?;
    sink.flush().await
}

/// A text in pieces, never inside a character.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(PIECE).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_make_the_text_again(text in "\\PC{0,80}") {
            prop_assert_eq!(pieces(&text).collect::<String>(), text.clone());
            prop_assert!(pieces(&text).all(|piece| (1..=PIECE).contains(&piece.chars().count())));
        }
    }
}
