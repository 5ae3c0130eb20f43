//! `chat`: a person at a real terminal, and a program that writes lines.

mod pty;
mod stopping;
mod subagents;

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::json;
use tidegate_testkit::model_server::{Step, Turn};
use tidegate_testkit::skip::skip_loudly;

use self::pty::Pty;
use crate::home::{Backend, Home};
use crate::talking::{Vendor, conversation};

const ESC: &str = "\u{1b}";
const CTRL_C: &str = "\u{3}";
const CTRL_Z: &str = "\u{1a}";

/// Leaves as a person does.
fn leave(mut pty: Pty) {
    pty.press(CTRL_C);
    pty.until("Press Ctrl+C again to leave");
    pty.press(CTRL_C);
    assert_eq!(pty.ended(), Some(0));
}

/// A home whose agent may run commands, each after it was approved.
fn asking_home(vendor: &Vendor) -> Home {
    let tools = json!({"profile": "coding", "exec": {"ask": "always"}});
    vendor.home(Backend::Sqlite, &[("tools", tools)]).expect("SQLite is always there")
}

#[test]
fn a_person_types_reads_the_answer_and_leaves_the_terminal_as_it_was() {
    let home = Home::new();
    let mut pty = Pty::chat(&home, &[], &[]);
    pty.press("héllo 你好\r");
    pty.until("已接收到输入：héllo 你好");
    pty.press("again\r");
    pty.until("context=3条消息");
    leave(pty);
    assert_eq!(conversation(&home).len(), 4);
}

#[test]
fn an_answer_is_shown_while_it_comes_and_its_marks_become_styles() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    vendor.push(Turn::say("the **tide** turns").then(Step::Silence));
    let mut pty = Pty::chat(&home, &[], &[]);
    pty.press("when?\r");
    pty.until("turns");
    pty.press(ESC);
    // What had come stays.
    pty.until("the tide turns");
    assert!(pty.raw().contains("the \u{1b}[1mtide\u{1b}[0m turns"), "{:?}", pty.raw());
    pty.until("Stopped.");
    leave(pty);
    assert_eq!(home.runs()[0]["state"], "aborted");
}

#[test]
fn without_colour_nothing_is_coloured() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    vendor.push(Turn::say("the **tide** turns"));
    let mut pty = Pty::chat(&home, &[], &[("NO_COLOR", "1")]);
    pty.press("when?\r");
    pty.until("the tide turns");
    let raw = pty.raw();
    let mut ends =
        raw.split("\u{1b}[").skip(1).filter_map(|part| part.chars().find(char::is_ascii_alphabetic));
    assert!(ends.all(|end| end != 'm'), "{raw:?}");
    leave(pty);
}

#[test]
fn a_model_cannot_steer_the_terminal() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    vendor.push(Turn::say("a\u{1b}]0;owned\u{7}\u{1b}[2Jb"));
    let mut pty = Pty::chat(&home, &[], &[]);
    pty.press("go\r");
    pty.until("\u{fffd}[2Jb");
    let raw = pty.raw();
    assert!(!raw.contains("\u{1b}]0;") && !raw.contains("\u{1b}[2J"), "{raw:?}");
    leave(pty);
}

#[test]
fn a_command_runs_after_a_yes_and_not_after_a_no() {
    let vendor = Vendor::open();
    let home = asking_home(&vendor);
    let call = |file: &str| Turn::call("c1", "exec", json!({"command": format!("touch {file}")}));
    vendor.push(call("yes.txt")).push(Turn::say("made it"));
    vendor.push(call("no.txt")).push(Turn::say("as you wish"));
    let mut pty = Pty::chat(&home, &[], &[]);
    let workspace = home.root().join("agents/main/workspace");
    pty.press("make it\r");
    pty.until("exec wants your approval");
    pty.until("touch yes.txt");
    pty.until("to answer");
    // Whoever types at once is not heard as an answer.
    std::thread::sleep(std::time::Duration::from_millis(700));
    pty.press("y");
    pty.until("✓ allowed");
    pty.until("✓ exec");
    pty.until("made it");
    assert!(workspace.join("yes.txt").exists());
    pty.press("again\r");
    pty.until("touch no.txt");
    pty.until("to answer");
    std::thread::sleep(std::time::Duration::from_millis(700));
    pty.press("t");
    pty.until("Why not?");
    pty.press("too many files\r");
    pty.until("✗ denied: too many files");
    pty.until("as you wish");
    assert!(!workspace.join("no.txt").exists());
    assert!(vendor.last_request().body.to_string().contains("too many files"), "the model is told why");
    leave(pty);
}

#[test]
fn a_sentence_at_a_question_is_typed_and_approves_nothing() {
    let vendor = Vendor::open();
    let home = asking_home(&vendor);
    vendor.push(Turn::call("c1", "exec", json!({"command": "touch yes.txt"})));
    let mut pty = Pty::chat(&home, &[], &[]);
    pty.press("make it\r");
    pty.until("to answer");
    // Whoever types at once is not heard as an answer in any case.
    std::thread::sleep(std::time::Duration::from_millis(700));
    for letter in "Hey, stop".chars() {
        pty.press(&letter.to_string());
        std::thread::sleep(std::time::Duration::from_millis(60));
    }
    pty.until("Letters go to the line below");
    pty.press("\r");
    pty.until("next: Hey, stop");
    pty.press(ESC);
    pty.until("Stopped.");
    assert!(!pty.raw().contains("✓ allowed"));
    assert!(!home.root().join("agents/main/workspace/yes.txt").exists());
}

#[test]
fn an_agent_that_is_silent_is_told_so_and_the_token_is_never_seen() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    vendor.push(Turn::say("NO").then(Step::Say("_RE".into())).then(Step::Say("PLY".into())));
    vendor.push(Turn::say("Finished. NO_").then(Step::Say("REPLY".into())));
    let mut pty = Pty::chat(&home, &[], &[]);
    pty.press("anything?\r");
    pty.until("(no reply)");
    pty.press("and now?\r");
    pty.until("Finished.");
    let raw = pty.raw();
    assert!(!raw.contains("NO"), "{raw:?}");
    leave(pty);
}

#[test]
fn a_program_that_wants_objects_gets_one_a_line() {
    let home = Home::new();
    let done = home.call(&["chat", "--json"]).stdin("one\n/titel x\ntwo\n").run();
    let lines: Vec<serde_json::Value> =
        done.stdout.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let told: Vec<_> = lines.iter().map(|line| line["success"] == true).collect();
    assert_eq!(told, [true, false, true], "{done:?}");
    assert!(lines[0]["result"].as_str().unwrap().ends_with("one"), "{done:?}");
    assert_eq!(lines[1]["error"]["code"], "INVALID_VALUE");
}

#[test]
fn a_program_is_told_of_a_misspelled_command_and_a_model_that_is_not_listed() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    let failed = home.call(&["chat"]).stdin("/titel x\n").run();
    assert!(failed.stderr.contains("Did you mean /title?") && failed.code == Some(1), "{failed:?}");
    assert!(vendor.requests().is_empty(), "nothing was sent");
    vendor.push(Turn::say("as it is"));
    home.call(&["chat"]).stdin(" /titel x\n").ok();
    assert_eq!(vendor.said(), ["user: /titel x"]);
    vendor.push(Turn::say("hello"));
    let noted = home.call(&["chat", "--model", "groq/secnd"]).stdin("hi\n").ok();
    assert!(
        noted.stderr.contains("secnd is none of the models") && noted.stderr.contains("second"),
        "{noted:?}"
    );
}

#[test]
fn a_message_while_it_works_is_answered_too() {
    let vendor = Vendor::open();
    let home = asking_home(&vendor);
    vendor.push(Turn::call("c1", "exec", json!({"command": "touch a.txt"})));
    vendor.push(Turn::say("both are done")).push(Turn::say("and this as well"));
    let mut pty = Pty::chat(&home, &[], &[]);
    pty.press("first\r");
    pty.until("to answer");
    pty.press("second thought\r");
    pty.until("next: second thought");
    std::thread::sleep(std::time::Duration::from_millis(700));
    pty.press("y");
    pty.until("› second thought");
    pty.until("are done");
    let told = home.call(&["sessions", "show", "main", "--json"]).json().to_string();
    assert!(told.contains("second thought"), "{told}");
    leave(pty);
}

#[test]
fn what_is_chosen_while_one_talks_counts_more_than_the_command_line() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    vendor.push(Turn::say("one")).push(Turn::say("two"));
    let mut pty = Pty::chat(&home, &["--model", "anthropic/deep", "--thinking", "high"], &[]);
    pty.press("first\r");
    pty.until("one");
    assert_eq!(vendor.last_request().body["model"], "deep");
    pty.press("/model groq/second\r");
    pty.until("groq/second");
    pty.until("main · groq/second");
    pty.press("second\r");
    pty.until("two");
    assert_eq!(vendor.last_request().body["model"], "second");
    leave(pty);
    // The next time it is known from the beginning.
    let pty = Pty::chat(&home, &[], &[]);
    assert!(pty.raw().contains("groq/second"), "{:?}", pty.raw());
    leave(pty);
    vendor.push(Turn::say("three"));
    let words = ["chat", "--model", "anthropic/deep"];
    home.call(&words).stdin("/model anthropic/first\nhi\n").ok();
    assert_eq!(vendor.last_request().body["model"], "first", "without a terminal as well");
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_as_it_was() {
    let vendor = Vendor::open();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let home = vendor.sqlite_home();
        vendor.push(Turn::say("half").then(Step::Silence));
        let mut pty = Pty::chat(&home, &[], &[]);
        pty.press("go\r");
        pty.until("half");
        pty.signal(signal);
        assert_eq!(pty.ended(), Some(code));
    }
}

#[test]
fn the_shell_has_the_terminal_for_a_while_and_the_conversation_goes_on() {
    let home = Home::new();
    let mut pty = Pty::job(&home);
    pty.press("half");
    pty.until("half");
    pty.press(CTRL_Z);
    pty.until("the shell has it");
    pty.until("› half");
    pty.press(" more\r");
    pty.until("已接收到输入：half more");
    let shown = pty::plain(&pty.raw());
    assert_eq!(shown.matches("› half").count(), 2, "drawn again once, and said once: {shown}");
    leave(pty);
}

#[test]
fn a_program_that_nobody_would_continue_does_not_stop() {
    let home = Home::new();
    let mut pty = Pty::chat(&home, &[], &[]);
    pty.press(CTRL_Z);
    pty.signal(Signal::TSTP);
    pty.press("still here\r");
    pty.until("已接收到输入：still here");
    // Others may have changed the terminal while it was stopped.
    pty.signal(Signal::STOP);
    pty.signal(Signal::CONT);
    pty.press("and here\r");
    pty.until("已接收到输入：and here");
    leave(pty);
}

#[test]
fn where_the_processes_above_cannot_be_seen_it_does_not_stop_either() {
    let home = Home::new();
    let Some(mut pty) = Pty::contained(&home) else {
        return skip_loudly("a process of its own numbering: unshare is not permitted");
    };
    pty.press(CTRL_Z);
    pty.press("still here\r");
    pty.until("已接收到输入：still here");
    leave(pty);
}

#[test]
fn a_terminal_that_changes_its_size_goes_on() {
    let home = Home::new();
    let mut pty = Pty::chat(&home, &[], &[]);
    pty.press("a text that is typed and not yet sent");
    pty.until("not yet sent");
    pty.resize(40, 12);
    pty.until("not yet sent");
    pty.press("\r");
    pty.until("已接收到输入");
    leave(pty);
}

#[test]
fn what_was_typed_is_there_the_next_time_unless_it_began_with_a_blank() {
    let home = Home::new();
    let mut pty = Pty::chat(&home, &[], &[]);
    pty.press("remember me\r");
    pty.until("已接收到输入：remember me");
    pty.press(" but not me\r");
    pty.until("已接收到输入：");
    leave(pty);
    let file = home.root().join("chat_history");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let mut pty = Pty::chat(&home, &[], &[]);
    pty.press("\u{1b}[A");
    // The prompt is there already: only what follows it is drawn.
    pty.until("remember me");
    pty.press("\u{15}");
    leave(pty);
}

#[test]
fn a_conversation_has_a_name_and_can_begin_anew() {
    let home = Home::new();
    home.ask_in("work", "before");
    for (words, context) in
        [(["--session", "work"].as_slice(), 3), (&["--session", "work", "--new-session"], 1)]
    {
        let mut pty = Pty::chat(&home, words, &[]);
        pty.press("go on\r");
        pty.until(&format!("context={context}条消息"));
        leave(pty);
    }
}

#[test]
fn it_joins_whoever_holds_the_home() {
    let home = Home::new();
    let mut first = Pty::chat(&home, &["--session", "one"], &[]);
    let mut second = Pty::chat(&home, &["--session", "two"], &[]);
    second.press("through it\r");
    second.until("已接收到输入：through it");
    first.press("here\r");
    first.until("已接收到输入：here");
    let failed = home.call(&["gateway", "run", "--port", "0"]).fails("HOME_BUSY");
    assert!(failed.stderr.contains("Leave it with Ctrl+D"), "{failed:?}");
    leave(first);
    // The holder has gone: the one that is left takes the home.
    second.press("and now\r");
    second.until("已接收到输入：and now");
    leave(second);
}

#[test]
fn leaving_says_what_it_waits_for_and_need_not_wait() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    vendor.push(Turn::say("half").then(Step::Silence));
    let mut pty = Pty::chat(&home, &[], &[]);
    let other = home.call(&["ask", "--session", "other", "through it"]).start();
    vendor.next();
    pty.press("\u{4}");
    pty.until("waiting for them");
    pty.press(CTRL_C);
    assert_eq!(pty.ended(), Some(130));
    other.signal(Signal::KILL);
    other.wait();
}

#[test]
fn a_paste_without_an_end_is_taken_as_far_as_it_came() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    vendor.push(Turn::say("half").then(Step::Silence));
    let mut pty = Pty::chat(&home, &[], &[]);
    pty.press("go\r");
    pty.until("half");
    pty.press("\u{1b}[200~pasted");
    pty.until("pasted");
    pty.press(ESC);
    pty.until("Stopped.");
    pty.press("\u{15}");
    leave(pty);
}

#[test]
fn without_a_terminal_a_line_is_a_turn_and_only_answers_are_printed() {
    let home = Home::new();
    let done = home.call(&["chat"]).stdin("one\n\n  two  \n/quit\nthree\n").ok();
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{done:?}");
    assert!(lines[0].ends_with("已接收到输入：one") && lines[1].ends_with("已接收到输入：two"), "{done:?}");
    assert!(!done.stdout.contains('\u{1b}'), "{done:?}");
}

#[test]
fn a_conversation_is_written_to_a_file_with_and_without_a_terminal() {
    let home = Home::new();
    let call = home.call(&["chat", "--session=-x"]).inside(home.around());
    let done = call.stdin("one\n/export x.md\n/export x.md\n").run();
    assert_eq!(done.code, Some(1), "the second is there already: {done:?}");
    assert!(done.stderr.contains("Written to x.md"), "{done:?}");
    assert_eq!(done.stdout.lines().count(), 1, "it is no message: {done:?}");
    let written = std::fs::read_to_string(home.around().join("x.md")).unwrap();
    assert!(written.starts_with("# one"), "{written}");
    let mut pty = Pty::chat(&home, &["--session=-x"], &[]);
    pty.press("/export y.html\r");
    pty.until("Written to y.html");
    pty.press("/export z.pdf\r");
    pty.until(".md, .jsonl or .html");
    leave(pty);
    let page = std::fs::read_to_string(home.around().join("y.html")).unwrap();
    assert!(page.starts_with("<!doctype html>"), "{page}");
}

#[test]
fn without_a_terminal_the_exit_code_is_that_of_the_last_failure() {
    let vendor = Vendor::open();
    let home = vendor.sqlite_home();
    vendor.push(Turn::refuse(tidegate_testkit::model_server::Kind::Server)).push(Turn::say("fine"));
    let done = home.call(&["chat"]).stdin("one\ntwo\n").run();
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), "fine\n"), "{done:?}");
    assert!(done.stderr.contains("[MODEL_UNAVAILABLE]"), "{done:?}");
}

#[test]
fn a_model_that_does_not_exist_is_told_before_anything_begins() {
    let home = Home::new();
    let failed = home.call(&["chat", "--model", "nobody/knows"]).fails("UNSUPPORTED_PROVIDER");
    assert!(failed.stderr.contains("nobody"), "{failed:?}");
    home.call(&["chat", "--thinking", "lots"]).fails("INVALID_VALUE");
    home.call(&["chat", "words"]).fails("INVALID_VALUE");
    home.call(&["chat", "--session", " "]).fails("MISSING_VALUE");
    home.call(&["chat", "--session", &"x".repeat(300)]).fails("INVALID_VALUE");
}

#[test]
fn a_conversation_that_goes_on_shows_where_it_stood() {
    let home = Home::new();
    home.ask("what was it?");
    let mut pty = Pty::chat(&home, &[], &[]);
    pty.until("messages so far: 2");
    pty.until("› what was it?");
    pty.until("已接收到输入：what was it?");
    leave(pty);
    let mut fresh = Pty::chat(&home, &["--new-session"], &[]);
    fresh.press("hello\r");
    fresh.until("已接收到输入：hello");
    assert!(!fresh.raw().contains("messages so far"), "{}", fresh.raw());
    leave(fresh);
}

#[test]
fn whoever_pipes_lines_is_told_which_tool_was_not_allowed() {
    let vendor = Vendor::open();
    let home = asking_home(&vendor);
    vendor.push(Turn::call("c1", "exec", json!({"command": "touch a.txt"}))).push(Turn::say("as you wish"));
    let done = home.call(&["chat"]).stdin("make it\n").ok();
    assert!(done.stderr.contains("exec was not allowed: nobody is at a terminal"), "{done:?}");
}

#[test]
fn what_nobody_knows_the_price_of_is_not_said_to_be_free() {
    let home = Home::new();
    let script = home.around().join("script.json");
    let turns = json!({"turns": [{"say": "hi", "usage": {"input": 5, "output": 3}}]});
    std::fs::write(&script, turns.to_string()).expect("the script is written");
    let config = json!({
        "agents": {"defaults": {"model": {"primary": "demo/m", "fallbacks": []}}},
        "models": {"providers": {"demo": {"api": "scripted", "script": script, "models": [{"id": "m"}]}}},
    });
    home.write_config(&config.to_string());
    let said = home.call(&["chat"]).stdin("hello\n/status\n").ok().stdout;
    assert!(said.contains("5 tokens in, 3 out, price unknown"), "{said}");
}
