//! Section `budgets`: what may be spent in a day and in a month.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Budgets {
    /// The time zone that days and months begin in, as `Europe/Berlin`; UTC without it.
    #[schemars(length(min = 1))]
    pub timezone: Option<String>,
    /// For everything in this home.
    pub tenant: Budget,
    /// For every workspace, each for itself.
    pub workspace: Budget,
    /// For single agents, by id.
    pub agents: BTreeMap<String, Budget>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Budget {
    /// US dollars a day.
    #[schemars(range(min = 0.0))]
    pub daily_usd: Option<f64>,
    /// US dollars a month.
    #[schemars(range(min = 0.0))]
    pub monthly_usd: Option<f64>,
    /// Tokens a day.
    pub daily_tokens: Option<u32>,
    /// Tokens a month.
    pub monthly_tokens: Option<u32>,
    /// Whether a run that does not fit is refused; otherwise it is only told.
    pub hard_limit: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            daily_usd: None,
            monthly_usd: None,
            daily_tokens: None,
            monthly_tokens: None,
            hard_limit: true,
        }
    }
}
