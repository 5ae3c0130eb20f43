//! Commands: what is understood, what is judged how, and that bash agrees.

mod allowlist;
mod bash;
mod corpus;
mod properties;
mod scene;
mod vectors;
