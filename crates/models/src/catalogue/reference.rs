//! Names of models as people write them: `provider/model`, a bare id, or an alias from the configuration.

use tidegate_protocol::ModelRef;

/// A provider's id, however it is written.
pub fn normalize_provider(id: &str) -> String {
    let id = id.trim().to_lowercase();
    match id.as_str() {
        "z.ai" | "z-ai" => "zai".to_owned(),
        "opencode-zen" => "opencode".to_owned(),
        "qwen" => "qwen-portal".to_owned(),
        _ => id,
    }
}

/// The model meant by `raw`: up to the first slash the provider, else the default one's.
pub fn parse_ref(raw: &str, default_provider: &str) -> Option<ModelRef> {
    let (provider, model) = raw.split_once('/').unwrap_or((default_provider, raw));
    let provider = normalize_provider(provider);
    let model = model_id(&provider, model.trim());
    (!provider.is_empty() && !model.is_empty()).then_some(ModelRef { provider, model })
}

/// An id as the provider knows it, from the short forms people use.
fn model_id(provider: &str, model: &str) -> String {
    match (provider, model) {
        ("google", "gemini-3-pro" | "gemini-3-flash") => format!("{model}-preview"),
        ("anthropic", _) if ["opus-", "sonnet-", "haiku-"].iter().any(|family| model.starts_with(family)) => {
            format!("claude-{}", model.replace('.', "-"))
        }
        _ => model.to_owned(),
    }
}

/// A model's name without its provider, its date and `-latest`: short enough for a line of status.
pub fn short_name(full: &str) -> &str {
    let name = full.rsplit('/').next().unwrap_or(full);
    let undated = name
        .rsplit_once('-')
        .filter(|(_, date)| date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()));
    let name = undated.map_or(name, |(name, _)| name);
    name.strip_suffix("-latest").unwrap_or(name)
}

/// The aliases of a configuration: its own names for models.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Aliases {
    known: Vec<(String, ModelRef)>,
}

impl Aliases {
    /// From pairs of a model, as in [`parse_ref`], and its alias. Where two share an alias the later one has it.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>, default_provider: &str) -> Self {
        let mut known: Vec<(String, ModelRef)> = Vec::new();
        for (model, alias) in pairs {
            let alias = alias.trim();
            let Some(model) = parse_ref(model, default_provider).filter(|_| !alias.is_empty()) else {
                continue;
            };
            known.retain(|(other, _)| !same(other, alias));
            known.push((alias.to_owned(), model));
        }
        Self { known }
    }

    /// The model meant by a name, and the alias that says so, if it is one. An alias has no slash in it.
    pub fn resolve(&self, raw: &str, default_provider: &str) -> Option<(ModelRef, Option<&str>)> {
        let found = self.known.iter().find(|(alias, _)| !raw.contains('/') && same(alias, raw.trim()));
        match found {
            Some((alias, model)) => Some((model.clone(), Some(alias))),
            None => parse_ref(raw, default_provider).map(|model| (model, None)),
        }
    }
}

fn same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(provider: &str, model: &str) -> ModelRef {
        ModelRef { provider: provider.to_owned(), model: model.to_owned() }
    }

    #[test]
    fn a_reference_is_read_as_people_write_it() {
        let cases = [
            ("claude-opus-4-5", "anthropic", Some(("anthropic", "claude-opus-4-5"))),
            (" OpenAI / gpt-5 ", "anthropic", Some(("openai", "gpt-5"))),
            ("z.ai/glm-4.7", "anthropic", Some(("zai", "glm-4.7"))),
            ("opencode-zen/x", "anthropic", Some(("opencode", "x"))),
            ("anthropic/opus-4.5", "anthropic", Some(("anthropic", "claude-opus-4-5"))),
            ("opus-4.5", "anthropic", Some(("anthropic", "claude-opus-4-5"))),
            ("google/gemini-3-pro", "anthropic", Some(("google", "gemini-3-pro-preview"))),
            ("/x", "anthropic", None),
            ("/", "anthropic", None),
            ("  ", "anthropic", None),
            ("gpt", "Qwen", Some(("qwen-portal", "gpt"))),
            ("x/@cf/y", "anthropic", Some(("x", "@cf/y"))),
            ("haiku-4.5", "anthropic", Some(("anthropic", "claude-haiku-4-5"))),
            ("opencode/opus-4.5", "anthropic", Some(("opencode", "opus-4.5"))),
            ("x", "", None),
        ];
        for (raw, default_provider, expected) in cases {
            let expected = expected.map(|(provider, model)| reference(provider, model));
            assert_eq!(parse_ref(raw, default_provider), expected, "{raw:?}");
        }
    }

    #[test]
    fn a_short_name_has_no_provider_and_no_date() {
        let cases = [
            ("openai/gpt-5.2", "gpt-5.2"),
            ("anthropic/claude-opus-4-5-latest", "claude-opus-4-5"),
            ("x", "x"),
            ("m-2024", "m-2024"),
            ("openai/gpt-5.2-20251211", "gpt-5.2"),
            ("latest", "latest"),
        ];
        for (full, expected) in cases {
            assert_eq!(short_name(full), expected, "{full:?}");
        }
    }

    #[test]
    fn an_alias_stands_for_its_model_in_any_case() {
        let pairs = [
            ("openai/gpt-5.2", "Fast"),
            ("anthropic/claude-opus-4-5", "opus"),
            ("zz/m", " "),
            ("sonnet-4.5", "son"),
            ("a/b", "dup"),
            ("c/d", "DUP"),
        ];
        let aliases = Aliases::new(pairs, "anthropic");
        let cases = [
            ("fast", Some((reference("openai", "gpt-5.2"), Some("Fast")))),
            (" opus ", Some((reference("anthropic", "claude-opus-4-5"), Some("opus")))),
            ("dup", Some((reference("c", "d"), Some("DUP")))),
            ("fast/x", Some((reference("fast", "x"), None))),
            ("", None),
            ("Opus/", None),
            ("SON", Some((reference("anthropic", "claude-sonnet-4-5"), Some("son")))),
        ];
        for (raw, expected) in cases {
            assert_eq!(aliases.resolve(raw, "anthropic"), expected, "{raw:?}");
        }
    }
}
