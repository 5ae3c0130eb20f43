//! A vendor's model behind a running gateway: joined commands, the OpenAI dialect, channels, and an end in the middle.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::model_server::{Step, Turn};

use super::{Vendor, asked, conversation};
use crate::gateway::homes::account;
use crate::gateway::live::Live;
use crate::home::{Backend, Home};

fn with(vendor: &Vendor, more: &[(&str, Value)]) -> Home {
    vendor.home(Backend::Sqlite, more).expect("SQLite is always there")
}

#[test]
fn a_question_through_a_running_gateway_is_answered_the_same() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    let live = Live::start(&home);
    vendor.push(Turn::say("joined"));
    let answer = home.ask("one");
    assert_eq!((&answer["result"], &answer["route"]), (&json!("joined"), &json!("anthropic")));
    assert_eq!(answer["stage"], "adapter.anthropic-messages.anthropic/config");
    assert_eq!(
        (&answer["provider"], &answer["profileId"]),
        (&json!("anthropic"), &json!("anthropic/config"))
    );
    let answer = home.call(&["ask", "--model", "groq/second", "two"]).json();
    assert_eq!(answer["provider"], "groq");
    home.call(&["ask", "--thinking", "high", "--model", "anthropic/deep", "three"]).ok();
    assert_eq!(vendor.last_request().body["thinking"]["type"], "enabled");
    home.call(&["ask", "--profile", "anthropic/nobody", "four"]).fails("AUTH_REQUIRED");
    assert_eq!(asked(&vendor), ["first", "second", "deep"]);
    live.end();
    let questions: Vec<_> = conversation(&home).into_iter().step_by(2).collect();
    assert_eq!(questions, ["user: one", "user: two", "user: three"]);
}

fn events(body: &str) -> Vec<Value> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

#[test]
fn the_openai_dialect_streams_a_vendors_answer_with_what_it_used() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    let live = Live::start(&home);
    vendor.push(Turn::say("a streamed answer"));
    let body = json!({"model": "tidegate", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "hi"}]});
    let answer = live.http("POST", "/v1/chat/completions", &body);
    assert_eq!((answer.status, answer.body.ends_with("data: [DONE]\n\n")), (200, true), "{answer:?}");
    let events = events(&answer.body);
    let text =
        |event: &Value| event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned();
    assert_eq!(events.iter().map(text).collect::<String>(), "a streamed answer");
    let usage = &events.last().expect("a last event")["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(12), &json!(7)), "{usage}");
    vendor.push(Turn::say("half").then(Step::ErrorInside(tidegate_testkit::model_server::Kind::Overloaded)));
    let answer = live.http("POST", "/v1/chat/completions", &body);
    assert!(answer.body.contains("half") && answer.body.contains("\"error\""), "{answer:?}");
    live.end();
}

#[test]
fn an_answer_under_way_is_finished_before_the_gateway_ends() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    let live = Live::start(&home);
    let slow =
        Turn::say("begun").then(Step::Pause(Duration::from_secs(1))).then(Step::Say(" and done".into()));
    vendor.push(slow);
    let asking = home.call(&["ask", "hi"]).start();
    vendor.next();
    live.end();
    let done = asking.wait();
    assert_eq!(done.json()["result"], "begun and done", "{done:?}");
    assert_eq!(vendor.requests().len(), 1);
}

#[test]
fn an_answer_that_cannot_end_in_time_is_given_up_and_nobody_is_asked_twice() {
    let vendor = Vendor::open();
    let home = with(&vendor, &[("gateway", json!({"drainSeconds": 1}))]);
    let live = Live::start(&home);
    vendor.push(Turn::say("begun").then(Step::Silence));
    let asking = home.call(&["ask", "hi"]).start();
    vendor.next();
    live.end();
    asking.wait().failed(1, "INTERRUPTED");
    vendor.gone(1);
    assert_eq!(vendor.requests().len(), 1);
    assert_eq!(home.ask("again")["success"], true);
}

#[test]
fn a_sender_on_a_channel_is_told_why_there_is_no_answer() {
    let vendor = Vendor::open();
    let local = json!({"local": {"enabled": true, "pollMs": 20, "accounts": {"default": {}}}});
    let home = with(&vendor, &[("channels", local), ("budgets", json!({"tenant": {"dailyTokens": 10}}))]);
    let live = Live::start(&home);
    account(&home, "default").say("p", "hi");
    let told = account(&home, "default").wait_for(1);
    let told = format!("{told:?}");
    assert!(told.contains("budget of tenant local") && told.contains("tomorrow"), "{told}");
    assert!(vendor.requests().is_empty());
    live.end();
}
