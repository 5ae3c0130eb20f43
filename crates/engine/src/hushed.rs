//! A model that says nothing more once its run is ended: no call begins after that, so that nobody pays for an answer
//! which nobody reads, and what was being said stops.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use tidegate_models::{Model, ModelStream, Request};
use tokio_util::sync::CancellationToken;

/// How a run is told that it is over, and how it says that only a model is left to wait for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ending {
    pub(crate) cancel: CancellationToken,
    pub(crate) idle: CancellationToken,
}

pub(crate) struct Hushed {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) ending: Ending,
}

impl Model for Hushed {
    fn stream(&self, request: Request) -> ModelStream {
        let ending = self.ending.clone();
        if ending.cancel.is_cancelled() {
            ending.idle.cancel();
            return Box::pin(stream::pending());
        }
        let said = self.model.stream(request);
        Box::pin(stream::unfold((said, ending), |(mut said, ending)| async move {
            let next = tokio::select! {
                biased;
                () = ending.cancel.cancelled() => {
                    ending.idle.cancel();
                    std::future::pending().await
                }
                next = said.next() => next,
            };
            next.map(|event| (event, (said, ending)))
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::FutureExt as _;
    use tidegate_models::ModelEvent;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicU32);

    impl Model for Counted {
        fn stream(&self, _request: Request) -> ModelStream {
            self.0.fetch_add(1, Ordering::Relaxed);
            let word = || ModelEvent::TextDelta { index: 0, text: "on and on ".to_owned() };
            Box::pin(stream::repeat_with(word))
        }
    }

    #[tokio::test]
    async fn after_its_end_a_run_asks_no_model_and_hears_no_more_of_one() {
        let counted = Arc::new(Counted::default());
        let ending = Ending::default();
        let hushed = Hushed { model: Arc::clone(&counted) as Arc<dyn Model>, ending: ending.clone() };
        let mut said = hushed.stream(Request::default());
        assert!(said.next().await.is_some());
        ending.cancel.cancel();
        assert!(said.next().now_or_never().is_none());
        assert!(ending.idle.is_cancelled(), "nobody has to wait for it");
        assert!(hushed.stream(Request::default()).next().now_or_never().is_none());
        assert_eq!(counted.0.load(Ordering::Relaxed), 1);
    }
}
