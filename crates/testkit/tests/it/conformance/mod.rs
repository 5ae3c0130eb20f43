//! Every verb: its ordinary result, its errors, and what it promises when others work at the same time.

mod abort;
mod accept;
mod claim;
mod clock;
mod concurrency;
mod contents;
mod delete;
mod fences;
mod finish;
mod instances;
mod journal;
mod library;
mod mirror;
mod opening;
mod outbox;
mod recover;
mod takeover;
mod tenants;
mod unknown;
