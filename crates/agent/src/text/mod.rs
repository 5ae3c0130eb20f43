//! Streams for people: what of a model's words is shown, and in which portions. Pure: text goes in, text
//! comes out.
//!
//! [`StreamFilter`] takes thoughts, directives, tool text and `NO_REPLY` beside words out of a stream, whatever its deltas are cut
//! like. [`BlockChunker`] cuts what is visible into messages, [`Coalescer`] joins messages that are too
//! short. The rest are questions about whole texts: is it silent, was it sent already, can a person read it.

mod brackets;
mod chunk;
mod coalesce;
mod dedupe;
mod fences;
mod filter;
mod lines;
mod person;
mod silence;
mod tags;
mod tokens;

pub use brackets::Directives;
pub use chunk::{BlockChunker, Chunking, Preference};
pub use coalesce::{Coalescer, Coalescing, Portion};
pub use dedupe::{SentTexts, is_duplicate, normalize};
pub use fences::{FenceSpan, fence_spans};
pub use filter::{Cleaned, FilterOptions, Piece, StreamFilter, clean};
pub use person::for_people;
pub use tokens::{
    HEARTBEAT_OK, HeartbeatMode, NO_REPLY, Stripped, heartbeat_file_is_empty, is_silent, spoken,
    strip_heartbeat,
};
