//! What the crate promises, seen from outside.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod exec;
