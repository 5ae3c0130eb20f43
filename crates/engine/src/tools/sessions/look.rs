//! What the tools that only look have in common: nothing to prepare, a caller, and arguments.

use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_policy::{Permitted, Preparation};
use tidegate_tools::{Output, Place, Tool, ToolFailure, ToolSpec, Work};

use super::caller::Caller;
use super::read;
use crate::start::Core;

/// Of what there may be much: so many without a word about it, and at most.
const USUAL: u32 = 20;
const MOST: u32 = 100;

/// A way to look at conversations.
#[async_trait]
pub(super) trait Look: Send + Sync + 'static {
    type Args: DeserializeOwned + JsonSchema + Send;
    const NAME: &'static str;
    const DESCRIPTION: &'static str;

    async fn look(caller: &Caller, args: Self::Args) -> Result<Output, ToolFailure>;
}

/// It as a tool.
pub(super) struct Looking<L> {
    spec: ToolSpec,
    core: Weak<Core>,
    look: PhantomData<L>,
}

impl<L: Look> Looking<L> {
    pub(super) fn tool(core: &Weak<Core>) -> Arc<dyn Tool> {
        let spec = ToolSpec::of::<L::Args>(L::NAME, L::DESCRIPTION);
        Arc::new(Self { spec, core: Weak::clone(core), look: PhantomData })
    }
}

#[async_trait]
impl<L: Look> Tool for Looking<L> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, _args: &Value, _place: &Place) -> Result<Preparation, ToolFailure> {
        Ok(Preparation::default())
    }

    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        let args: L::Args = read(permitted.prepared().args())?;
        L::look(&Caller::of(&self.core, permitted, work)?, args).await
    }
}

/// How many are shown.
pub(super) fn bounded(limit: Option<u32>) -> u32 {
    limit.unwrap_or(USUAL).min(MOST)
}
