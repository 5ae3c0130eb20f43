//! The providers and models this program knows by itself: one file a provider in `data/`, part of the binary.
//!
//! A file is data only. What a model does not say of itself it has from its provider; what nobody knows, such as a price,
//! is absent and never guessed.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_secrets::Secret;

use super::compat::Compat;
use super::info::{Api, ModelInfo, Price};

/// A provider, ready to be used once there is a credential.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownProvider {
    pub id: String,
    /// The name people see.
    pub name: String,
    /// What its models speak, if one does not say otherwise.
    pub api: Api,
    /// Without a slash at the end. Empty where there is no common one: it is then made from a region, or configured.
    pub base_url: String,
    /// Environment variables that may hold a key; the first that is set counts.
    pub key_variables: Vec<String>,
    /// Whether it answers without a key, as a server on this machine does.
    pub keyless: bool,
    /// Whether a person must log in, because keys do not exist.
    pub login_only: bool,
    /// Where a person gets a key.
    pub docs: Option<String>,
    pub headers: Vec<(String, Secret)>,
    pub compat: Compat,
    pub models: Vec<ModelInfo>,
    pub embeddings: Vec<EmbeddingInfo>,
}

/// A model that turns text into vectors.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingInfo {
    pub provider: String,
    /// The id at the provider.
    pub id: String,
    /// What the provider's models speak; the format of embeddings follows from it.
    pub api: Api,
    /// Without a slash at the end.
    pub base_url: String,
    /// Numbers in a vector; absent when nobody knows before the first answer.
    pub dimensions: Option<u32>,
    /// Absent when nobody knows it.
    pub price: Option<Price>,
    pub headers: Vec<(String, Secret)>,
}

impl KnownProvider {
    pub fn model(&self, id: &str) -> Option<&ModelInfo> {
        self.models.iter().find(|model| model.id == id)
    }

    pub fn embedding(&self, id: &str) -> Option<&EmbeddingInfo> {
        self.embeddings.iter().find(|model| model.id == id)
    }

    /// A model no file knows, with modest guesses. It costs nothing only where the server is a person's own.
    pub fn unlisted(&self, id: &str) -> ModelInfo {
        ModelInfo {
            provider: self.id.clone(),
            id: id.to_owned(),
            name: id.to_owned(),
            api: self.api,
            base_url: self.base_url.clone(),
            context_window: 128_000,
            max_tokens: 8_192,
            reasoning: false,
            images: false,
            tools: true,
            price: self.keyless.then(Price::default),
            headers: self.headers.clone(),
            compat: self.compat.clone(),
        }
    }
}

/// Every known provider, sorted by its id.
pub fn known() -> &'static [KnownProvider] {
    // A file that cannot be read would be a defect of the build; a test reads them all.
    static KNOWN: LazyLock<Vec<KnownProvider>> =
        LazyLock::new(|| FILES.iter().filter_map(|(_, text)| read(text).ok()).collect());
    &KNOWN
}

/// The provider of that name, however it is written.
pub fn known_provider(id: &str) -> Option<&'static KnownProvider> {
    let id = super::reference::normalize_provider(id);
    known().iter().find(|provider| provider.id == id)
}

macro_rules! files {
    ($($id:literal)*) => {
        /// Each file of `data/` by its provider's id.
        const FILES: &[(&str, &str)] = &[$(($id, include_str!(concat!("../../data/", $id, ".json")))),*];
    };
}

files! {
    "amazon-bedrock" "anthropic" "azure-openai" "cerebras" "chutes" "deepseek" "fireworks" "github-copilot" "google"
    "groq" "huggingface" "kimi-coding" "llamacpp" "lmstudio" "minimax" "minimax-cn" "mistral" "moonshot" "nvidia"
    "ollama" "openai" "openai-codex" "opencode" "openrouter" "perplexity" "qwen-portal" "sambanova" "synthetic"
    "together" "venice" "vercel-ai-gateway" "vllm" "xai" "zai"
}

/// A file as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    id: String,
    name: String,
    api: Api,
    #[serde(default)]
    base_url: String,
    key_variables: Vec<String>,
    #[serde(default)]
    keyless: bool,
    #[serde(default)]
    login_only: bool,
    docs: Option<String>,
    #[serde(default)]
    compat: Map<String, Value>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    models: Vec<FileModel>,
    #[serde(default)]
    embeddings: Vec<FileEmbedding>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileModel {
    id: String,
    name: String,
    api: Option<Api>,
    base_url: Option<String>,
    context_window: u32,
    max_tokens: u32,
    reasoning: bool,
    images: bool,
    tools: Option<bool>,
    price: Option<Price>,
    #[serde(default)]
    compat: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileEmbedding {
    id: String,
    dimensions: Option<u32>,
    price: Option<Price>,
}

fn read(text: &str) -> Result<KnownProvider, serde_json::Error> {
    let File {
        id,
        name,
        api,
        base_url,
        key_variables,
        keyless,
        login_only,
        docs,
        compat,
        headers,
        models,
        embeddings,
    } = serde_json::from_str(text)?;
    let headers: Vec<_> = headers.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
    let models = models.into_iter().map(|model| {
        let mut switches = compat.clone();
        switches.extend(model.compat);
        Ok(ModelInfo {
            provider: id.clone(),
            id: model.id,
            name: model.name,
            api: model.api.unwrap_or(api),
            base_url: model.base_url.unwrap_or_else(|| base_url.clone()),
            context_window: model.context_window,
            max_tokens: model.max_tokens,
            reasoning: model.reasoning,
            images: model.images,
            tools: model.tools.unwrap_or(true),
            price: model.price,
            headers: headers.clone(),
            compat: serde_json::from_value(Value::Object(switches))?,
        })
    });
    let models = models.collect::<Result<_, serde_json::Error>>()?;
    let embeddings = embeddings.into_iter().map(|model| EmbeddingInfo {
        provider: id.clone(),
        id: model.id,
        api,
        base_url: base_url.clone(),
        dimensions: model.dimensions,
        price: model.price,
        headers: headers.clone(),
    });
    let embeddings = embeddings.collect();
    let compat = serde_json::from_value(Value::Object(compat))?;
    Ok(KnownProvider {
        id,
        name,
        api,
        base_url,
        key_variables,
        keyless,
        login_only,
        docs,
        headers,
        compat,
        models,
        embeddings,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn is_local(url: &str) -> bool {
        url.starts_with("http://127.0.0.1:")
    }

    fn is_fair(price: &Price) -> bool {
        [price.input, price.output, price.cache_read, price.cache_write].iter().all(|part| *part >= 0.0)
    }

    #[test]
    fn every_file_of_the_folder_is_in_the_list_and_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
        let found: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let listed: BTreeSet<String> = FILES.iter().map(|(id, _)| format!("{id}.json")).collect();
        assert_eq!(found, listed);
        for (id, text) in FILES {
            let provider = read(text).unwrap_or_else(|error| panic!("{id}.json: {error}"));
            assert_eq!(provider.id, *id);
        }
        assert_eq!(known().len(), FILES.len());
    }

    #[test]
    fn there_are_many_providers_and_no_name_stands_for_two() {
        assert!(known().len() >= 30);
        for provider in known() {
            assert_eq!(crate::normalize_provider(&provider.id), provider.id);
            let ids: BTreeSet<_> = provider.models.iter().map(|model| &model.id).collect();
            assert_eq!(ids.len(), provider.models.len(), "{}", provider.id);
            assert_eq!(known_provider(&provider.id), Some(provider));
        }
        assert!(known().is_sorted_by(|one, other| one.id < other.id));
    }

    #[test]
    fn every_provider_can_be_reached_and_paid() {
        let without_url = ["amazon-bedrock", "azure-openai"];
        for provider in known() {
            let id = provider.id.as_str();
            let urls = provider.models.iter().map(|model| &model.base_url).chain([&provider.base_url]);
            for url in urls {
                let known = url.starts_with("https://") || provider.keyless && is_local(url);
                assert!(known || without_url.contains(&id) && url.is_empty(), "{id}: {url}");
                assert!(!url.ends_with('/'), "{id}: {url}");
            }
            let asks = !provider.keyless && !provider.login_only;
            assert!(!asks || !provider.key_variables.is_empty(), "{id} has no variable for its key");
            assert!(provider.key_variables.iter().all(|name| name == &name.to_uppercase()), "{id}");
            assert!(provider.docs.as_ref().is_some_and(|docs| docs.starts_with("https://")), "{id}");
            for price in provider.embeddings.iter().filter_map(|model| model.price.as_ref()) {
                assert!(is_fair(price), "{id}");
            }
        }
    }

    #[test]
    fn every_model_has_sensible_numbers() {
        for model in known().iter().flat_map(|provider| &provider.models) {
            let name = model.reference();
            assert!(model.max_tokens > 0 && model.context_window >= model.max_tokens, "{name}");
            assert!(model.price.as_ref().is_none_or(is_fair), "{name}");
            assert!(!model.name.is_empty(), "{name}");
            assert!(
                super::super::reference::parse_ref(&name.to_string(), "x") == Some(name.clone()),
                "{name}"
            );
        }
    }

    #[test]
    fn a_model_takes_its_providers_switches_and_may_change_them() {
        let xai = known_provider("xai").unwrap();
        assert!(!xai.compat.supports_reasoning_effort);
        let mini = xai.model("grok-3-mini").unwrap();
        assert!(mini.compat.supports_reasoning_effort && !mini.compat.supports_store);
        let zen = known_provider("opencode-zen").unwrap().model("claude-opus-4-5").unwrap();
        assert_eq!((zen.api, zen.base_url.as_str()), (Api::AnthropicMessages, "https://opencode.ai/zen"));
    }

    #[test]
    fn an_unlisted_model_is_free_on_a_persons_own_server_only() {
        let local = known_provider("vllm").unwrap().unlisted("mine");
        assert_eq!((local.provider.as_str(), local.price), ("vllm", Some(Price::default())));
        assert_eq!(known_provider("openai").unwrap().unlisted("gpt-9").price, None);
    }
}
