//! One answer being read: bytes in, events out. Pure, so that every way a body can be cut or broken can be tried.

use tidegate_protocol::Usage;

use crate::catalogue::ModelInfo;
use crate::failure::{Failure, FailureKind};
use crate::frames::{self, Cutter};
use crate::request::Request;
use crate::stream::ModelEvent;
use crate::wire::{Decoder, Emit, Wire};

/// Most bytes of one answer: many times the longest that any model gives. Blocks are kept whole until they end, so a server
/// that never stops must be stopped.
const MOST_ANSWER: usize = 64 << 20;

pub(crate) struct Reading {
    /// Bytes that may still come.
    left: usize,
    cutter: Box<dyn Cutter>,
    decoder: Box<dyn Decoder>,
    emit: Emit,
    over: bool,
}

impl Reading {
    pub(crate) fn new(wire: &dyn Wire, model: &ModelInfo, request: &Request) -> Self {
        let cutter = frames::cutter(wire.framing());
        let decoder = wire.decoder(model, request);
        Self { left: MOST_ANSWER, cutter, decoder, emit: Emit::default(), over: false }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if self.over {
            return;
        }
        let Some(left) = self.left.checked_sub(bytes.len()) else {
            let message = format!("the answer is larger than {MOST_ANSWER} bytes");
            return self.broke(Failure::new(FailureKind::Broken, message));
        };
        self.left = left;
        let Self { cutter, decoder, emit, .. } = self;
        if let Err(failure) = cutter.push(bytes, &mut |frame| decoder.frame(frame, emit)) {
            self.broke(failure);
        }
    }

    /// The body ended.
    pub(crate) fn end(&mut self) {
        if self.over {
            return;
        }
        let Self { cutter, decoder, emit, .. } = self;
        let read = cutter.end(&mut |frame| decoder.frame(frame, emit)).and_then(|()| decoder.end(emit));
        match (read, self.emit.stop_reason()) {
            (Err(failure), _) => self.broke(failure),
            (Ok(()), None) => self.broke(Failure::new(FailureKind::Broken, "the model's answer broke off")),
            (Ok(()), Some(reason)) => {
                self.over = true;
                if self.emit.has_begun() {
                    self.emit.conclude(reason);
                } else {
                    self.emit.fail(Failure::new(FailureKind::Empty, "the model gave an empty answer"));
                }
            }
        }
    }

    /// The connection, or what came over it, is no good.
    pub(crate) fn broke(&mut self, failure: Failure) {
        if !self.over {
            self.over = true;
            // What came after a whole answer does not make it less whole.
            match self.emit.stop_reason().filter(|_| self.emit.has_begun()) {
                Some(reason) => self.emit.conclude(reason),
                None => self.emit.fail(failure),
            }
        }
    }

    /// The tokens that are known by now.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.emit.known_usage()
    }

    /// Whether the model said why it stops: what may still come is its count of tokens.
    pub(crate) fn has_stopped(&self) -> bool {
        self.emit.stop_reason().is_some()
    }

    pub(crate) fn next_event(&mut self) -> Option<ModelEvent> {
        self.emit.next_event()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Api;
    use crate::wire;

    #[test]
    fn a_server_that_never_stops_is_stopped_and_what_it_said_stays() {
        let model = wire::testing::model(Api::Ollama);
        let wire = wire::of(Api::Ollama).unwrap();
        let mut reading = Reading::new(wire.as_ref(), &model, &Request::default());
        let line = format!("{{\"message\": {{\"content\": \"{}\"}}}}\n", "x".repeat(4 << 20));
        let mut last = None;
        for _ in 0..17 {
            reading.feed(line.as_bytes());
            while let Some(event) = reading.next_event() {
                last = Some(event);
            }
        }
        assert!(matches!(last, Some(ModelEvent::Failed(failure)) if failure.kind == FailureKind::Broken));
    }
}
