//! Providers and models as this installation has them: what is known, with what the configuration says laid over it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tidegate_config::schema::{self, ModelApi, ModelInput};
use tidegate_protocol::ModelRef;
use tidegate_secrets::Secret;

use super::known::{EmbeddingInfo, KnownProvider, known};
use super::reference::{Aliases, normalize_provider};
use super::{Api, Compat, MaxTokensField, ModelInfo, Price, ThinkingFormat};

/// A provider of this installation.
#[derive(Debug, Clone)]
pub struct ProviderInfo {
    pub id: String,
    pub name: String,
    pub api: Api,
    pub base_url: String,
    /// Environment variables that may hold a key; the first that is set counts.
    pub key_variables: Vec<String>,
    /// Whether it answers without a key.
    pub keyless: bool,
    /// Whether a person must log in.
    pub login_only: bool,
    /// Where a person gets a key.
    pub docs: Option<String>,
    /// The key in the configuration.
    pub api_key: Option<Secret>,
    pub region: Option<String>,
    pub script: Option<PathBuf>,
    /// Whether the configuration says anything about it.
    pub configured: bool,
    pub models: Vec<ModelInfo>,
    pub embeddings: Vec<EmbeddingInfo>,
    /// What a model that nobody described is taken for.
    pattern: ModelInfo,
}

impl ProviderInfo {
    /// A model by its id; one that nobody described is taken for an ordinary one.
    pub fn model(&self, id: &str) -> ModelInfo {
        let known = self.models.iter().find(|model| model.id == id);
        known.cloned().unwrap_or_else(|| ModelInfo {
            id: id.to_owned(),
            name: id.to_owned(),
            ..self.pattern.clone()
        })
    }

    pub fn embedding(&self, id: &str) -> EmbeddingInfo {
        let known = self.embeddings.iter().find(|model| model.id == id);
        known.cloned().unwrap_or_else(|| EmbeddingInfo {
            provider: self.id.clone(),
            id: id.to_owned(),
            api: self.api,
            base_url: self.base_url.clone(),
            dimensions: None,
            price: self.keyless.then(Price::default),
            headers: self.pattern.headers.clone(),
        })
    }
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    providers: BTreeMap<String, ProviderInfo>,
    aliases: Aliases,
}

impl Catalogue {
    /// `home` is where relative names of files begin.
    pub fn new(config: &schema::Config, home: &std::path::Path) -> Self {
        let mut providers: BTreeMap<String, ProviderInfo> =
            known().iter().map(|provider| (provider.id.clone(), of_known(provider))).collect();
        providers.insert(crate::OFFLINE.to_owned(), offline());
        for (name, said) in &config.models.providers {
            let id = normalize_provider(name);
            let base = providers.remove(&id).unwrap_or_else(|| unknown(&id));
            providers.insert(id, overlay(base, said, home));
        }
        let names = &config.agents.defaults.models;
        let pairs = names.iter().filter_map(|(model, entry)| Some((model.as_str(), entry.alias.as_deref()?)));
        Self { providers, aliases: Aliases::new(pairs, crate::OFFLINE) }
    }

    /// By id, however it is written.
    pub fn provider(&self, id: &str) -> Option<&ProviderInfo> {
        self.providers.get(&normalize_provider(id))
    }

    /// Sorted by id.
    pub fn providers(&self) -> impl Iterator<Item = &ProviderInfo> {
        self.providers.values()
    }

    pub fn model(&self, reference: &ModelRef) -> Option<ModelInfo> {
        self.provider(&reference.provider).map(|provider| provider.model(&reference.model))
    }

    /// What a person means: an alias, `provider/model`, or a bare `offline`.
    pub fn resolve(&self, text: &str) -> Option<ModelRef> {
        let text = text.trim();
        if text == crate::OFFLINE {
            return Some(crate::default_model());
        }
        if let Some((model, Some(_))) = self.aliases.resolve(text, crate::OFFLINE) {
            return Some(model);
        }
        let reference = text.contains('/').then(|| super::parse_ref(text, "")).flatten()?;
        let provider = self.provider(&reference.provider)?;
        if provider.api == Api::Offline {
            return Some(crate::default_model());
        }
        Some(ModelRef { provider: provider.id.clone(), ..reference })
    }

    /// The model a provider is asked when only the provider is named: the first it is known to have.
    pub fn first_model(&self, provider: &str) -> Option<ModelRef> {
        let provider = self.provider(provider)?;
        if provider.api == Api::Offline {
            return Some(crate::default_model());
        }
        provider.models.first().map(ModelInfo::reference)
    }
}

fn of_known(provider: &KnownProvider) -> ProviderInfo {
    ProviderInfo {
        id: provider.id.clone(),
        name: provider.name.clone(),
        api: provider.api,
        base_url: provider.base_url.clone(),
        key_variables: provider.key_variables.clone(),
        keyless: provider.keyless,
        login_only: provider.login_only,
        docs: provider.docs.clone(),
        api_key: None,
        region: None,
        script: None,
        configured: false,
        models: provider.models.clone(),
        embeddings: provider.embeddings.clone(),
        pattern: provider.unlisted(""),
    }
}

fn unknown(id: &str) -> ProviderInfo {
    let pattern = ModelInfo {
        provider: id.to_owned(),
        id: String::new(),
        name: String::new(),
        api: Api::OpenaiCompletions,
        base_url: String::new(),
        context_window: 128_000,
        max_tokens: 8_192,
        reasoning: false,
        images: false,
        tools: true,
        price: None,
        headers: Vec::new(),
        // A server that nobody knows is rather not OpenAI itself.
        compat: Compat {
            supports_store: false,
            supports_developer_role: false,
            supports_reasoning_effort: false,
            supports_strict_mode: false,
            max_tokens_field: MaxTokensField::MaxTokens,
            ..Compat::default()
        },
    };
    ProviderInfo {
        id: id.to_owned(),
        name: id.to_owned(),
        api: Api::OpenaiCompletions,
        base_url: String::new(),
        key_variables: Vec::new(),
        keyless: false,
        login_only: false,
        docs: None,
        api_key: None,
        region: None,
        script: None,
        configured: false,
        models: Vec::new(),
        embeddings: Vec::new(),
        pattern,
    }
}

/// The one that is part of this program.
fn offline() -> ProviderInfo {
    let name = "Built in, without a network".to_owned();
    let mut provider = ProviderInfo { name, api: Api::Offline, keyless: true, ..unknown(crate::OFFLINE) };
    provider.pattern.api = Api::Offline;
    provider.pattern.price = Some(Price::default());
    provider.models.push(provider.model("echo"));
    provider
}

fn overlay(mut base: ProviderInfo, said: &schema::Provider, home: &std::path::Path) -> ProviderInfo {
    base.configured = true;
    base.api_key = said.api_key.clone().filter(|key| !key.is_empty());
    base.region.clone_from(&said.region);
    base.script = said.script.as_ref().map(|file| home.join(file));
    let api = said.api.map(of_config);
    if let Some(api) = api {
        base.api = api;
    }
    if let Some(url) = &said.base_url {
        url.trim_end_matches('/').clone_into(&mut base.base_url);
        // A server of one's own on a known provider's name has its own rules about keys.
        base.keyless = base.keyless || base.api_key.is_none() && is_local(url);
    }
    let everywhere = |model: &mut ModelInfo| {
        if let Some(api) = api {
            model.api = api;
        }
        if said.base_url.is_some() {
            model.base_url.clone_from(&base.base_url);
        }
        model.headers.extend(said.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        lay(&mut model.compat, &said.compat);
    };
    base.models.iter_mut().for_each(everywhere);
    everywhere(&mut base.pattern);
    for model in &mut base.embeddings {
        if said.base_url.is_some() {
            model.base_url.clone_from(&base.base_url);
        }
        model.api = base.api;
        model.headers.extend(said.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    for model in &said.models {
        let described = describe(base.model(&model.id), model);
        base.models.retain(|known| known.id != model.id);
        base.models.push(described);
    }
    base
}

fn describe(mut info: ModelInfo, said: &schema::Model) -> ModelInfo {
    if let Some(name) = &said.name {
        info.name.clone_from(name);
    }
    if let Some(api) = said.api {
        info.api = of_config(api);
    }
    info.context_window = said.context_window.unwrap_or(info.context_window);
    info.max_tokens = said.max_tokens.unwrap_or(info.max_tokens).min(info.context_window);
    info.reasoning = said.reasoning.unwrap_or(info.reasoning);
    info.tools = said.tools.unwrap_or(info.tools);
    if let Some(input) = &said.input {
        info.images = input.contains(&ModelInput::Image);
    }
    if let Some(schema::ModelCost { input, output, cache_read, cache_write }) = said.cost {
        info.price = Some(Price { input, output, cache_read, cache_write });
    }
    lay(&mut info.compat, &said.compat);
    info
}

fn of_config(api: ModelApi) -> Api {
    match api {
        ModelApi::AnthropicMessages => Api::AnthropicMessages,
        ModelApi::OpenaiCompletions => Api::OpenaiCompletions,
        ModelApi::OpenaiResponses => Api::OpenaiResponses,
        ModelApi::OpenaiCodexResponses => Api::OpenaiCodexResponses,
        ModelApi::GoogleGenerativeAi => Api::GoogleGenerativeAi,
        ModelApi::BedrockConverseStream => Api::BedrockConverseStream,
        ModelApi::Ollama => Api::Ollama,
        ModelApi::Scripted => Api::Scripted,
        ModelApi::Offline => Api::Offline,
    }
}

fn lay(compat: &mut Compat, said: &schema::ModelCompat) {
    let switch = |value: &mut bool, said: Option<bool>| *value = said.unwrap_or(*value);
    switch(&mut compat.supports_store, said.supports_store);
    switch(&mut compat.supports_developer_role, said.supports_developer_role);
    switch(&mut compat.supports_reasoning_effort, said.supports_reasoning_effort);
    switch(&mut compat.supports_usage_in_streaming, said.supports_usage_in_streaming);
    switch(&mut compat.supports_strict_mode, said.supports_strict_mode);
    switch(&mut compat.requires_tool_result_name, said.requires_tool_result_name);
    switch(&mut compat.requires_assistant_after_tool_result, said.requires_assistant_after_tool_result);
    switch(&mut compat.requires_thinking_as_text, said.requires_thinking_as_text);
    switch(&mut compat.short_tool_ids, said.short_tool_ids);
    switch(&mut compat.cache_control, said.cache_control);
    if let Some(field) = said.max_tokens_field {
        compat.max_tokens_field = match field {
            schema::MaxTokensField::MaxCompletionTokens => MaxTokensField::MaxCompletionTokens,
            schema::MaxTokensField::MaxTokens => MaxTokensField::MaxTokens,
        };
    }
    if let Some(format) = said.thinking_format {
        compat.thinking_format = match format {
            schema::ThinkingFormat::Openai => ThinkingFormat::Openai,
            schema::ThinkingFormat::Openrouter => ThinkingFormat::Openrouter,
            schema::ThinkingFormat::Zai => ThinkingFormat::Zai,
            schema::ThinkingFormat::Qwen => ThinkingFormat::Qwen,
            schema::ThinkingFormat::QwenChatTemplate => ThinkingFormat::QwenChatTemplate,
        };
    }
}

/// Whether an address is on this machine, where servers ask for no key.
fn is_local(url: &str) -> bool {
    let host = url.split("://").nth(1).unwrap_or_default();
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|local| {
        host.strip_prefix(local).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue(models: serde_json::Value) -> Catalogue {
        let config: schema::Config = serde_json::from_value(models).unwrap();
        Catalogue::new(&config, std::path::Path::new("/home"))
    }

    fn reference(text: &str) -> ModelRef {
        let (provider, model) = text.split_once('/').unwrap();
        ModelRef { provider: provider.to_owned(), model: model.to_owned() }
    }

    #[test]
    fn what_the_configuration_calls_known_is_what_the_catalogue_knows() {
        let mut known: Vec<&str> = known().iter().map(|provider| provider.id.as_str()).collect();
        known.push(crate::OFFLINE);
        known.sort_unstable();
        assert_eq!(known, schema::KNOWN_PROVIDERS);
    }

    #[test]
    fn a_configured_key_overrides_what_is_known_and_leaves_the_rest() {
        let said = serde_json::json!({"models": {"providers": {"anthropic": {
            "baseUrl": "https://proxy.example/",
            "models": [{"id": "claude-opus-4-5", "cost": {"input": 1}}, {"id": "mine", "contextWindow": 9000, "maxTokens": 99999}],
        }}}});
        let catalogue = catalogue(said);
        let opus = catalogue.model(&reference("anthropic/claude-opus-4-5")).unwrap();
        assert_eq!(opus.base_url, "https://proxy.example");
        assert_eq!(opus.price.unwrap().input.to_string(), "1");
        assert!(opus.context_window >= 200_000 && opus.api == Api::AnthropicMessages);
        let mine = catalogue.model(&reference("anthropic/mine")).unwrap();
        assert_eq!((mine.context_window, mine.max_tokens), (9000, 9000));
        assert_eq!(mine.base_url, "https://proxy.example");
    }

    #[test]
    fn a_provider_of_ones_own_on_this_machine_needs_no_key() {
        let said = serde_json::json!({"models": {"providers": {
            "mine": {"api": "openai-completions", "baseUrl": "http://127.0.0.1:8080/v1"},
            "far": {"api": "openai-completions", "baseUrl": "https://127.0.0.1.example.com/v1"},
        }}});
        let catalogue = catalogue(said);
        assert!(catalogue.provider("mine").unwrap().keyless);
        assert!(!catalogue.provider("far").unwrap().keyless);
    }

    #[test]
    fn aliases_and_spellings_find_their_model() {
        let said =
            serde_json::json!({"agents": {"defaults": {"models": {"openai/gpt-5.2": {"alias": "Fast"}}}}});
        let catalogue = catalogue(said);
        assert_eq!(catalogue.resolve(" fast "), Some(reference("openai/gpt-5.2")));
        assert_eq!(catalogue.resolve("z.ai/glm-4.7"), Some(reference("zai/glm-4.7")));
        assert_eq!(catalogue.resolve("offline"), Some(reference("offline/echo")));
        assert_eq!(catalogue.resolve("nobody/x"), None);
        assert_eq!(catalogue.resolve("gpt-5.2"), None);
    }
}
