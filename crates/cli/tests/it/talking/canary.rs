//! Secrets that nobody could mistake for anything else, used in every way and then looked for everywhere.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tidegate_secrets::{Credential, CredentialStore, KeyChoice, ProfileId, Secret, StoreOptions};
use tidegate_testkit::model_server::{Kind, Step, Turn};

use super::Vendor;
use crate::gateway::live::Live;
use crate::home::{Backend, Home, tree};
use crate::process::{Call, Done};

// No shape of a known key, so that only what knows the secret itself can hide it.
const CONFIGURED: &str = "Zq7canary-configured-1f0a77";
const HEADER: &str = "Zq7canary-header-2b9c41";
const ENVIRONMENT: &str = "Zq7canary-environment-3d5e92";
const STORED: &str = "Zq7canary-stored-4a6f13";
const ACCESS: &str = "Zq7canary-access-5c8d24";
const REFRESH: &str = "Zq7canary-refresh-6e1b35";
const PASSWORD: &str = "Zq7canary-password-7f2c46";
/// How the tokens begin that the played vendor gives out when a login is renewed.
const ISSUED: &str = "refresh-00";

/// Those that may stand in no file at all; the others stand in the configuration, where their owner wrote them.
const NOWHERE: [&str; 5] = [ENVIRONMENT, STORED, ACCESS, REFRESH, ISSUED];
const ALL: [&str; 8] = [CONFIGURED, HEADER, ENVIRONMENT, STORED, ACCESS, REFRESH, PASSWORD, ISSUED];

/// The models, each with a credential of another origin.
const MODELS: [(&str, &str); 4] = [
    ("anthropic/first", CONFIGURED),
    ("groq/second", ENVIRONMENT),
    ("mistral/third", STORED),
    ("openai-codex/fourth", ACCESS),
];

struct Scene {
    vendor: Vendor,
    home: Home,
    /// Everything that was printed and answered, with where it came from.
    heard: Vec<(String, String)>,
}

impl Scene {
    fn set() -> Self {
        let vendor = Vendor::open();
        let base = vendor.base_url().to_owned();
        let model = |id: &str| json!([{"id": id, "maxTokens": 4000, "contextWindow": 32000}]);
        let providers = json!({
            "anthropic": {"baseUrl": base, "apiKey": CONFIGURED, "headers": {"X-Between": HEADER}, "models": model("first")},
            "groq": {"baseUrl": format!("{base}/v1"), "models": model("second")},
            "mistral": {"baseUrl": format!("{base}/v1"), "models": model("third")},
            "openai-codex": {"baseUrl": format!("{base}/codex"), "models": model("fourth")},
            "nowhere": {"api": "openai-completions", "baseUrl": format!("http://me:{PASSWORD}@127.0.0.1:9/v1"),
                "apiKey": CONFIGURED, "models": model("fifth")},
        });
        let clients =
            json!({"openai-codex": {"clientId": "a-client", "tokenUrl": format!("{base}/oauth/token")}});
        let config = [
            ("models", json!({"retries": 0, "providers": providers})),
            ("auth", json!({"keyStore": "file", "clients": clients})),
            ("logging", json!({"level": "trace"})),
        ];
        let home = vendor.home(Backend::Sqlite, &config).expect("SQLite is always there");
        store(home.root());
        Self { vendor, home, heard: Vec::new() }
    }

    fn call(&self, words: &[&str]) -> Call {
        self.home.call(words).env("GROQ_API_KEY", ENVIRONMENT)
    }

    fn hear(&mut self, place: &str, text: impl Into<String>) {
        self.heard.push((place.to_owned(), text.into()));
    }

    fn run(&mut self, words: &[&str]) -> Done {
        let done = self.call(words).run();
        let place = words.join(" ");
        assert!(!done.stderr.contains("panicked at"), "{done:?}");
        self.hear(&place, format!("{}\n{}", done.stdout, done.stderr));
        done
    }

    /// One good turn and every way in which a vendor can fail, each with what it was sent in its words.
    fn ask_everything(&mut self) {
        for (model, secret) in MODELS {
            let id = model.split('/').next_back().unwrap_or_default();
            let sent = if id == "first" { format!("{secret} and {HEADER}") } else { secret.to_owned() };
            if id == "fourth" {
                self.vendor.push_for("/oauth/token", refresh_refused());
            }
            for (turn, good) in trouble(&sent) {
                self.vendor.push_for(id, turn);
                let done = self.ask(model);
                assert_eq!(done.code, Some(i32::from(!good)), "{done:?}");
                self.forget_failures();
            }
            self.vendor.push_for(id, Turn::refuse(Kind::RateLimit));
            // Then the credential rests: what is told then is heard too.
            for _ in 0..2 {
                self.ask(model);
            }
            self.forget_failures();
        }
        assert_eq!(self.vendor.turns_left(), 0, "every answer was asked for");
        self.vendor.push_for("fourth", Turn::refuse(Kind::Auth));
        let done = self.ask("openai-codex/fourth");
        assert_eq!(done.code, Some(0), "renewed: {done:?}");
        let done = self.ask("nowhere/fifth");
        assert_eq!(done.code, Some(1), "{done:?}");
    }

    fn ask(&mut self, model: &str) -> Done {
        self.run(&["ask", "--model", model, "--timeout", "1", "hi"])
    }

    /// A credential that failed would rest, and not be sent any more.
    fn forget_failures(&self) {
        let connection = rusqlite::Connection::open(self.home.database()).expect("the database opens");
        connection.execute_batch("DELETE FROM model_standings").expect("standings can go");
    }

    fn look_everywhere(&mut self) {
        for words in [
            "config get",
            "config get models",
            "config get --effective",
            "config validate",
            "config revisions",
            "status",
            "runs list",
            "audit list",
            "audit verify",
            "sessions list",
            "sessions show main",
            "sessions export main",
            "sessions export main --format markdown",
            "outbox list",
            "channels list",
        ] {
            let mut words: Vec<&str> = words.split(' ').collect();
            self.run(&words);
            words.push("--json");
            self.run(&words);
        }
        let runs = self.home.runs();
        assert!(runs.len() > 40, "all was tried: {}", runs.len());
        for run in runs {
            let id = run["id"].as_str().expect("a run has an id").to_owned();
            self.run(&["runs", "show", &id]);
            self.run(&["runs", "replay", &id, "--json"]);
        }
    }

    fn serve(&mut self) {
        let live = Live::with(self.call(&["up", "--json", "--port", "0"]), self.home.root());
        let body =
            json!({"model": "tidegate", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
        let sent = format!("{CONFIGURED} and {HEADER}");
        // Without the last one: after a limit the credential rests.
        let mut turns = trouble(&sent);
        turns.pop();
        turns.retain(|(turn, _)| turn.steps != [Step::HalfOpen]);
        for (turn, _) in turns {
            self.vendor.push_for("first", turn);
            let answer = live.http("POST", "/v1/chat/completions", &body);
            self.hear("/v1/chat/completions", format!("{answer:?}"));
        }
        for path in
            ["/livez", "/readyz", "/v1/models", "/api/v1/status", "/api/v1/sessions", "/api/v1/sessions/main"]
        {
            let answer = live.http("GET", path, &Value::Null);
            self.hear(path, format!("{answer:?}"));
        }
        self.run(&["ask", "--model", "groq/second", "joined"]);
        self.run(&["gateway", "status", "--json"]);
        let done = live.end();
        self.hear("gateway", format!("{}\n{}", done.stdout, done.stderr));
        let log = fs::read_to_string(self.home.root().join("logs/gateway.log")).expect("there is a log");
        assert!(log.lines().count() > 10, "every step is in the log: {log}");
    }

    fn break_the_config(&mut self) {
        let good = self.home.read_config();
        for bad in [
            good.replace("\"models\":[", "\"modles\":["),
            good.replace(&format!("\"{CONFIGURED}\""), &format!("[\"{CONFIGURED}\"]")),
            good.replace("\"anthropic-messages\"", "\"x\"").replacen('}', " oops", 1),
        ] {
            assert_ne!(bad, good);
            self.home.write_config(&bad);
            for words in
                [["ask", "hi"].as_slice(), &["config", "validate"], &["config", "get", "--json"], &["status"]]
            {
                self.run(words);
            }
        }
        self.home.write_config(&good);
    }

    fn nothing_is_found(&self) {
        for secret in ALL {
            for (place, text) in &self.heard {
                assert!(!text.contains(secret), "{secret} in {place}: {text}");
            }
        }
        let mut looked = 0;
        for (path, _, folder) in tree(self.home.root()) {
            let bytes =
                if folder { Vec::new() } else { fs::read(self.home.root().join(&path)).unwrap_or_default() };
            let own = path == Path::new("config.json5") || path.starts_with("revisions");
            let hidden: &[&str] = if own { &NOWHERE } else { &ALL };
            for secret in hidden {
                let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!found, "{secret} in {}", path.display());
            }
            looked += usize::from(!bytes.is_empty());
        }
        assert!(looked > 5, "there is something to look at");
    }
}

/// Puts a key and a login where `auth login` puts them.
fn store(home: &Path) {
    let options = StoreOptions { keys: KeyChoice::File, ..StoreOptions::default() };
    let store = CredentialStore::open(&home.join("credentials"), options).expect("the store opens");
    let key = Credential::ApiKey { key: Secret::new(STORED), email: None };
    store.add("mistral", None, key).expect("a key can be stored");
    let login = Credential::Oauth {
        access: Secret::new(ACCESS),
        refresh: Secret::new(REFRESH),
        expires_at: 4_000_000_000_000,
        account_id: Some("account-0001".to_owned()),
        email: None,
        client_id: Some("a-client".to_owned()),
        extra: std::collections::BTreeMap::new(),
    };
    let id: ProfileId = "openai-codex/default".parse().expect("an id");
    store.put(&id, login).expect("a login can be stored");
}

/// Turns whose words repeat what was sent, and whether they are good ones.
fn trouble(sent: &str) -> Vec<(Turn, bool)> {
    let words = format!("you sent {sent}");
    let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": words}});
    // Where the words are cut, half of a secret is left.
    let cut = json!({"error": {"message": format!("{}{sent}", "x".repeat(490))}});
    let inside = format!("event: error\ndata: {error}\n\n");
    vec![
        (Turn::say("a good answer"), true),
        (Turn::json(400, error.clone()), false),
        (Turn::json(400, cut), false),
        (Turn::json(400, json!(words)), false),
        (Turn::json(500, error.clone()), false),
        (Turn::new([Step::Html(502)]), false),
        (Turn::new([Step::HalfOpen]), false),
        (Turn::new([Step::Raw(inside.clone().into_bytes()), Step::Close]), false),
        (Turn::say("half").then(Step::Raw(inside.into_bytes())).then(Step::Close), false),
        (Turn::json(429, error.clone()), false),
        (Turn::json(401, error), false),
    ]
}

/// A server of logins that is out of order and says what it was sent.
fn refresh_refused() -> Turn {
    Turn::json(500, json!({"error": "server_error", "error_description": format!("you sent {REFRESH}")}))
}

#[test]
fn no_secret_is_printed_logged_answered_or_stored_in_clear() {
    let mut scene = Scene::set();
    scene.serve();
    scene.forget_failures();
    scene.ask_everything();
    let seen: Vec<String> = scene
        .vendor
        .requests()
        .iter()
        .map(|request| format!("{:?} {}", request.headers, request.body))
        .collect();
    for secret in [CONFIGURED, HEADER, ENVIRONMENT, STORED, ACCESS, REFRESH] {
        assert!(seen.iter().any(|request| request.contains(secret)), "{secret} was really used");
    }
    scene.look_everywhere();
    scene.break_the_config();
    scene.nothing_is_found();
}
