//! The storage verbs on Postgres: a pool of connections under a role that owns nothing.
//!
//! Each verb is one transaction that first says which tenant it works for; row-level security does the rest, so that a
//! statement that forgets its tenant fails instead of showing somebody else's rows. Many processes share one schema:
//! row locks on `session_keys` order the runs of a session, fences stop whoever lost it.

mod abort;
mod absorb;
mod accept;
mod allow_rule;
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
mod role;
mod rows;
mod runs;
mod seal;
mod search;
mod session;
mod settle;
mod shared;
mod standing;
mod sweep;
mod text;
mod transaction;

pub use open::{Mode, PostgresOptions, PostgresStore};
