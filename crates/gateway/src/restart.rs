//! Taking a new configuration: how a request asks the process for it, and what it is told.
//!
//! The process that composed the gateway checks the configuration, then ends this gateway in good order and begins the
//! next one. Here is only the way to it: a short queue, each question with its answer.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_protocol::{ErrorBody, ErrorCode};
use tokio::sync::{mpsc, oneshot};

/// Questions that may wait.
const WAITING: usize = 16;
/// How long the check of a configuration may take: it may open a database.
const CHECKED: Duration = Duration::from_secs(20);

/// What whoever asked is told once the new configuration was found good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarting {
    /// How long runs under way may take to end.
    pub drain: Duration,
    /// Another restart was under way: the configuration is taken with it, or right after it.
    pub under_way: bool,
}

/// Somebody wants the configuration that stands in the file now.
pub struct RestartAsk {
    answer: oneshot::Sender<Result<Restarting, ErrorBody>>,
}

impl RestartAsk {
    /// Tells whoever asked. They may be gone.
    pub fn answer(self, told: Result<Restarting, ErrorBody>) {
        let _ = self.answer.send(told);
    }
}

/// Where requests ask. Clones ask the same process.
#[derive(Clone)]
pub struct Restarter {
    asks: mpsc::Sender<RestartAsk>,
}

/// A way to ask for a restart, and where the questions come out.
pub fn restarts() -> (Restarter, mpsc::Receiver<RestartAsk>) {
    let (asks, questions) = mpsc::channel(WAITING);
    (Restarter { asks }, questions)
}

impl Restarter {
    /// Asks, and waits until the configuration was checked.
    pub(crate) async fn ask(&self) -> Result<Restarting, ErrorBody> {
        let (answer, answered) = oneshot::channel();
        let unavailable = |message: &str| ErrorBody::new(ErrorCode::Unavailable, message);
        self.asks
            .try_send(RestartAsk { answer })
            .map_err(|_| unavailable("the gateway ends, or is asked too often; try again in a moment"))?;
        match tokio::time::timeout(CHECKED, answered).await {
            Ok(Ok(told)) => told,
            Ok(Err(_)) => Err(unavailable("the gateway ends")),
            Err(_) => Err(unavailable(
                "the configuration is still being checked, and may be taken; `gateway status` shows what runs",
            )),
        }
    }
}

/// What came of asking, for those who read it on the wire.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RestartTold {
    ok: bool,
    pid: u32,
    mode: &'static str,
    reason: String,
    #[serde(flatten)]
    planned: Option<RestartPlanned>,
}

/// When it happens.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RestartPlanned {
    delay_ms: u64,
    /// How long runs under way have to end.
    drain_ms: u64,
    /// Somebody asked before, and it is under way.
    coalesced: bool,
}

pub(crate) async fn take_configuration(restarter: Option<&Restarter>) -> RestartTold {
    let told = |ok: bool, reason: String, planned| RestartTold {
        ok,
        pid: std::process::id(),
        mode: "in-process",
        reason,
        planned,
    };
    let Some(restarter) = restarter else {
        let reason = "no gateway runs here; the change holds from its next start on";
        return told(false, reason.to_owned(), None);
    };
    match restarter.ask().await {
        Ok(asked) => {
            let drain_ms = u64::try_from(asked.drain.as_millis()).unwrap_or(u64::MAX);
            let planned = RestartPlanned { delay_ms: 0, drain_ms, coalesced: asked.under_way };
            told(true, "the configuration changed".to_owned(), Some(planned))
        }
        Err(error) => told(false, error.message, None),
    }
}
