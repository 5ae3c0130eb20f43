//! Why a request does not fit the configuration.

use tidegate_policy::tools::RuleProblem;
use tidegate_protocol::{ErrorBody, ErrorCode, ModelRef};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("there is no agent {name:?}; known: {known}")]
    NoSuchAgent { name: String, known: String },
    #[error("the model provider {provider:?} is neither known nor configured; known: {known}")]
    UnknownProvider { provider: String, known: String },
    #[error("{text:?} names no model; write provider/model or one of the configured aliases")]
    UnknownModel { text: String },
    #[error("{model} is not one of the models in agents.defaults.models")]
    NotListed { model: ModelRef },
    #[error("policy forbids it ({stage}): {rule}")]
    PolicyDenied { stage: String, rule: String },
    #[error(
        "nobody knows what {model} costs, and a budget in dollars must not be exceeded; give its cost in models.providers"
    )]
    UnknownPrice { model: ModelRef },
    #[error("the rules about tools cannot be used: {0}")]
    ToolRules(#[from] RuleProblem),
}

impl SettingsError {
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoSuchAgent { .. } => ErrorCode::NotFound,
            Self::UnknownProvider { .. } => ErrorCode::UnsupportedProvider,
            Self::UnknownModel { .. } => ErrorCode::InvalidValue,
            Self::NotListed { .. } | Self::PolicyDenied { .. } => ErrorCode::PolicyDenied,
            Self::UnknownPrice { .. } => ErrorCode::BudgetExceeded,
            Self::ToolRules(_) => ErrorCode::ConfigInvalid,
        }
    }

    pub fn body(&self) -> ErrorBody {
        ErrorBody::new(self.code(), self.to_string())
    }
}
