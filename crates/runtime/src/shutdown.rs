//! Shutdown: one token that everything long-lived listens to.

use tokio_util::sync::CancellationToken;

/// Asks everything that listens to stop. Clones share the request.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
}

impl Shutdown {
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for the end. Asking twice is the same as once.
    pub fn request(&self) {
        self.token.cancel();
    }

    pub fn is_requested(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns when the end was asked for.
    pub async fn requested(&self) {
        self.token.cancelled().await;
    }

    /// Asks for the end at the first SIGINT, SIGTERM or SIGHUP; returns the signal's conventional exit code (128 + number).
    pub async fn on_signal(&self) -> std::io::Result<i32> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let code = tokio::select! {
            _ = hang_up.recv() => 129,
            _ = interrupt.recv() => 130,
            _ = terminate.recv() => 143,
        };
        self.request();
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_clone_hears_the_request() {
        let shutdown = Shutdown::new();
        let listener = shutdown.clone();
        assert!(!listener.is_requested());
        shutdown.request();
        listener.requested().await;
        assert!(listener.is_requested());
    }
}
