//! Requests compared whole; streams read whole and cut at every byte.

mod asked;
mod faults;
mod told;
