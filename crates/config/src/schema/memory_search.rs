//! Section `agents.defaults.memorySearch`: how an agent finds what was remembered.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MemorySearch {
    /// Whether memory is searched at all.
    pub enabled: bool,
    /// Who computes the vectors; without one the search is by words only.
    pub provider: Option<MemoryProvider>,
    /// The embedding model of that provider.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// How results are found.
    pub query: MemoryQuery,
    /// Vectors kept so that unchanged text is not computed twice.
    pub cache: MemoryCache,
}

impl Default for MemorySearch {
    fn default() -> Self {
        Self {
            enabled: true,
            provider: None,
            model: None,
            query: MemoryQuery::default(),
            cache: MemoryCache::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MemoryProvider {
    /// OpenAI, or a server with the same embeddings API.
    Openai,
    /// Google Gemini.
    Gemini,
    /// A model on this computer.
    Local,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MemoryQuery {
    /// Searching by vector and by words together.
    pub hybrid: HybridSearch,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HybridSearch {
    /// Whether both are used.
    pub enabled: bool,
    /// Weight of the vector score.
    #[schemars(range(min = 0, max = 1))]
    pub vector_weight: f64,
    /// Weight of the word score.
    #[schemars(range(min = 0, max = 1))]
    pub text_weight: f64,
    /// Candidates fetched for each result wanted.
    #[schemars(range(min = 1, max = 20))]
    pub candidate_multiplier: u32,
}

impl Default for HybridSearch {
    fn default() -> Self {
        Self { enabled: true, vector_weight: 0.7, text_weight: 0.3, candidate_multiplier: 4 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MemoryCache {
    /// Whether vectors are kept.
    pub enabled: bool,
    /// Vectors kept at most.
    #[schemars(range(min = 1))]
    pub max_entries: u32,
}

impl Default for MemoryCache {
    fn default() -> Self {
        Self { enabled: true, max_entries: 50_000 }
    }
}
