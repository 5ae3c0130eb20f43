//! A secret in an answer: it does not go out to a channel, and that is told and on record.

use serde_json::json;
use tidegate_testkit::model_server::Turn;

use super::Vendor;
use crate::gateway::homes::account;
use crate::gateway::live::Live;
use crate::home::Backend;

const SECRET: &str = "deploy-canary-7d41aa";

#[test]
fn a_secret_in_an_answer_is_taken_out_on_its_way_to_a_channel() {
    let vendor = Vendor::open();
    let local = json!({"local": {"enabled": true, "pollMs": 20, "accounts": {"default": {}}}});
    let vars = json!({"vars": {"DEPLOY_TOKEN": SECRET}});
    let more = [("channels", local), ("env", vars)];
    let home = vendor.home(Backend::Sqlite, &more).expect("SQLite is always there");
    let live = Live::start(&home);
    vendor.push(Turn::say(&format!("It is {SECRET}, keep it."))).push(Turn::say("Nothing to hide."));
    account(&home, "default").say("p", "what is the token?");
    let told = format!("{:?}", account(&home, "default").wait_for(1));
    assert!(told.contains("It is [***], keep it.") && !told.contains(SECRET), "{told}");
    assert!(told.contains("env.vars.DEPLOY_TOKEN"), "whoever reads it knows what is missing: {told}");
    account(&home, "default").say("p", "and now?");
    let told = format!("{:?}", account(&home, "default").wait_for(2));
    assert!(told.contains("Nothing to hide.") && told.matches("[***]").count() == 1, "{told}");
    live.end();
    let audit = home.call(&["audit", "list", "--json"]).json();
    let rows: Vec<_> =
        audit["audit"].as_array().unwrap().iter().filter(|row| row["action"] == "reply.redacted").collect();
    assert_eq!(rows.len(), 1, "{audit}");
    assert_eq!(rows[0]["metadata"]["secrets"], json!(["env.vars.DEPLOY_TOKEN"]));
    assert!(!audit.to_string().contains(SECRET));
}

#[test]
fn a_secret_in_the_reason_of_a_failure_is_taken_out_as_well() {
    let vendor = Vendor::open();
    let local = json!({"local": {"enabled": true, "pollMs": 20, "accounts": {"default": {}}}});
    let vars = json!({"vars": {"DEPLOY_TOKEN": SECRET}});
    let home =
        vendor.home(Backend::Sqlite, &[("channels", local), ("env", vars)]).expect("SQLite is always there");
    let live = Live::start(&home);
    vendor.push(Turn::json(
        400,
        json!({"error": {"message": format!("bad input near {SECRET}"), "type": "invalid_request_error"}}),
    ));
    account(&home, "default").say("p", "what is the token?");
    let told = format!("{:?}", account(&home, "default").wait_for(1));
    live.end();
    assert!(told.contains("bad input near [***]") && !told.contains(SECRET), "{told}");
}
