//! A registry in a home of its own, whose providers are all played by one server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_models::{
    Forgetful, Ledger, Model, Options, Providers as _, Registry, RegistryOptions, Request, StandingStore,
    ToolSpec,
};
use tidegate_protocol::{AgentId, Block, Cost, Limits, Message, ModelRef, RunSpec};
use tidegate_runtime::{Clock, SystemClock};
use tidegate_secrets::{Credential, ProfileId, Secret, StoreOptions};
use tidegate_testkit::model_server::{ModelServer, Recorded, Turn};

use crate::faces::{self, Face};
use crate::heard::Heard;

/// Longer than anything here may take.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A clock the test can move.
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub(crate) fn pass(&self, time: Duration) {
        self.0.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

type Variables = Arc<Mutex<BTreeMap<String, String>>>;

pub(crate) struct House {
    pub(crate) server: ModelServer,
    pub(crate) registry: Registry,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) variables: Variables,
    _home: TempDir,
}

impl House {
    /// Every provider with one key, in the configuration.
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// The same, with the configuration changed. Calls are not repeated unless the change says so.
    pub(crate) async fn with(change: impl FnOnce(&mut Value)) -> Self {
        Self::build(change, Arc::new(Forgetful)).await
    }

    pub(crate) async fn build(change: impl FnOnce(&mut Value), standings: Arc<dyn StandingStore>) -> Self {
        let server = ModelServer::start().await;
        let mut config = config(server.base_url());
        change(&mut config);
        let config = serde_json::from_value(config).expect("a configuration");
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(TestClock(AtomicI64::new(SystemClock.now_ms())));
        let variables: Variables = Arc::default();
        variables.lock().unwrap().insert("GH_TOKEN".into(), "a-github-token".into());
        let seen = Arc::clone(&variables);
        let registry = Registry::new(
            &config,
            RegistryOptions {
                home: home.path().to_owned(),
                credentials: home.path().join("credentials"),
                store: StoreOptions { clock: Arc::clone(&clock) as _, ..StoreOptions::default() },
                environment: Arc::new(move |name| seen.lock().unwrap().get(name).cloned()),
                standings,
                clock: Arc::clone(&clock) as _,
            },
        );
        Self { server, registry, clock, ledger: Arc::default(), variables, _home: home }
    }

    pub(crate) fn spec(models: &[&str]) -> RunSpec {
        let models = models.iter().map(|model| reference(model)).collect();
        RunSpec::new("test", models, Limits::new(60_000, 100))
    }

    pub(crate) fn open(&self, spec: &RunSpec) -> Arc<dyn Model> {
        self.registry.open(&agent(), spec, &self.ledger).expect("the model can be asked")
    }

    /// What these models answer, the later ones standing in for the first.
    pub(crate) async fn ask(&self, models: &[&str], request: Request) -> Heard {
        self.ask_as(&Self::spec(models), request).await
    }

    pub(crate) async fn ask_as(&self, spec: &RunSpec, request: Request) -> Heard {
        let reading = Heard::read(self.open(spec).stream(request));
        tokio::time::timeout(LONG, reading).await.expect("an end within 30 s")
    }

    /// What a format makes of a turn.
    pub(crate) async fn hear(&self, face: Face, turn: Turn, request: Request) -> Heard {
        self.server.push_for(face.model, turn);
        self.ask(&[&face.reference()], request).await
    }

    /// A run that may cost no more than this.
    pub(crate) fn paid(models: &[&str], usd: f64) -> RunSpec {
        let mut spec = Self::spec(models);
        spec.limits.max_cost = Some(Cost::from_usd(usd));
        spec
    }

    /// The requests for answers, without those of sign-ins.
    pub(crate) fn asked(&self) -> Vec<Recorded> {
        let is_account =
            |request: &Recorded| request.path.ends_with("/token") || request.path.contains("/login/");
        self.server.requests().into_iter().filter(|request| !is_account(request)).collect()
    }

    /// Stores a key `provider/name`.
    pub(crate) fn store_key(&self, id: &str, key: &str) {
        self.store(id, Credential::ApiKey { key: Secret::new(key), email: None });
    }

    pub(crate) fn store(&self, id: &str, credential: Credential) {
        let id: ProfileId = id.parse().unwrap();
        self.registry.credentials().unwrap().put(&id, credential).unwrap();
    }

    pub(crate) fn activate(&self, id: &str) {
        self.registry.credentials().unwrap().set_active(&id.parse().unwrap()).unwrap();
    }

    pub(crate) fn set(&self, variable: &str, value: &str) {
        self.variables.lock().unwrap().insert(variable.to_owned(), value.to_owned());
    }
}

fn config(server: &str) -> Value {
    let mut providers = serde_json::Map::new();
    for face in faces::ALL {
        let entry = face.entry(server, &key_of(face));
        match providers.get_mut(face.provider) {
            None => {
                providers.insert(face.provider.to_owned(), entry);
            }
            Some(there) => {
                let more = entry["models"].as_array().unwrap().clone();
                there["models"].as_array_mut().unwrap().extend(more);
            }
        }
    }
    json!({
        "models": {"providers": providers, "retries": 0},
        "auth": {"clients": {
            "github-copilot": {"exchangeUrl": format!("{server}/copilot_internal/v2/token")},
            "openai-codex": {"clientId": "ours", "tokenUrl": format!("{server}/oauth/token")},
        }},
    })
}

/// A key as the provider has them; Codex's is a token that names its account.
pub(crate) fn key_of(face: Face) -> String {
    if face.provider == faces::CODEX.provider {
        account_token("config")
    } else {
        format!("key-of-{}", face.provider)
    }
}

pub(crate) fn account_token(name: &str) -> String {
    let claims = json!({"jti": name, "https://api.openai.com/auth": {"chatgpt_account_id": "account-0001"}});
    format!("{}.{}.c2ln", URL_SAFE_NO_PAD.encode("{}"), URL_SAFE_NO_PAD.encode(claims.to_string()))
}

pub(crate) fn agent() -> AgentId {
    "main".parse().expect("an agent's name")
}

pub(crate) fn reference(model: &str) -> ModelRef {
    let (provider, model) = model.split_once('/').expect("provider/model");
    ModelRef { provider: provider.to_owned(), model: model.to_owned() }
}

pub(crate) fn user(text: &str) -> Message {
    Message::user(text, 1)
}

/// A question and nothing else.
pub(crate) fn question(text: &str) -> Request {
    Request { messages: vec![user(text)], ..Request::default() }
}

/// A question with two tools to answer it.
pub(crate) fn tool_question(text: &str) -> Request {
    let tool = |name: &str, description: &str, parameters: Value| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters,
    };
    let place = json!({
        "type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"],
    });
    let tools = vec![
        tool("tide_at", "When the tide is high.", place),
        tool("now", "What time it is.", json!({"type": "object", "properties": {}})),
    ];
    Request { tools, options: Options::default(), ..question(text) }
}

pub(crate) fn result_of(id: &str, name: &str, text: &str) -> Message {
    Message::ToolResult {
        tool_call_id: id.to_owned(),
        tool_name: name.to_owned(),
        content: vec![Block::text(text)],
        is_error: false,
        details: None,
        timestamp: 3,
    }
}
