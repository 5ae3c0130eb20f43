//! What comes of a question after its answer: subagents that it started end, and what they found is answered too.

use tidegate_engine::Answer;
use tidegate_protocol::SessionKey;

use super::Question;
use super::show::Show;
use crate::chat::{LOOK, Watch};
use crate::reach::Held;
use crate::store::open_existing;

/// The home that is held until everything that was begun in it has ended.
pub(super) struct Later {
    held: Held,
    watch: Option<Watch>,
}

impl Later {
    pub(super) async fn new(question: &Question<'_>, held: Held, answer: &Answer) -> Self {
        let key = SessionKey::named(question.scope.clone(), &question.request.session);
        // Without it the answers are in the conversation all the same.
        let store = open_existing(question.home, &question.loaded.config).await.ok().flatten();
        let mut watch = store.map(|store| Watch::new(store, key, answer.created_at));
        if let Some(watch) = &mut watch {
            watch.knows(answer.run);
        }
        Self { held, watch }
    }

    /// Lets the home go, and shows meanwhile what is still answered.
    pub(super) async fn tell(self, show: &mut Show) {
        let Self { held, watch } = self;
        let leaving = held.let_go();
        let Some(mut watch) = watch else {
            return leaving.await;
        };
        tokio::pin!(leaving);
        loop {
            let left = tokio::select! {
                () = &mut leaving => true,
                () = tokio::time::sleep(LOOK) => false,
            };
            let looked = watch.look().await;
            for one in looked.inspect_err(|error| tracing::debug!(%error, "nothing read")).unwrap_or_default()
            {
                show.elsewhere(&one);
            }
            if left {
                return;
            }
        }
    }
}
