//! The contract's acceptance cases about tools in a question, in their order. The offline model answers.

use serde_json::{Value, json};

use super::skeleton;
use crate::home::Home;
use crate::tools::workspace;

fn ask(home: &Home, words: &[&str]) -> Value {
    skeleton(&home.call(&[&["ask"], words].concat()).inside(&workspace(home)).ok())
}

fn names(answer: &Value) -> Vec<&str> {
    answer["toolCalls"].as_array().unwrap().iter().map(|call| call["name"].as_str().unwrap()).collect()
}

#[test]
fn case_41_a_written_call_runs_and_its_result_is_part_of_the_conversation() {
    let home = Home::new();
    let answer = ask(&home, &["tool:time.now"]);
    assert_eq!(names(&answer), ["time.now"]);
    let call = &answer["toolCalls"][0];
    assert_eq!((&call["source"], &call["args"]), (&json!("ask"), &json!({})));
    let done = &answer["toolResults"][0];
    assert_eq!((&done["call"], &done["result"]["ok"]), (call, &json!(true)), "{done}");
    assert!(done["result"]["data"]["timestamp"].is_i64(), "{done}");
    assert_eq!(answer["sessionContextUpdated"], true);
    assert!(answer.get("toolError").is_none(), "{answer}");
    let transcript = std::fs::read_to_string(home.transcript(answer["sessionId"].as_str().unwrap())).unwrap();
    assert!(transcript.contains("tool:time.now"), "the words of the person are kept: {transcript}");
    assert!(transcript.lines().any(|line| line.contains("toolResult")), "{transcript}");
}

#[test]
fn two_written_calls_of_one_session_have_ids_of_their_own() {
    let home = Home::new();
    let (first, second) = (ask(&home, &["tool:time.now"]), ask(&home, &["tool:time.now"]));
    assert_ne!(first["toolCalls"][0]["id"], second["toolCalls"][0]["id"]);
}

#[test]
fn case_42_a_tool_outside_the_list_is_not_there() {
    let home = Home::new();
    let answer = ask(&home, &["--tool-allow", "time.now", "tool:shell.pwd"]);
    let error = &answer["toolError"];
    assert_eq!((&error["code"], &error["tool"]), (&json!("tool_not_found"), &json!("shell.pwd")), "{answer}");
    assert!(error["message"].as_str().unwrap().contains("tool not allowed: shell.pwd"), "{error}");
    assert_eq!(answer["toolResults"][0]["result"]["ok"], false);
}

#[test]
fn an_empty_list_is_no_list() {
    let home = Home::new();
    for words in [["--tool-allow="].as_slice(), &["--tool-allow", ""]] {
        let answer = ask(&home, &[words, &["tool:shell.pwd"]].concat());
        assert_eq!(answer["toolResults"][0]["result"]["ok"], true, "{answer}");
    }
}

#[test]
fn case_43_a_call_without_a_name_is_told_as_one() {
    let answer = ask(&Home::new(), &["tool:"]);
    assert_eq!(answer["toolError"]["code"], "invalid_args");
    assert_eq!((names(&answer), answer["toolResults"].as_array().unwrap().len()), (vec!["tool"], 1));
}

#[test]
fn case_44_arguments_that_are_no_json_are_told() {
    let answer = ask(&Home::new(), &["tool:tools.echo {bad"]);
    assert_eq!(answer["toolError"]["code"], "invalid_args");
    assert!(answer["toolCalls"][0]["args"]["input"].as_str().unwrap().contains("{bad"), "{answer}");
}

#[test]
fn case_45_several_calls_keep_their_order() {
    let answer = ask(&Home::new(), &[r#"tool:[{"name":"time.now"},{"name":"nope"}]"#]);
    assert_eq!(names(&answer), ["time.now", "nope"]);
    let results = answer["toolResults"].as_array().unwrap();
    let called: Vec<_> = results.iter().map(|result| result["call"]["name"].as_str().unwrap()).collect();
    assert_eq!(called, ["time.now", "nope"]);
    assert_eq!(answer["toolError"]["tool"], "nope");
}

#[test]
fn case_46_the_switch_is_about_the_models_calls_only() {
    let home = Home::new();
    for word in ["--no-with-tools", "--with-tools=false", "--with-tools=off"] {
        let answer = ask(&home, &[word, "tool:time.now"]);
        assert_eq!(answer["toolResults"][0]["result"]["ok"], true, "{word}: {answer}");
    }
    let help = home.call(&["ask", "--help"]).ok().stdout;
    assert!(help.contains("tool:<name>"), "{help}");
}

#[test]
fn case_47_a_plain_question_has_empty_lists() {
    let answer = ask(&Home::new(), &["hi"]);
    assert_eq!((&answer["toolCalls"], &answer["toolResults"]), (&json!([]), &json!([])));
    assert_eq!(answer["sessionContextUpdated"], false);
    assert!(answer.get("toolError").is_none(), "{answer}");
}

#[test]
fn a_number_of_steps_below_one_is_refused_in_the_words_of_the_contract() {
    let home = Home::new();
    for steps in ["0", "some", "-1", "1.5"] {
        let failed = home.call(&["ask", &format!("--tool-max-steps={steps}"), "hi"]).fails("INVALID_VALUE");
        assert_eq!(failed.message, format!("Invalid value for --tool-max-steps at arg 1: {steps}"));
    }
}

#[test]
fn a_tool_that_failed_is_an_exit_code_for_those_who_want_it() {
    let home = Home::new();
    let strict = home.call(&["ask", "--strict", "tool:nope"]).run();
    assert_eq!(strict.code, Some(2), "{strict:?}");
    assert_eq!(skeleton(&strict)["toolError"]["code"], "tool_not_found");
    home.call(&["ask", "--strict", "tool:time.now"]).ok();
    home.call(&["ask", "tool:nope"]).ok();
}
