//! Signing in to servers that want it.

use std::sync::Arc;

use async_trait::async_trait;
use tidegate_net::Client;
use tidegate_secrets::Secret;

use crate::client::{Bearer, ServerSpec};

/// Where keys are kept.
#[async_trait]
pub trait Vault: Send + Sync {}

pub(crate) struct Keys;

impl Keys {
    pub(crate) fn new(_spec: &ServerSpec, _client: Client, _vault: Arc<dyn Vault>) -> Self {
        Self
    }
}

#[async_trait]
impl Bearer for Keys {
    async fn token(&self) -> Option<Secret> {
        None
    }
    async fn renewed(&self, _refused: &Secret) -> Option<Secret> {
        None
    }
}
