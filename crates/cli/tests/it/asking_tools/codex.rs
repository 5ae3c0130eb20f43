//! The acceptance cases with a model that calls tools, in the dialect they were written for.

use serde_json::{Value, json};
use tidegate_testkit::model_server::Turn;

use super::{Desk, skeleton};
use crate::home::Home;
use crate::process::Call;
use crate::talking::Vendor;
use crate::tools::workspace;

/// A home that is logged in at a played Codex.
fn home(vendor: &Vendor) -> Home {
    let home = Home::new();
    let base = format!("{}/backend-api/codex", vendor.base_url());
    let config = json!({
        "agents": {"defaults": {"model": {"primary": "openai-codex/gpt-5.3-codex"}}},
        "models": {"retries": 0, "providers": {"openai-codex": {"baseUrl": base}}},
    });
    home.write_config(&config.to_string());
    let claims = json!({"https://api.openai.com/auth": {"chatgpt_account_id": "acc"}}).to_string();
    let access = format!("e30.{}.sig", base64url(claims.as_bytes()));
    let profile = json!({
        "id": "openai-codex/acc", "provider": "openai-codex", "createdAt": 1, "updatedAt": 2,
        "credential": {
            "access": access, "refresh": "again", "expires": 4_102_444_800_000_i64, "accountId": "acc",
        },
    });
    let file = home.around().join("auth-profiles.json");
    let root = json!({"version": 1, "activeProfileId": null, "profiles": {"openai-codex/acc": profile}});
    std::fs::write(&file, root.to_string()).unwrap();
    home.call(&["auth", "import", file.to_str().unwrap()]).ok();
    home
}

/// The alphabet of tokens.
fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..=chunk.len() {
            out.push(char::from(DIGITS[(group >> (18 - 6 * at)) as usize & 63]));
        }
    }
    out
}

fn ask(home: &Home, words: &[&str]) -> Call {
    home.call(&[&["ask"], words].concat()).inside(&workspace(home))
}

/// The results that the last request fed back.
fn fed_back(vendor: &Vendor) -> Vec<Value> {
    let input = vendor.last_request().body["input"].as_array().unwrap().clone();
    input.into_iter().filter(|item| item["type"] == "function_call_output").collect()
}

#[test]
fn case_48_a_model_calls_a_tool_and_answers() {
    let vendor = Vendor::open();
    let home = home(&vendor);
    vendor.push(Turn::call("call_1", "time_now", json!({})));
    vendor.push(Turn::say("it is late"));
    let answer = skeleton(&ask(&home, &["what time is it?"]).ok());
    assert_eq!(vendor.requests().len(), 2, "two calls of the model");
    assert_eq!(answer["result"], "it is late");
    let call = &answer["toolCalls"][0];
    assert_eq!((&call["name"], &call["source"]), (&json!("time.now"), &json!("model")), "{answer}");
    assert_eq!(answer["toolResults"][0]["result"]["ok"], true);
    assert_eq!((fed_back(&vendor).len(), &answer["sessionContextUpdated"]), (1, &json!(true)));
    let tools = vendor.last_request().body["tools"].to_string();
    assert!(tools.contains("time_now") && !tools.contains("time.now\""), "{tools}");
}

#[test]
fn case_49_a_model_that_never_stops_calling_is_stopped() {
    let vendor = Vendor::open();
    let home = home(&vendor);
    vendor.always(Turn::call("call_1", "time_now", json!({})));
    let answer = skeleton(&ask(&home, &["--tool-max-steps", "2", "loop"]).ok());
    let error = &answer["toolError"];
    assert_eq!((&error["code"], &error["tool"]), (&json!("execution_error"), &json!("time.now")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("max steps (2)"), "{error}");
    let ran = answer["toolResults"].as_array().unwrap();
    assert!(ran.len() == 2 && ran.iter().all(|done| done["result"]["ok"] == true), "{answer}");
    assert_eq!(answer["toolCalls"].as_array().unwrap().len(), 2, "those that were run: {answer}");
    assert!(!answer["result"].as_str().unwrap().is_empty(), "there is a word in the end: {answer}");
    assert_eq!(vendor.requests().len(), 4, "two rounds, one too many, and the last words");
    assert_eq!(vendor.last_request().body["tool_choice"], "none");
}

#[test]
fn three_rounds_are_enough_without_a_word_and_the_last_answer_has_what_came_of_them() {
    let desk = Desk::with(&Value::Null);
    for id in ["c1", "c2", "c3"] {
        desk.vendor.push(Turn::call(id, "read", json!({"path": "six.txt"})));
    }
    desk.vendor.push(Turn::say("six bytes"));
    let answer = desk.ask(&["how long is it?"]);
    assert_eq!((&answer["result"], answer["toolCalls"].as_array().unwrap().len()), (&json!("six bytes"), 3));
    assert!(answer.get("toolError").is_none(), "{answer}");
}

#[test]
fn case_50_an_answer_says_where_it_came_from_only_if_asked() {
    let vendor = Vendor::open();
    let home = home(&vendor);
    for (value, marked) in [("1", true), ("yes", true), ("0", false), ("", false)] {
        vendor.push(Turn::say("plain"));
        let call = ask(&home, &["hi"]).env("LAINCLAW_CODEX_PREFIX_RESPONSE", value);
        let expected = if marked { "[openai-codex:openai-codex/acc] plain" } else { "plain" };
        assert_eq!(call.json()["result"], expected, "{value:?}");
    }
    vendor.push(Turn::say("plain"));
    assert_eq!(ask(&home, &["hi"]).json()["result"], "plain");
}

#[test]
fn without_tools_a_model_is_told_of_none() {
    let vendor = Vendor::open();
    let home = home(&vendor);
    vendor.push(Turn::say("fine"));
    ask(&home, &["--no-with-tools", "hi"]).ok();
    let body = vendor.last_request().body;
    assert!(body.get("tools").is_none_or(|tools| tools == &json!([])), "{body}");
}
