//! Profiles: ready-made lists of tools to begin with.

use serde::{Deserialize, Serialize};

/// The first stage. Every other one can only take away from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The session's own state and nothing else.
    Minimal,
    /// Reads and lists, changes nothing, reaches nothing.
    #[default]
    Safe,
    /// Files, commands, sessions and memory.
    Coding,
    /// Messages and sessions.
    Messaging,
    /// Every tool. What asks still asks, and the shipped deny list holds.
    Full,
}

const SAFE: [&str; 12] = [
    "time.now",
    "tools.echo",
    "shell.pwd",
    "fs.list_dir",
    "fs.read_file",
    "read",
    "ls",
    "find",
    "grep",
    "session_status",
    "memory_search",
    "memory_get",
];
const CODING: [&str; 8] = [
    "time.now",
    "tools.echo",
    "shell.pwd",
    "group:fs",
    "group:runtime",
    "group:sessions",
    "group:memory",
    "image",
];
const MESSAGING: [&str; 5] =
    ["group:messaging", "sessions_list", "sessions_history", "sessions_send", "session_status"];

impl Profile {
    pub const ALL: [Self; 5] = [Self::Minimal, Self::Safe, Self::Coding, Self::Messaging, Self::Full];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Safe => "safe",
            Self::Coding => "coding",
            Self::Messaging => "messaging",
            Self::Full => "full",
        }
    }

    /// What it has, by name, glob or group.
    pub fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Minimal => &["session_status"],
            Self::Safe => &SAFE,
            Self::Coding => &CODING,
            Self::Messaging => &MESSAGING,
            Self::Full => &["*"],
        }
    }
}
