//! `models …`: which there are, which answer, and what a call that fails means.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::home::Home;
use crate::process::{Call, Failed};
use crate::vendor::{Reply, Vendor, config_at};

/// A key that must show up nowhere.
fn key() -> String {
    format!("canary-{}-{}", "key", 815)
}

/// A home where this vendor is the provider `mock`, with a key for it.
fn home_with(vendor: &Vendor) -> Home {
    let home = Home::new();
    home.write_config(&vendor.config());
    home.call(&["auth", "login", "mock", "--stdin"]).stdin(key()).ok();
    home
}

fn models(call: Call) -> Vec<Value> {
    call.json()["models"].as_array().unwrap().clone()
}

fn names(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["model"].as_str().unwrap()).collect()
}

#[test]
fn without_a_credential_the_list_says_how_to_get_one() {
    let home = Home::new();
    let empty = home.call(&["models", "list"]).ok().stdout;
    assert!(
        empty.contains("tidegate auth login anthropic") && empty.contains("models list --all"),
        "{empty}"
    );
    assert_eq!(home.call(&["models", "list", "--json"]).json(), json!({ "models": [] }));
    let all = models(home.call(&["models", "list", "--all", "--json"]));
    assert!(names(&all).contains(&"offline/echo") && all.len() > 20, "{} models", all.len());
    let status = home.call(&["models", "status"]).ok().stdout;
    assert!(status.contains("offline/echo") && status.contains("auth login"), "{status}");
    let failed = home.call(&["models", "list", "--provider", "foo"]).fails("UNSUPPORTED_PROVIDER");
    assert_eq!(failed.message, "Unsupported provider: foo");
    let only = models(home.call(&["models", "list", "--provider", "anthropic", "--json"]));
    assert!(only.iter().all(|row| row["provider"] == "anthropic" && row["credential"] == false), "{only:?}");
    assert!(!home.root().exists(), "looking makes no home");
}

#[test]
fn the_list_has_what_there_is_a_key_for_with_price_alias_and_place() {
    let home = Home::new();
    home.write_config(
        "{ agents: { defaults: { model: { primary: 'anthropic/claude-sonnet-4-5', fallbacks: ['openai/gpt-x'] }, \
         models: { 'anthropic/claude-sonnet-4-5': { alias: 'son' }, 'openai/gpt-x': {} } } } }",
    );
    home.call(&["auth", "login", "anthropic", "--stdin"]).stdin(key()).ok();
    let rows = models(home.call(&["models", "list", "--json"]));
    let row =
        |name: &str| rows.iter().find(|row| row["model"] == name).unwrap_or_else(|| panic!("no {name}"));
    let sonnet = row("anthropic/claude-sonnet-4-5");
    assert_eq!(
        (&sonnet["alias"], &sonnet["place"], &sonnet["credential"]),
        (&json!("son"), &json!(0), &json!(true))
    );
    assert_eq!(sonnet["price"]["input"], 3.0);
    let unknown = row("openai/gpt-x");
    assert_eq!(
        (&unknown["place"], &unknown["credential"], &unknown["price"]),
        (&json!(1), &json!(false), &json!(null))
    );
    let shown = home.call(&["models", "list"]).ok().stdout;
    let line = shown.lines().find(|line| line.starts_with("anthropic/claude-sonnet-4-5")).unwrap();
    for part in ["$3.00 / $15.00", "thinks images", "yes", "son", "primary"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(shown.contains("fallback 1"), "{shown}");
    let keyed = models(home.call(&["models", "list", "--json"]).env("GROQ_API_KEY", key()));
    assert!(keyed.iter().any(|row| row["provider"] == "groq"), "a key of the environment counts");
}

#[test]
fn a_script_of_ones_own_needs_no_credential() {
    let home = Home::new();
    let providers = "{ demo: { api: 'scripted', script: 'demo.json', models: [{ id: 'm' }] } }";
    home.write_config(&format!("{{ models: {{ providers: {providers} }} }}\n"));
    let done = home.call(&["models", "set", "demo/m"]).ok();
    assert!(!done.stderr.contains("auth login"), "{done:?}");
    let listed = models(home.call(&["models", "list", "--json"]));
    assert!(listed.iter().any(|row| row["model"] == "demo/m" && row["credential"] == true), "{listed:?}");
}

#[test]
fn setting_a_model_changes_one_value_and_keeps_the_comments() {
    let home = Home::new();
    let before = "// mine\n{\n  ui: { language: 'en' }, // why\n  agents: { list: [\n    { id: 'main' },\n    { id: 'helper', model: { primary: 'offline' } }, // its own\n  ] },\n}\n";
    home.write_config(before);
    let done = home.call(&["models", "set", "anthropic/claude-sonnet-4-5"]).ok();
    assert!(done.stdout.contains("agents.defaults.model.primary"), "{done:?}");
    assert!(done.stderr.contains("tidegate auth login anthropic"), "no credential: {done:?}");
    let get = |path: &str| home.call(&["config", "get", path]).ok().stdout;
    assert_eq!(get("agents.defaults.model.primary"), "anthropic/claude-sonnet-4-5\n");
    let told = home.call(&["models", "set", "offline", "--agent", "helper", "--json"]).json();
    assert_eq!(told["path"], "agents.list.1.model.primary");
    home.call(&["models", "set", "openai/gpt-5.2", "--agent", "main"]).ok();
    assert_eq!(get("agents.list[0].model"), "openai/gpt-5.2\n");
    let text = home.read_config();
    assert!(
        text.starts_with("// mine\n") && text.contains("// why") && text.contains("// its own"),
        "{text}"
    );
    home.call(&["models", "set", "offline", "--agent", "nobody"]).fails("NOT_FOUND");
}

#[test]
fn a_model_that_nobody_has_is_refused_with_what_may_be_meant() {
    let home = Home::new();
    for (name, code, meant) in [
        ("gpt-5.2", "INVALID_VALUE", "openai/gpt-5.2"),
        ("antropic/claude-sonnet-4-5", "UNSUPPORTED_PROVIDER", "anthropic/claude-sonnet-4-5"),
        ("nonsense", "INVALID_VALUE", "models list"),
    ] {
        let failed = home.call(&["models", "set", name]).fails(code);
        assert!(failed.stderr.contains(meant), "{failed:?}");
    }
    let done = home.call(&["models", "set", "anthropic/claude-sonet-4-5"]).ok();
    assert!(done.stderr.contains("Did you mean anthropic/claude-sonnet-4-5?"), "{done:?}");
    home.call(&["models", "set"]).fails("MISSING_VALUE");
    home.call(&["models"]).fails("MISSING_VALUE");
    home.write_config("{ models: { policy: { deniedModels: ['openai/*'] } } }");
    let before = home.read_config();
    home.call(&["models", "set", "openai/gpt-5.2"]).fails("POLICY_DENIED");
    home.call(&["models", "fallbacks", "add", "openai/gpt-5.2"]).fails("POLICY_DENIED");
    assert_eq!(home.read_config(), before);
}

#[test]
fn fallbacks_are_added_removed_and_cleared_in_the_file() {
    let home = Home::new();
    home.write_config("// mine\n{\n  agents: { defaults: { model: { primary: 'offline' } } }, // why\n}\n");
    assert!(home.call(&["models", "fallbacks"]).ok().stdout.starts_with("No fallbacks"));
    home.call(&["models", "fallbacks", "add", "openai/gpt-5.2"]).ok();
    home.call(&["models", "fallbacks", "add", "anthropic/claude-haiku-4-5"]).ok();
    home.call(&["models", "fallbacks", "add", "openai/gpt-5.2"]).fails("INVALID_VALUE");
    let list = || home.call(&["models", "fallbacks", "list", "--json"]).json()["fallbacks"].clone();
    assert_eq!(list(), json!(["openai/gpt-5.2", "anthropic/claude-haiku-4-5"]));
    let shown = home.call(&["models", "fallbacks", "list"]).ok().stdout;
    assert_eq!(shown, "1. openai/gpt-5.2\n2. anthropic/claude-haiku-4-5\n");
    home.call(&["models", "fallbacks", "remove", "openai/gpt-5.2"]).ok();
    home.call(&["models", "fallbacks", "remove", "openai/gpt-5.2"]).fails("NOT_FOUND");
    assert_eq!(list(), json!(["anthropic/claude-haiku-4-5"]));
    home.call(&["models", "fallbacks", "clear"]).ok();
    assert_eq!(list(), json!([]));
    home.call(&["models", "fallbacks", "clear"]).ok();
    home.call(&["models", "fallbacks", "bogus"]).fails("INVALID_VALUE");
    let text = home.read_config();
    assert!(text.starts_with("// mine\n") && text.contains("// why"), "{text}");
}

#[test]
fn the_status_names_rule_credential_limit_and_budget() {
    let home = Home::new();
    home.write_config(
        "{ agents: { defaults: { model: { primary: 'anthropic/claude-sonnet-4-5', fallbacks: ['openai/gpt-5.2', 'groq/x'] } } }, \
         models: { policy: { deniedModels: ['openai/*'], maxCostPerRunUsd: 0.5 } }, \
         budgets: { tenant: { dailyUsd: 5, hardLimit: false }, agents: { main: { monthlyTokens: 1000000 } } } }",
    );
    home.call(&["auth", "login", "anthropic", "--stdin"]).stdin(key()).ok();
    let call = || home.call(&["models", "status"]).env("ANTHROPIC_API_KEY", key());
    let told = call().ok().stdout;
    assert!(told.contains("anthropic/default (key)") && told.contains("anthropic/env"), "{told}");
    assert!(told.contains("openai/*"), "the rule: {told}");
    assert!(told.contains("tidegate auth login groq"), "{told}");
    assert!(told.contains("$0.50") && told.contains("$0.0000 / $5.00") && told.contains("░"), "{told}");
    let told = home.call(&["models", "status", "--json"]).json();
    assert_eq!(told["models"][1]["allowed"], false);
    assert_eq!(told["thinking"], "low");
    assert_eq!(told["budgets"].as_array().unwrap().len(), 2, "{told}");
    home.call(&["models", "status", "--agent", "nobody"]).fails("NOT_FOUND");
}

#[test]
fn a_model_that_answers_is_told_with_credential_time_tokens_and_cost() {
    let vendor = Vendor::start(Reply::ok());
    let home = home_with(&vendor);
    let done = home.call(&["models", "test", "mock/m1"]).ok();
    for part in ["mock/m1 answers", "mock/default", "12 in, 4 out", "$0.0001", " s\n"] {
        assert!(done.stdout.contains(part), "{part}: {done:?}");
    }
    let told = home.call(&["models", "test", "mock", "--json"]).json();
    assert_eq!(
        (&told["success"], &told["text"], &told["profileId"]),
        (&json!(true), &json!("ok"), &json!("mock/default"))
    );
    assert_eq!((&told["usage"]["input"], &told["usage"]["output"]), (&json!(12), &json!(4)));
    let request = vendor.seen()[0].clone();
    assert!(
        request.contains("Answer with the single word: ok") && request.contains("\"max_tokens\":32"),
        "{request}"
    );
    assert!(request.contains(&key()), "the stored key is sent");
    let used = home.call(&["usage", "--by", "model", "--json"]).json();
    assert_eq!(
        (&used["rows"][0]["group"], &used["rows"][0]["calls"]),
        (&json!("mock/m1"), &json!(2)),
        "it is metered"
    );
    assert_eq!(used["total"]["usage"]["input"], 24);
    assert!(used["total"]["usage"]["cost"].as_u64().unwrap() > 0);
    assert!(home.runs().is_empty() && home.sessions().is_empty(), "it is no conversation");
}

/// What a person is told about a vendor that does this.
fn verdict(reply: Reply) -> Failed {
    let vendor = Vendor::start(reply);
    let home = home_with(&vendor);
    let done = home.call(&["models", "test", "mock/m1"]).run();
    let code = if done.stderr.contains("[AUTH_REQUIRED]") { "AUTH_REQUIRED" } else { "MODEL_UNAVAILABLE" };
    let failed = done.failed(1, code);
    assert!(!failed.stderr.contains(&key()), "{failed:?}");
    failed
}

#[test]
fn each_failure_is_told_by_what_it_means() {
    let wrong = verdict(Reply::error(401, "authentication_error", "invalid x-api-key"));
    assert!(
        wrong.stderr.starts_with("[AUTH_REQUIRED] mock does not accept the credential mock/default"),
        "{wrong:?}"
    );
    assert!(wrong.stderr.contains("tidegate auth login mock"), "{wrong:?}");

    let poor = verdict(Reply::error(402, "billing_error", "Your credit balance is too low"));
    assert!(poor.message.contains("no credit") && poor.message.contains("credit balance"), "{poor:?}");

    let unknown = verdict(Reply::error(404, "not_found_error", "model: m1"));
    assert!(unknown.message.starts_with("mock has no model m1"), "{unknown:?}");

    let headers = "content-type: application/json\r\nretry-after: 3600\r\n";
    let limited = verdict(Reply::limited(429, "rate_limit_error", "slow down", headers));
    assert!(limited.message.contains("until 20") && limited.message.contains("slow down"), "{limited:?}");

    let failed = verdict(Reply::error(500, "api_error", "internal trouble"));
    assert!(
        failed.message.contains("internal trouble") || failed.message.contains("too much to do"),
        "{failed:?}"
    );

    let page = "<html><body>Sign in</body></html>".to_owned();
    let page = verdict(Reply::Http(200, "content-type: text/html\r\n", page));
    assert!(page.stderr.contains("web page") && page.stderr.contains("baseUrl"), "{page:?}");
}

#[test]
fn silence_and_closed_doors_are_told_apart() {
    let silent = verdict(Reply::Silence);
    assert!(
        silent.message.contains("did not answer in time") && silent.stderr.contains("idleTimeoutSeconds"),
        "{silent:?}"
    );

    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let home = Home::new();
    home.write_config(&config_at(&format!("http://127.0.0.1:{free}")));
    let refused = home.call(&["models", "test", "mock/m1"]).fails("MODEL_UNAVAILABLE");
    assert!(refused.stderr.contains("Nothing listens there"), "{refused:?}");

    let plain = Vendor::start(Reply::ok());
    home.write_config(&config_at(&format!("https://127.0.0.1:{}", plain.port)));
    let untrusted = home.call(&["models", "test", "mock/m1"]).fails("MODEL_UNAVAILABLE");
    assert!(untrusted.stderr.contains("speak no TLS"), "{untrusted:?}");

    home.write_config(&config_at("http://nobody.invalid"));
    home.call(&["auth", "login", "mock", "--stdin"]).stdin(key()).ok();
    let unresolved = home.call(&["models", "test", "mock/m1"]).fails("MODEL_UNAVAILABLE");
    assert!(unresolved.message.contains("nobody.invalid"), "{unresolved:?}");
}

#[test]
fn what_cannot_be_asked_at_all_is_told_before_anybody_is_called() {
    let vendor = Vendor::start(Reply::ok());
    let home = home_with(&vendor);
    home.call(&["models", "test", "anthropic"]).fails("AUTH_REQUIRED");
    home.call(&["models", "test", "nonsense"]).fails("INVALID_VALUE");
    home.call(&["models", "test", "foo/bar"]).fails("UNSUPPORTED_PROVIDER");
    home.call(&["models", "test", "mock/m1", "--profile", "mock/nobody"]).fails("AUTH_REQUIRED");
    home.call(&["models", "test", "offline", "--profile", "x/y"]).fails("INVALID_VALUE");
    let json = home.call(&["models", "test", "anthropic", "--json"]).fails("AUTH_REQUIRED");
    assert!(json.stdout.contains("\"success\": false"), "{json:?}");
    assert!(vendor.seen().is_empty());
    assert!(home.call(&["models", "test"]).ok().stdout.starts_with("offline/echo answers"));
}

#[test]
fn the_second_credential_answers_and_the_first_ones_trouble_is_told() {
    let vendor = Vendor::start(Reply::error(401, "authentication_error", "invalid x-api-key"));
    let home = home_with(&vendor);
    home.call(&["auth", "login", "mock", "--stdin", "--name", "spare"]).stdin("spare-key").ok();
    let failed = home.call(&["models", "test", "mock/m1"]).fails("AUTH_REQUIRED");
    assert!(failed.stderr.contains("mock/default") && failed.stderr.contains("mock/spare"), "{failed:?}");
    assert_eq!(vendor.seen().len(), 2);
    let insisted =
        home.call(&["models", "test", "mock/m1", "--profile", "mock/spare"]).fails("AUTH_REQUIRED");
    assert!(!insisted.stderr.contains("mock/default"), "{insisted:?}");
}

#[test]
fn a_credential_that_rests_is_shown_with_until_when_and_why() {
    let headers = "content-type: application/json\r\nretry-after: 3600\r\n";
    let vendor = Vendor::start(Reply::limited(429, "rate_limit_error", "slow down", headers));
    let home = home_with(&vendor);
    home.call(&["models", "set", "mock/m1"]).ok();
    home.call(&["models", "test"]).fails("MODEL_UNAVAILABLE");
    let told = home.call(&["models", "status", "--json"]).json();
    let credential = &told["models"][0]["credentials"][0];
    assert_eq!((&credential["id"], &credential["reason"]), (&json!("mock/default"), &json!("rateLimit")));
    let until = credential["coolingUntil"].as_str().unwrap();
    let shown = home.call(&["models", "status"]).ok().stdout;
    assert!(
        shown.contains(&format!("mock/default (key), cooling down until {until} (rateLimit)")),
        "{shown}"
    );
    let status = home.call(&["auth", "status"]).ok().stdout;
    assert!(status.contains(&format!("* mock/default mock/m1 cooling down until {until}")), "{status}");
    assert_eq!(home.call(&["auth", "status", "--json"]).json()["coolingDown"][0]["until"], until);
}

#[test]
fn a_credential_that_rests_is_tried_all_the_same_when_somebody_tests_it() {
    let vendor = Vendor::start(Reply::error(402, "billing_error", "no credit"));
    let home = home_with(&vendor);
    for calls in 1..=2 {
        home.call(&["models", "test", "mock/m1"]).fails("MODEL_UNAVAILABLE");
        assert_eq!(vendor.seen().len(), calls);
    }
}

#[test]
fn what_questions_used_fills_the_budget() {
    let home = Home::new();
    home.write_config("{ budgets: { tenant: { dailyTokens: 1000000 } } }");
    home.ask("hello");
    let told = home.call(&["models", "status", "--json"]).json();
    let budget = &told["budgets"][0];
    assert!(budget["tokensSpent"].as_u64().unwrap() > 0, "{told}");
    assert_eq!((&budget["tokensReserved"], &budget["maxTokens"]), (&json!(0), &json!(1_000_000)));
    let shown = home.call(&["models", "status"]).ok().stdout;
    assert!(shown.contains("/ 1.0m tokens") && shown.contains('▏'), "{shown}");
}

#[test]
fn beside_a_running_gateway_the_gateway_makes_the_call() {
    let vendor = Vendor::start(Reply::ok());
    let home = home_with(&vendor);
    let mut gateway = home.call(&["gateway", "run", "--port", "0"]).start();
    assert!(gateway.line().contains("listens"), "the gateway starts");
    let done = home.call(&["models", "test", "mock/m1"]).ok();
    assert!(done.stdout.contains("mock/m1 answers"), "{done:?}");
    let failed = home.call(&["models", "test", "anthropic"]).fails("AUTH_REQUIRED");
    assert!(failed.stderr.contains("anthropic"), "{failed:?}");
    let used = home.call(&["usage", "--json"]).json();
    assert_eq!(used["total"]["calls"], 1, "{used}");
    let set = home.call(&["models", "set", "mock/m1"]).ok();
    assert!(set.stderr.contains("restart"), "{set:?}");
    home.call(&["gateway", "stop"]).ok();
    gateway.wait();
}

#[test]
fn nothing_of_it_is_only_in_english() {
    let vendor = Vendor::start(Reply::error(401, "authentication_error", "invalid x-api-key"));
    let home = home_with(&vendor);
    let is_chinese = |text: &str| text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c));
    let chinese = |words: &[&str]| home.call(words).env("LANG", "zh_CN.UTF-8").run();
    for words in [
        ["models", "list"].as_slice(),
        &["models", "status"],
        &["models", "fallbacks"],
        &["models", "set", "mock/m1"],
        &["usage"],
        &["auth", "status"],
        &["models", "test", "mock/m1"],
        &["auth", "use", "x"],
    ] {
        let done = chinese(words);
        assert!(is_chinese(&done.stdout) || is_chinese(&done.stderr), "{words:?}: {done:?}");
    }
}

#[test]
fn what_a_rule_forbids_is_told_in_the_readers_language() {
    let home = Home::new();
    home.write_config(
        "{ models: { policy: { deniedModels: ['mock/*'] },
           providers: { mock: { api: 'anthropic-messages', baseUrl: 'http://127.0.0.1:9' } } } }",
    );
    let asked = |language| {
        let call = home.call(&["ask", "--model", "mock/m1", "hi"]).env("LANG", language);
        call.fails("POLICY_DENIED").message
    };
    assert_eq!(asked("en_US.UTF-8"), "policy forbids it (models.policy): mock/m1 is denied by mock/*");
    assert!(asked("zh_CN.UTF-8").starts_with("规则不允许（models.policy）"));
}

#[test]
fn the_subcommands_are_named_once_each() {
    let failed = Home::new().call(&["models"]).fails("MISSING_VALUE");
    assert!(failed.stderr.contains("models: list, status, set, fallbacks, test."), "{failed:?}");
}
