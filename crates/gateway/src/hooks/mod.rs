//! Webhooks: other programs wake an agent or give it work, with a token of their own.
//!
//! What they send is read here into one of two actions; the engine does the rest. The content is from outside: it is put
//! into a fence before a model reads it. Errors are `{ok: false, error}`, as callers of such hooks expect.

mod action;
mod mapping;
mod payload;
mod receive;
mod template;

use serde_json::Value;
use tidegate_config::schema;
use tidegate_secrets::Secret;

pub(crate) use payload::{AgentPayload, Token, WakePayload, token_of};
pub(crate) use receive::{receive, unheard};

use mapping::Mapping;

/// The webhooks of a configuration that takes any.
pub(crate) struct Hooks {
    /// Begins with a slash and ends without one.
    base: String,
    token: Secret,
    largest: usize,
    mappings: Vec<Mapping>,
}

impl Hooks {
    /// `None` when none are taken.
    pub(crate) fn of(said: &schema::Hooks) -> Option<Self> {
        let token =
            said.token.as_ref().map(|token| token.expose().trim()).filter(|token| !token.is_empty())?;
        if !said.enabled {
            return None;
        }
        let path = said.path.trim().trim_matches('/');
        let base = format!("/{}", if path.is_empty() { "hooks" } else { path });
        Some(Self {
            base,
            token: Secret::new(token),
            largest: usize::try_from(said.max_body_bytes).unwrap_or(usize::MAX),
            mappings: mapping::resolve(said),
        })
    }

    /// What a path below the hooks' own asks for.
    pub(crate) fn below<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = path.strip_prefix(self.base.as_str())?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_matches('/'))
    }
}

/// What the recorded cases of another gateway are put to.
pub(crate) mod recorded {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};
    use tidegate_config::schema;

    use super::{Hooks, mapping, template};

    pub(crate) struct Context {
        pub(crate) payload: Value,
        pub(crate) headers: BTreeMap<String, String>,
        pub(crate) path: String,
        pub(crate) query: BTreeMap<String, String>,
    }

    impl Context {
        fn facts(&self) -> template::Facts<'_> {
            template::Facts {
                payload: &self.payload,
                headers: &self.headers,
                query: &self.query,
                path: &self.path,
                now: "",
            }
        }
    }

    pub(crate) fn render(template: &str, context: &Context) -> String {
        template::render(template, &context.facts())
    }

    pub(crate) fn map(said: &schema::Hooks, context: &Context) -> Value {
        let mappings = mapping::resolve(said);
        let ids: Vec<_> = mappings.iter().map(|mapping| mapping.id.clone()).collect();
        let result = match mapping::apply(&mappings, &context.facts()) {
            None => Value::Null,
            Some((_, Ok(action))) => json!({ "ok": true, "action": action.recorded() }),
            Some((_, Err(error))) => json!({ "ok": false, "error": error }),
        };
        json!({ "mappings": mappings.len(), "ids": ids, "result": result })
    }

    pub(crate) fn config(said: &schema::Hooks) -> Value {
        Hooks::of(said).map_or(Value::Null, |hooks| {
            let ids: Vec<_> = hooks.mappings.iter().map(|mapping| mapping.id.clone()).collect();
            json!({
                "basePath": hooks.base, "token": hooks.token.expose(), "maxBodyBytes": hooks.largest, "ids": ids,
            })
        })
    }
}

/// A text that says something.
fn words(value: &Value) -> Option<String> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}
