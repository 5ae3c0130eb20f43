//! The config as its callers see it: files on disk in, typed config or clear errors out.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod concurrent;
mod edit;
mod home;
mod load;
mod reference;
mod revision;
