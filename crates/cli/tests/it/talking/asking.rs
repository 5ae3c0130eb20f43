//! `ask` with a vendor's model: what is printed, what is sent, and how it ends when somebody has had enough.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use tidegate_testkit::model_server::{Kind, Step, Tokens, Turn};

use super::{Vendor, asked, conversation};
use crate::home::{Backend, Home};
use crate::terminal::on_terminal;

fn the_contract(backend: Backend) {
    let vendor = Vendor::open();
    let Some(home) = vendor.home(backend, &[]) else { return };
    vendor.push(Turn::say("the tide turns"));
    let answer = home.ask("when?");
    assert_eq!(answer["result"], "the tide turns");
    assert_eq!(answer["route"], "anthropic");
    assert_eq!(answer["stage"], "adapter.anthropic-messages.anthropic/config");
    assert_eq!(
        (&answer["provider"], &answer["profileId"]),
        (&json!("anthropic"), &json!("anthropic/config"))
    );
    vendor.push(Turn::say("at six"));
    home.ask("when exactly?");
    assert_eq!(vendor.said(), ["user: when?", "assistant: the tide turns", "user: when exactly?"]);
    assert_eq!(
        conversation(&home),
        ["user: when?", "assistant: the tide turns", "user: when exactly?", "assistant: at six"]
    );
}

#[test]
fn an_answer_is_printed_as_the_contract_says_and_the_next_turn_remembers_it() {
    the_contract(Backend::Sqlite);
}

#[test]
fn an_answer_is_printed_as_the_contract_says_and_the_next_turn_remembers_it_on_postgres() {
    the_contract(Backend::Postgres);
}

#[test]
fn on_a_terminal_the_answer_appears_as_it_comes() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    vendor.push(Turn::say("all of it"));
    let done = on_terminal(&home, &["ask", "hi"], "", &[]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "all of it\n"));
    vendor.push(Turn::say("half of").then(Step::Silence));
    let done = on_terminal(&home, &["ask", "--timeout", "1", "hi"], "", &[]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stdout.starts_with("half of\n[DEADLINE_EXCEEDED] "), "{done:?}");
    assert_eq!(conversation(&home), ["user: hi", "assistant: all of it"], "a half answer is not kept");
}

#[test]
fn the_model_the_provider_and_the_credential_can_be_chosen() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    let answer = home.call(&["ask", "--model", "groq/second", "hi"]).json();
    assert_eq!(
        (&answer["route"], &answer["stage"]),
        (&json!("groq"), &json!("adapter.openai-completions.groq/config"))
    );
    let answer = home.call(&["ask", "--provider", "groq", "--model", "second", "hi"]).json();
    assert_eq!(answer["provider"], "groq");
    let answer = home.call(&["ask", "--provider", "anthropic", "hi"]).json();
    assert_eq!(answer["provider"], "anthropic");
    let key = format!("{}-key", "environment");
    let call = || home.call(&["ask", "--profile", "anthropic/env", "hi"]);
    let answer = call().env("ANTHROPIC_API_KEY", &key).json();
    assert_eq!(answer["profileId"], "anthropic/env");
    assert_eq!(vendor.last_request().header("x-api-key"), Some(key.as_str()));
    let failed = call().fails("AUTH_REQUIRED");
    assert!(failed.message.contains("anthropic/env"), "{failed:?}");
    assert_eq!(asked(&vendor), ["second", "second", "first", "first"]);
    home.call(&["ask", "--provider", "nobody", "hi"]).fails("UNSUPPORTED_PROVIDER");
    let api = home.call(&["ask", "--provider", "scripted", "hi"]).fails("UNSUPPORTED_PROVIDER");
    assert!(format!("{api:?}").contains("models.providers.<name>.api"), "{api:?}");
    let slip = home.call(&["ask", "--model", "antropic/first", "hi"]).fails("UNSUPPORTED_PROVIDER");
    assert!(format!("{slip:?}").contains("Unsupported provider: antropic"), "{slip:?}");
    assert!(format!("{slip:?}").contains("Did you mean anthropic?"), "{slip:?}");
    home.call(&["ask", "--model", "a b/c d/", "hi"]).run().code.filter(|code| *code == 1).expect("refused");
    assert_eq!(vendor.requests().len(), 4);
}

#[test]
fn how_much_a_model_thinks_can_be_chosen() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    home.call(&["ask", "--model", "anthropic/deep", "--thinking", "high", "hi"]).ok();
    let high = vendor.last_request().body["thinking"].clone();
    assert_eq!(high["type"], "enabled", "{high}");
    home.call(&["ask", "--model", "anthropic/deep", "--thinking", "off", "hi"]).ok();
    assert_ne!(vendor.last_request().body["thinking"]["type"], "enabled");
    home.call(&["ask", "--thinking", "furiously", "hi"]).fails("INVALID_VALUE");
}

#[test]
fn without_a_credential_nothing_is_accepted_and_the_way_out_is_told() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    // A server on this machine may do without a key; the vendor's own does not.
    home.call(&["config", "set", "agents.defaults.model.primary", "openai/gpt-5.2"]).ok();
    for words in [["ask", "hi"].as_slice(), &["ask", "hi", "--json"]] {
        let failed = home.call(words).fails("AUTH_REQUIRED");
        assert!(failed.stderr.contains("auth login openai"), "{failed:?}");
    }
    assert!(home.runs().is_empty() && vendor.requests().is_empty());
    let done = on_terminal(&home, &["ask", "hi"], "", &[]);
    assert!(done.stdout.contains("auth login openai"), "{done:?}");
}

#[test]
fn what_policy_forbids_is_refused_without_a_call_and_is_on_record() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    home.call(&["config", "set", "models.policy.allowedModels", r#"["groq/*"]"#]).ok();
    home.call(&["ask", "hi"]).fails("POLICY_DENIED");
    home.call(&["ask", "--model", "anthropic/deep", "hi"]).fails("POLICY_DENIED");
    assert!(vendor.requests().is_empty());
    let listed = home.call(&["audit", "list", "--json"]).json().to_string();
    assert_eq!(listed.matches("POLICY_DENIED").count(), 2, "on record: {listed}");
    home.call(&["ask", "--model", "groq/second", "hi"]).ok();
}

#[test]
fn a_budget_that_is_used_up_is_told_and_is_in_the_audit() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    home.call(&["config", "set", "budgets.tenant.dailyUsd", "0.01"]).ok();
    let failed = home.call(&["ask", "hi"]).fails("BUDGET_EXCEEDED");
    for word in ["tenant local", "for today", "$0.01", "tomorrow"] {
        assert!(failed.message.contains(word), "{word}: {failed:?}");
    }
    assert!(vendor.requests().is_empty());
    let listed = home.call(&["audit", "list", "--json"]).json().to_string();
    assert!(listed.contains("budget.rejected") && listed.contains("tenant:local"), "{listed}");
    home.call(&["config", "set", "budgets.tenant.hardLimit", "false"]).ok();
    home.call(&["ask", "hi"]).ok();
}

#[test]
fn an_interrupted_question_closes_the_vendors_connection() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    vendor.push(Turn::say("I could go on").then(Step::Silence));
    let running = home.call(&["ask", "hi"]).start();
    vendor.next();
    // Once something of the answer has come, so that there is something to be paid.
    std::thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    running.signal(Signal::INT);
    let failed = running.wait().failed(130, "ABORTED");
    assert!(begin.elapsed() < Duration::from_secs(10), "{failed:?}");
    vendor.gone(1);
    let runs = home.runs();
    assert_eq!((runs.len(), &runs[0]["state"]), (1, &json!("aborted")));
    vendor.push(Turn::say("fresh"));
    assert_eq!(home.ask("again")["result"], "fresh");
    assert_eq!(vendor.said(), ["user: again"]);
}

/// Tokens spent and reserved of all budgets.
fn budgets(home: &Home) -> (i64, i64) {
    let connection = rusqlite::Connection::open(home.database()).expect("the database opens");
    let sql = "SELECT sum(tokens_spent), sum(tokens_reserved) FROM budget_usage";
    connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("a sum")
}

#[test]
fn a_killed_question_is_paid_as_it_was_reserved_and_only_once() {
    let vendor = Vendor::open();
    let budget = json!({"tenant": {"dailyTokens": 100_000}});
    let home = vendor.home(Backend::Sqlite, &[("budgets", budget)]).expect("SQLite is always there");
    vendor.push(Turn::say("I could go on").then(Step::Silence));
    let running = home.call(&["ask", "hi"]).start();
    vendor.next();
    let (spent, reserved) = budgets(&home);
    assert!(spent == 0 && reserved > 4000, "the longest answer is reserved: {reserved}");
    running.signal(Signal::KILL);
    running.wait();
    vendor.gone(1);
    // Each further process settles what the one before left, and finds nothing more to settle.
    for at in 1..4 {
        let tokens = Tokens { input: 10, output: 5, cache_read: 0, cache_write: 0 };
        vendor.push(Turn::say("short").then(Step::Usage(tokens)));
        home.ask_in("other", "hi");
        assert_eq!(budgets(&home), (reserved + 15 * at, 0));
    }
}

#[test]
fn what_a_vendor_refuses_is_told_in_its_own_words() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    for (turn, code) in [
        (Turn::refuse(Kind::BadRequest), "MODEL_UNAVAILABLE"),
        (Turn::refuse(Kind::TooLong), "CONTEXT_OVERFLOW"),
        (Turn::new([Step::Html(502)]), "MODEL_UNAVAILABLE"),
        (Turn::refuse(Kind::Auth), "AUTH_REQUIRED"),
    ] {
        vendor.push(turn);
        let failed = home.call(&["ask", "hi"]).fails(code);
        assert!(!failed.stderr.contains("<html"), "a page is no message: {failed:?}");
    }
    assert_eq!(vendor.turns_left(), 0);
}
