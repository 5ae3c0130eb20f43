//! What waits to be written to one socket: bounded in bytes. News that the next news replaces may be left out; what must
//! not be lost closes the socket when there is no room for it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::socket::Utf8Bytes;

/// Bytes that may wait for a slow reader.
pub(crate) const LARGEST: usize = 1_572_864;
/// Above this, what may be dropped is: the rest is kept for what may not.
const ROOM_FOR_NEWS: usize = LARGEST / 2;
/// Frames that an idle queue keeps room for.
const IDLE_ROOM: usize = 16;

/// Whether a frame may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    Droppable,
    Kept,
}

/// Why a socket is to be closed from our side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It does not read what it must.
    Slow,
    /// Somebody took its permission away.
    Removed,
}

/// What is written at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) frame: Utf8Bytes,
    /// Nothing follows it for a moment.
    pub(crate) alone: bool,
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Waiting>,
    bytes: usize,
    ending: Option<Ending>,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    /// Somebody put a frame, or the end.
    put: Notify,
    /// The end was put.
    ended: Notify,
}

impl Outbox {
    fn with<T>(&self, work: impl FnOnce(&mut Queue) -> T) -> T {
        work(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts a frame. `false` when it was left out.
    pub(crate) fn put(&self, frame: Utf8Bytes, weight: Weight) -> bool {
        self.queue_up(Waiting { frame, alone: false }, weight)
    }

    /// Puts a frame that must not be lost, and that its reader has to see before whatever comes next.
    pub(crate) fn put_alone(&self, frame: Utf8Bytes) -> bool {
        self.queue_up(Waiting { frame, alone: true }, Weight::Kept)
    }

    fn queue_up(&self, waiting: Waiting, weight: Weight) -> bool {
        let kept = self.with(|queue| {
            if queue.ending.is_some() {
                return false;
            }
            let bytes = queue.bytes + waiting.frame.len();
            // A frame larger than the bound passes when nothing else waits: it was asked for.
            let fits = bytes <= LARGEST || queue.frames.is_empty();
            match weight {
                Weight::Droppable if bytes > ROOM_FOR_NEWS => return false,
                Weight::Kept if !fits => {
                    queue.frames = VecDeque::new();
                    queue.ending = Some(Ending::Slow);
                    return false;
                }
                Weight::Droppable | Weight::Kept => {}
            }
            queue.bytes = bytes;
            queue.frames.push_back(waiting);
            true
        });
        if !kept && self.ending().is_some() {
            self.ended.notify_one();
        }
        self.put.notify_one();
        kept
    }

    /// Closes the socket; what waits is forgotten.
    pub(crate) fn end(&self, ending: Ending) {
        self.with(|queue| {
            queue.frames = VecDeque::new();
            queue.ending.get_or_insert(ending);
        });
        self.ended.notify_one();
        self.put.notify_one();
    }

    /// The next frame. It counts until [`Outbox::wrote`].
    pub(crate) fn next(&self) -> Option<Waiting> {
        self.with(|queue| {
            let frame = queue.frames.pop_front();
            if frame.is_none() && queue.frames.capacity() > IDLE_ROOM {
                queue.frames.shrink_to(0);
            }
            frame
        })
    }

    /// The frame of so many bytes is the system's now.
    pub(crate) fn wrote(&self, bytes: usize) {
        self.with(|queue| queue.bytes = queue.bytes.saturating_sub(bytes));
    }

    pub(crate) fn ending(&self) -> Option<Ending> {
        self.with(|queue| queue.ending)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.with(|queue| queue.frames.is_empty())
    }

    /// Returns once something was put; sometimes for nothing.
    pub(crate) async fn changed(&self) {
        self.put.notified().await;
    }

    /// Returns once the socket is to be closed.
    pub(crate) async fn ended(&self) -> Ending {
        loop {
            if let Some(ending) = self.ending() {
                return ending;
            }
            self.ended.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: usize) -> Utf8Bytes {
        "x".repeat(bytes).into()
    }

    #[test]
    fn news_are_left_out_first_and_what_must_not_be_lost_ends_a_slow_reader() {
        let outbox = Outbox::default();
        assert!(outbox.put(frame(ROOM_FOR_NEWS), Weight::Droppable));
        assert!(!outbox.put(frame(1), Weight::Droppable));
        assert!(outbox.put(frame(LARGEST - ROOM_FOR_NEWS), Weight::Kept));
        assert_eq!(outbox.ending(), None);
        assert!(!outbox.put(frame(1), Weight::Kept));
        assert_eq!(outbox.ending(), Some(Ending::Slow));
        assert_eq!(outbox.next(), None);
    }

    #[test]
    fn what_was_written_makes_room() {
        let outbox = Outbox::default();
        assert!(
            outbox.put(frame(LARGEST * 2), Weight::Kept),
            "an answer larger than the bound is sent alone"
        );
        assert_eq!(outbox.next().map(|waiting| waiting.frame.len()), Some(LARGEST * 2));
        assert!(!outbox.put(frame(1), Weight::Droppable));
        outbox.wrote(LARGEST * 2);
        assert!(outbox.put(frame(1), Weight::Droppable));
    }
}
