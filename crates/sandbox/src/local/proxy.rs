//! How programs find the proxy that leads to the hosts of an allowlist.

use std::any::Any;
use std::path::PathBuf;

/// Where the bridge listens inside. The loopback there is the sandbox's own, so that nothing else can be there.
pub(super) const PORT: u16 = 3128;

/// What programs read to find a proxy.
pub(super) const VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// A proxy under way.
pub(super) struct Proxy {
    pub(super) socket: PathBuf,
    /// It ends when this is dropped.
    pub(super) running: Box<dyn Any + Send + Sync>,
}
