//! One answer being read: bytes in, events out. Pure, so that every way a body can be cut or broken can be tried.

use crate::catalogue::ModelInfo;
use crate::failure::{Failure, FailureKind};
use crate::frames::{self, Cutter};
use crate::request::Request;
use crate::stream::ModelEvent;
use crate::wire::{Decoder, Emit, Wire};

pub(crate) struct Reading {
    cutter: Box<dyn Cutter>,
    decoder: Box<dyn Decoder>,
    emit: Emit,
    over: bool,
}

impl Reading {
    pub(crate) fn new(wire: &dyn Wire, model: &ModelInfo, request: &Request) -> Self {
        let cutter = frames::cutter(wire.framing());
        Self { cutter, decoder: wire.decoder(model, request), emit: Emit::default(), over: false }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if self.over {
            return;
        }
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

    pub(crate) fn next_event(&mut self) -> Option<ModelEvent> {
        self.emit.next_event()
    }
}
