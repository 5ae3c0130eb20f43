//! The way to the hosts of an allowlist: a proxy outside, started for one plan.

use std::any::Any;
use std::io;
use std::path::Path;

/// Starts proxies that lead to some hosts and to nothing else.
pub trait ProxyStarter: Send + Sync {
    /// Listens at a socket in the file system. Dropping what it returns stops it and removes the socket.
    fn start(&self, socket: &Path, hosts: &[String]) -> io::Result<Box<dyn Any + Send + Sync>>;
}
