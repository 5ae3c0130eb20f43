//! The gateway from outside: the real program, started, used through its files, its port and its commands, killed, and
//! started again. What is tested is what a user was promised; nothing here looks inside the program.

mod audit;
mod beside;
mod drain;
mod errors;
mod files;
mod full;
pub(crate) mod homes;
pub(crate) mod http;
mod joining;
mod kills;
mod link;
pub(crate) mod live;
mod port;
mod services;
mod socket;
mod undelivered;
