//! A plan under way, as whoever started it holds it.

use std::sync::Arc;

use async_trait::async_trait;
use tidegate_policy::{Exit, RunError, Running};
use tokio::sync::{Mutex, watch};

use crate::input::Input;

/// What is wanted of a plan under way. When whoever can want something is gone, it is to end at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Run,
    /// To end by itself, if it does.
    End,
    Kill,
}

/// Dropping it drops the last wish, which the attendant takes for the wish that everything die.
pub(crate) struct HostRun {
    pub(crate) pid: u32,
    pub(crate) wish: watch::Sender<Wish>,
    pub(crate) exit: watch::Receiver<Option<Exit>>,
    /// Emptied when the input was closed or the plan ended.
    pub(crate) input: Arc<Mutex<Option<Input>>>,
}

impl HostRun {
    async fn ended(&self) -> Exit {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.clone().unwrap_or(Exit::Killed),
            Err(_) => Exit::Failed(RunError::Supervisor("nobody attends to it any more".to_owned())),
        }
    }
}

#[async_trait]
impl Running for HostRun {
    fn pid(&self) -> u32 {
        self.pid
    }

    async fn wait(&self) -> Exit {
        self.ended().await
    }

    async fn write(&self, bytes: &[u8]) -> Result<(), RunError> {
        let write = async {
            match self.input.lock().await.as_mut() {
                Some(input) => input.write(bytes).await,
                None => Err(RunError::Ended),
            }
        };
        tokio::select! {
            result = write => result,
            _ = self.ended() => Err(RunError::Ended),
        }
    }

    async fn close_input(&self) -> Result<(), RunError> {
        let close = async {
            match self.input.lock().await.take() {
                Some(input) => input.close().await,
                None => Err(RunError::Ended),
            }
        };
        tokio::select! {
            result = close => result,
            _ = self.ended() => Err(RunError::Ended),
        }
    }

    fn ask_to_end(&self) {
        self.wish.send_if_modified(|wish| {
            let first = *wish == Wish::Run;
            if first {
                *wish = Wish::End;
            }
            first
        });
    }

    fn kill(&self) {
        self.wish.send_replace(Wish::Kill);
    }
}
