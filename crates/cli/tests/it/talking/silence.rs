//! An agent that has nothing to say: one rule wherever its answer goes.

use serde_json::json;
use tidegate_testkit::model_server::{Step, Turn};

use super::Vendor;
use crate::gateway::homes::account;
use crate::gateway::live::Live;
use crate::home::Backend;
use crate::terminal::on_terminal;

const TOKEN: &str = "NO_REPLY";

/// The token as it comes: in pieces.
fn silent() -> Turn {
    Turn::say("NO").then(Step::Say("_RE".into())).then(Step::Say("PLY".into()))
}

fn beside_words() -> Turn {
    Turn::say("Finished. NO_").then(Step::Say("REPLY".into()))
}

#[test]
fn a_question_that_is_answered_with_silence_has_an_empty_result() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    vendor.push(silent()).push(beside_words());
    assert_eq!(home.ask("anything?")["result"], "");
    assert_eq!(home.ask("and now?")["result"], "Finished.");
}

#[test]
fn a_person_reads_that_there_is_no_reply_and_never_the_token() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    vendor.push(silent()).push(beside_words());
    let done = on_terminal(&home, &["ask", "anything?"], "", &[]);
    assert!(done.stdout.contains("(no reply)") && !done.stdout.contains("NO"), "{done:?}");
    let done = on_terminal(&home, &["ask", "and now?"], "", &[]);
    assert_eq!(done.stdout, "Finished.\n");
}

#[test]
fn a_channel_gets_the_words_alone_and_nothing_of_silence() {
    let vendor = Vendor::open();
    let local = json!({"local": {"enabled": true, "pollMs": 20, "accounts": {"default": {}}}});
    let home = vendor.home(Backend::Sqlite, &[("channels", local)]).expect("SQLite is always there");
    let live = Live::start(&home);
    vendor.push(silent()).push(beside_words());
    account(&home, "default").say("p", "hi");
    vendor.next();
    account(&home, "default").say("p", "and now?");
    let told = format!("{:?}", account(&home, "default").wait_for(1));
    assert!(told.contains("Finished.") && !told.contains(TOKEN), "{told}");
    live.end();
}
