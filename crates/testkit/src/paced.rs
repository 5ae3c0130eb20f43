//! The offline model at a test's pace: each piece of an answer waits until the test lets it through.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use tidegate_models::{BuiltIn, CannotSpeak, Ledger, Model, ModelEvent, ModelStream, Providers, Request};
use tidegate_protocol::{AgentId, RunSpec};
use tokio::sync::Semaphore;

/// Models whose pieces wait. Clones share the pace.
#[derive(Clone)]
pub struct Paced {
    pieces: Arc<Semaphore>,
}

impl Paced {
    /// Nothing is let through yet.
    pub fn held() -> Self {
        Self { pieces: Arc::new(Semaphore::new(0)) }
    }

    /// Lets this many more pieces through, whoever's they are.
    pub fn let_through(&self, pieces: usize) {
        self.pieces.add_permits(pieces);
    }

    /// Holds nothing back any more.
    pub fn open(&self) {
        self.pieces.close();
    }
}

#[async_trait]
impl Providers for Paced {
    async fn ready(&self, spec: &RunSpec) -> Result<(), CannotSpeak> {
        BuiltIn.ready(spec).await
    }

    fn open(
        &self,
        agent: &AgentId,
        spec: &RunSpec,
        ledger: &Arc<Ledger>,
    ) -> Result<Arc<dyn Model>, CannotSpeak> {
        let model = BuiltIn.open(agent, spec, ledger)?;
        Ok(Arc::new(PacedModel { model, pieces: Arc::clone(&self.pieces) }))
    }
}

struct PacedModel {
    model: Arc<dyn Model>,
    pieces: Arc<Semaphore>,
}

impl Model for PacedModel {
    fn stream(&self, request: Request) -> ModelStream {
        let pieces = Arc::clone(&self.pieces);
        let events = self.model.stream(request).then(move |event| {
            let pieces = Arc::clone(&pieces);
            async move {
                if let ModelEvent::TextDelta { .. } = &event
                    && let Ok(piece) = pieces.acquire().await
                {
                    piece.forget();
                }
                event
            }
        });
        Box::pin(events)
    }
}
