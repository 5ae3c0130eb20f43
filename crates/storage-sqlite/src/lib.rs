//! The storage verbs on SQLite: one file, one writer thread with group commit, any number of readers.
//!
//! A batch is whatever queued while the last commit was syncing: no timer, a savepoint each, everybody answered after
//! COMMIT returned. One process writes a home (the engine's lock sees to that); readers of other processes open the
//! file read-only and never migrate it.

mod abort;
mod absorb;
mod accept;
mod append;
mod approval;
mod audit;
mod budget;
mod chain;
mod claim;
mod context;
mod decide;
mod error;
mod finish;
mod fork;
mod inbox;
mod instance;
mod journal;
mod keys;
mod ledger;
mod library;
mod migrate;
mod mirror;
mod open;
mod outbox;
mod readers;
mod rows;
mod runs;
mod seal;
mod search;
mod session;
mod settle;
mod shared;
mod standing;
mod sweep;
mod wal;
mod writer;

pub use open::{Mode, SqliteOptions, SqliteStore};
