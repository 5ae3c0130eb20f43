//! The delivery machine, killed, starved, wedged and drained, on both databases.
//!
//! `tidegate-testkit host` is the real engine among faulty networks whose world is a folder. Whatever happens to it,
//! the world and the store must agree afterwards on everything that was promised; see [`check`].

mod check;
mod kill;
mod world;
