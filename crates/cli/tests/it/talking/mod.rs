//! The program and a model vendor: the real binary from outside, the vendor played over real HTTP.

mod asking;
mod canary;
mod leaks;
mod serving;
mod silence;

use serde_json::{Value, json};
use tidegate_testkit::model_server::{ModelServer, Recorded};
use tokio::runtime::Runtime;

use crate::home::{Backend, Home};

/// The key in the configuration, where a test does not care.
const KEY: &str = "configured-key";

/// A vendor of one test.
pub(crate) struct Vendor {
    runtime: Runtime,
    server: ModelServer,
}

impl std::ops::Deref for Vendor {
    type Target = ModelServer;

    fn deref(&self) -> &ModelServer {
        &self.server
    }
}

impl Vendor {
    pub(crate) fn open() -> Self {
        let builder = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = builder.expect("a runtime can be made");
        let server = runtime.block_on(ModelServer::start());
        Self { runtime, server }
    }

    /// The next request; waits for it.
    pub(crate) fn next(&self) -> Recorded {
        self.runtime.block_on(self.server.next_request())
    }

    /// Waits until so many clients went away before their answer's end.
    pub(crate) fn gone(&self, count: usize) {
        self.runtime.block_on(self.server.until_dropped(count));
    }

    /// The texts of a request's messages, with who said them.
    pub(crate) fn said(&self) -> Vec<String> {
        let body = self.last_request().body;
        let messages = body["messages"].as_array().expect("messages").clone();
        let text = |message: &Value| {
            let content = &message["content"];
            let text = content.as_str().or_else(|| content[0]["text"].as_str()).unwrap_or_default();
            format!("{}: {text}", message["role"].as_str().unwrap_or_default())
        };
        messages.iter().map(text).collect()
    }

    /// Two vendors at this server: `anthropic/first` answers, `groq/second` can be asked for.
    pub(crate) fn config(&self, more: &[(&str, Value)]) -> Value {
        let base = self.base_url();
        let model = |id: &str, reasoning: bool| {
            let cost = json!({"input": 1000, "output": 2000, "cacheRead": 100, "cacheWrite": 1250});
            json!({"id": id, "maxTokens": 4000, "contextWindow": 32000, "reasoning": reasoning, "cost": cost})
        };
        let mut config = json!({
            "agents": {"defaults": {"model": {"primary": "anthropic/first"}}},
            "models": {"retries": 0, "providers": {
                "anthropic": {"baseUrl": base, "apiKey": KEY, "models": [model("first", false), model("deep", true)]},
                "groq": {"baseUrl": format!("{base}/v1"), "apiKey": KEY, "models": [model("second", false)]},
            }},
        });
        for (name, value) in more {
            config[name] = value.clone();
        }
        config
    }

    /// A home whose agent asks this vendor. Nothing when its database is not there.
    pub(crate) fn home(&self, backend: Backend, more: &[(&str, Value)]) -> Option<Home> {
        let home = Home::on(backend)?;
        let mut text = self.config(more).to_string();
        if !home.is_sqlite() {
            // What Postgres needs is in the file already.
            let held = home.read_config();
            let held = held.trim().strip_suffix('}').expect("the file is an object");
            text = format!("{held}, {}", text.trim_start_matches('{'));
        }
        home.write_config(&text);
        Some(home)
    }

    pub(crate) fn sqlite_home(&self) -> Home {
        self.home(Backend::Sqlite, &[]).expect("SQLite is always there")
    }
}

/// What was said in the conversation `main`, with who said it, as the log has it; every question with its answer.
pub(crate) fn conversation(home: &Home) -> Vec<String> {
    let shown = home.call(&["sessions", "show", "main", "--json", "--limit", "1000"]).json();
    let entries = shown["entries"].as_array().expect("entries").clone();
    let text = |entry: &Value| {
        let body = &entry["body"];
        let text = body["content"].as_str().or_else(|| body["content"][0]["text"].as_str());
        format!("{}: {}", body["role"].as_str().unwrap_or_default(), text.unwrap_or_default())
    };
    assert_eq!(entries.len() % 2, 0, "{shown}");
    entries.iter().map(text).collect()
}

/// Ids of models, as they were asked for.
pub(crate) fn asked(vendor: &Vendor) -> Vec<String> {
    let requests = vendor.requests();
    requests.iter().map(|request| request.body["model"].as_str().unwrap_or_default().to_owned()).collect()
}
