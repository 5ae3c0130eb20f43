//! The way to the hosts of an allowlist: a proxy outside, started for one plan.

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Told a host that a program did not reach, and why.
pub type TurnedAway = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Starts proxies that lead to some hosts and to nothing else.
pub trait ProxyStarter: Send + Sync {
    /// Listens at a socket in the file system. Dropping what it returns stops it and removes the socket. Whoever is
    /// turned away is told once.
    fn start(
        &self,
        socket: &Path,
        hosts: &[String],
        turned_away: TurnedAway,
    ) -> io::Result<Box<dyn Any + Send + Sync>>;
}
