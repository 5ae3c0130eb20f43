//! The rules of the house. Each module states one and names, when it fails, the file that mends it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod budget;
mod clients;
mod edges;
mod generated;
mod licences;
mod pages;
mod sources;
mod words;
mod workspace;
