//! The load pipeline: text, includes, variables, schema, rules, typed config.
//!
//! Pure: files come through a function and variables through an [`Env`]. No step hides the findings of another;
//! what could not be resolved is left as it is written and reported, and the later steps look at the rest.

use std::fmt;
use std::path::Path;

use serde_json::{Map, Value};

use crate::env::Env;
use crate::include::{self, ReadFile};
use crate::problem::{Problem, ProblemKind};
use crate::schema::Config;
use crate::{document, substitute, validate};

/// Where a config came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    File,
    /// There is no file; every key has its default.
    Missing,
    /// The file is unusable for these reasons, so the newest good revision is in force.
    LastGood {
        revision: u64,
        problems: Vec<Problem>,
    },
}

/// A config in force, with what it was made from.
#[derive(Clone, PartialEq)]
pub struct Loaded {
    pub config: Config,
    /// SHA-256, in hex, of the text it was made from.
    pub hash: String,
    pub origin: Origin,
    /// What the owner should know although the config is valid.
    pub warnings: Vec<Problem>,
    pub(crate) source: String,
    pub(crate) document: Value,
    pub(crate) resolved: Value,
}

/// Everything but the source and its values, which hold secrets.
impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded")
            .field("config", &self.config)
            .field("hash", &self.hash)
            .field("origin", &self.origin)
            .field("warnings", &self.warnings)
            .finish_non_exhaustive()
    }
}

/// What the pipeline made of a text.
pub(crate) struct Outcome {
    /// The document with its includes, before variables.
    pub(crate) document: Value,
    /// The document with its variables.
    pub(crate) resolved: Value,
    /// Present exactly when there are no problems.
    pub(crate) config: Result<Config, Vec<Problem>>,
    pub(crate) warnings: Vec<Problem>,
}

impl Outcome {
    fn failed(problems: Vec<Problem>) -> Self {
        Self { document: Value::Null, resolved: Value::Null, config: Err(problems), warnings: Vec::new() }
    }

    pub(crate) fn problems(&self) -> &[Problem] {
        self.config.as_ref().err().map_or(&[], Vec::as_slice)
    }
}

/// The whole pipeline, from the text of `file`.
pub(crate) fn from_text(text: &str, file: &Path, env: &Env, read: ReadFile<'_>) -> Outcome {
    match document::parse(text) {
        Ok(parsed) => {
            let included = include::resolve(&parsed, file, read);
            from_document(included.document, included.problems, env)
        }
        Err(problems) => Outcome::failed(problems),
    }
}

/// The pipeline after the includes, whose problems are passed on.
pub(crate) fn from_document(document: Value, include_problems: Vec<Problem>, env: &Env) -> Outcome {
    let env = with_own_variables(&document, env);
    let (resolved, missing) = substitute::substitute(&document, &env);
    let mut problems = validate::problems(&resolved, &document);
    // What a failed include would have brought must not be called missing, nor an unresolved `${VAR}` wrong.
    if !include_problems.is_empty() {
        problems.retain(|problem| problem.kind != ProblemKind::Required);
    }
    problems.retain(|problem| !missing.iter().any(|variable| variable.path == problem.path));
    let problems: Vec<Problem> = include_problems.into_iter().chain(missing).chain(problems).collect();
    let config = if problems.is_empty() {
        validate::typed(&resolved).map_err(|problem| vec![problem])
    } else {
        Err(problems)
    };
    let warnings = validate::unused_keys(&document);
    Outcome { document, resolved, config, warnings }
}

/// The environment with `env.vars` of the document where it sets nothing itself. A value may refer to the
/// environment and to the variables above it.
fn with_own_variables(document: &Value, env: &Env) -> Env {
    let mut env = env.clone();
    let nothing = Map::new();
    let vars = document.pointer("/env/vars").and_then(Value::as_object).unwrap_or(&nothing);
    for (name, value) in vars {
        if let (Value::String(value), missing) = substitute::substitute(value, &env)
            && missing.is_empty()
        {
            env.set_if_unset(name, &value);
        }
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn outcome(text: &str, env: &Env) -> Outcome {
        let read = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
        from_text(text, Path::new("/c/config.json5"), env, &read)
    }

    fn lines(outcome: &Outcome) -> Vec<String> {
        outcome.problems().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_kind_of_problem_is_reported_together() {
        let text = r#"{
            $include: "none.json5",
            gateway: { prot: 1, bind: "${NOPE}" },
            agents: { list: [{ name: "${ALSO_NOPE}" }] },
        }"#;
        assert_eq!(
            lines(&outcome(text, &Env::default())),
            [
                "$include: Failed to read include file: none.json5 (resolved: /c/none.json5): entity not found",
                r#"Missing env var "NOPE" referenced at config path: gateway.bind"#,
                r#"Missing env var "ALSO_NOPE" referenced at config path: agents.list[0].name"#,
                r#"gateway.prot: unknown key, did you mean "gateway.port"?"#,
            ]
        );
    }

    #[test]
    fn the_files_own_variables_fill_in_for_the_environment() {
        let text = r#"{
            env: { vars: { HOST: "h", URL: "https://${HOST}:${PORT}/", SET: "file" } },
            models: { providers: { p: { api: "ollama", baseUrl: "${URL}", apiKey: "${SET}" } } },
        }"#;
        let env = Env::from_iter([("PORT", "1"), ("SET", "environment")]);
        let config = outcome(text, &env).config.unwrap();
        let provider = &config.models.providers["p"];
        assert_eq!(provider.base_url.as_deref(), Some("https://h:1/"));
        assert_eq!(provider.api_key.as_ref().unwrap().expose(), "environment");
    }

    #[test]
    fn an_empty_object_is_the_default_config() {
        assert_eq!(outcome("{}", &Env::default()).config, Ok(Config::default()));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_end_in_a_config_or_in_problems(bytes: Vec<u8>) {
            let text = String::from_utf8_lossy(&bytes);
            let outcome = outcome(&text, &Env::default());
            proptest::prop_assert!(outcome.config.is_ok() || !outcome.problems().is_empty());
        }
    }
}
