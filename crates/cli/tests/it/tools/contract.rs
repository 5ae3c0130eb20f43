//! The contract's acceptance cases about tools, one test each, in their order.

use serde_json::{Value, json};
use tidegate_runtime::{Clock as _, SystemClock};

use super::workspace;
use crate::home::Home;
use crate::log::is_iso_time;
use crate::process::Done;

/// `tools invoke`, as a person types it in their folder.
fn invoke(home: &Home, words: &[&str]) -> Done {
    let all = [["tools", "invoke"].as_slice(), words].concat();
    home.call(&all).inside(&workspace(home)).run()
}

fn result(home: &Home, words: &[&str]) -> Value {
    let done = invoke(home, words);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    done.json()["result"].clone()
}

/// Exit code 1, the object on standard output all the same, and this code in it.
fn error(home: &Home, words: &[&str], code: &str) -> Value {
    let done = invoke(home, words);
    assert_eq!(done.code, Some(1), "{done:?}");
    let result = done.json()["result"].clone();
    assert_eq!((&result["ok"], &result["error"]["code"]), (&json!(false), &json!(code)), "{result}");
    result["error"].clone()
}

#[test]
fn case_27_list_has_the_five_names_with_description_and_schema() {
    let home = Home::new();
    let list = home.call(&["tools", "list"]).json();
    for name in ["time.now", "tools.echo", "shell.pwd", "fs.list_dir", "fs.read_file"] {
        let tool = list.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
        assert!(tool["description"].as_str().is_some_and(|text| !text.is_empty()), "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
    }
}

#[test]
fn case_28_info_has_the_schema_and_how_the_tool_runs() {
    let info = Home::new().call(&["tools", "info", "fs.read_file"]).json();
    assert!(info["inputSchema"]["properties"]["maxBytes"].is_object(), "{info}");
    assert_eq!(info["runtime"]["defaults"], json!({"maxBytes": 204_800}));
}

#[test]
fn case_29_info_about_an_unknown_tool_fails() {
    let unknown = Home::new().call(&["tools", "info", "nope"]).fails("NOT_FOUND");
    assert_eq!((unknown.message.as_str(), unknown.stdout.as_str()), ("Tool not found: nope", ""));
}

#[test]
fn case_30_time_now_is_now() {
    let home = Home::new();
    let result = result(&home, &["time.now"]);
    let told = result["data"]["timestamp"].as_i64().unwrap();
    assert!(SystemClock.now_ms().abs_diff(told) < 5_000, "{result}");
    let iso = result["data"]["iso"].as_str().unwrap();
    assert!(is_iso_time(iso), "{iso}");
    assert!(iso.ends_with(&format!(".{:03}Z", told % 1_000)), "the same instant: {result}");
    assert_eq!(result["content"], format!("timestamp={told}, iso={iso}"));
    error(&home, &["time.now", "--args", r#"{"zone": "UTC"}"#], "invalid_args");
}

#[test]
fn case_31_echo_says_the_message_and_the_call_is_the_command_lines() {
    let done = invoke(&Home::new(), &["tools.echo", "--args", r#"{"message":"hi"}"#]);
    let told = done.json();
    assert_eq!(told["result"]["data"], json!({"message": "hi"}));
    assert_eq!((&told["call"]["source"], &told["result"]["content"]), (&json!("cli"), &json!("hi")));
}

#[test]
fn case_32_a_missing_argument_is_invalid() {
    let missing = error(&Home::new(), &["tools.echo"], "invalid_args");
    assert_eq!(missing["message"], "missing required argument: message");
    assert_eq!(missing["tool"], "tools.echo");
}

#[test]
fn case_33_an_argument_of_the_wrong_type_is_invalid() {
    let wrong = error(&Home::new(), &["tools.echo", "--args", r#"{"message":1}"#], "invalid_args");
    assert!(wrong["message"].as_str().unwrap().starts_with("argument message must be string"), "{wrong}");
}

#[test]
fn case_34_an_argument_nobody_knows_is_invalid() {
    let unknown = error(&Home::new(), &["tools.echo", "--args", r#"{"message":"a","x":1}"#], "invalid_args");
    assert!(unknown["message"].as_str().unwrap().starts_with("unknown argument: x"), "{unknown}");
}

#[test]
fn everything_wrong_with_the_arguments_is_told_at_once() {
    let wrong = error(&Home::new(), &["tools.echo", "--args", r#"{"massage":1,"x":2}"#], "invalid_args");
    for part in ["missing required argument: message", "unknown argument: massage", "unknown argument: x"] {
        assert!(wrong["message"].as_str().unwrap().contains(part), "{wrong}");
    }
}

#[test]
fn case_35_an_unknown_tool_is_not_found() {
    let unknown = error(&Home::new(), &["nope"], "tool_not_found");
    assert_eq!(unknown["message"], "tool not found: nope");
}

#[test]
fn case_36_what_is_no_json_is_refused_before_anything_else() {
    let home = Home::new();
    let bad = home.call(&["tools", "invoke", "tools.echo", "--args", "{bad"]).fails("INVALID_VALUE");
    assert!(bad.message.starts_with("Invalid --args json: ") && bad.stdout.is_empty(), "{bad:?}");
    assert!(!home.root().exists(), "nothing was begun");
}

#[test]
fn case_37_arguments_that_are_no_object_are_invalid() {
    let home = Home::new();
    for args in ["[1]", "1", "null", r#""message""#, "true"] {
        error(&home, &["tools.echo", "--args", args], "invalid_args");
        error(&home, &["time.now", "--args", args], "invalid_args");
    }
}

#[test]
fn case_38_pwd_is_the_folder_of_the_caller() {
    let home = Home::new();
    let root = workspace(&home);
    let result = result(&home, &["shell.pwd"]);
    assert_eq!((&result["data"], &result["content"]), (&json!({"cwd": root}), &json!(root)));
}

#[test]
fn case_39_read_file_reads_files_that_are_small_enough() {
    let home = Home::new();
    let path = workspace(&home).join("six.txt");
    let read = result(&home, &["fs.read_file", "--args", r#"{"path":"six.txt"}"#]);
    assert_eq!(read["content"], "sixsix");
    assert_eq!(read["data"], json!({"path": path, "size": 6, "maxBytes": 204_800}));
    let args = json!({ "path": path }).to_string();
    assert_eq!(
        result(&home, &["fs.read_file", "--args", &args])["content"],
        "sixsix",
        "an absolute path, too"
    );
    let big =
        error(&home, &["fs.read_file", "--args", r#"{"path":"six.txt","maxBytes":2}"#], "execution_error");
    assert_eq!(big["message"], "file size exceeds maxBytes (6 > 2)");
    error(&home, &["fs.read_file", "--args", r#"{"path":"missing"}"#], "execution_error");
    let folder = error(&home, &["fs.read_file", "--args", r#"{"path":"sub"}"#], "execution_error");
    assert_eq!(folder["message"], "target path is not a file");
}

#[test]
fn case_40_list_dir_knows_folders_and_how_deep_it_goes() {
    let home = Home::new();
    let root = workspace(&home);
    let list = result(&home, &["fs.list_dir", "--args", r#"{"path":"."}"#]);
    let nodes = list["data"]["nodes"].as_array().unwrap();
    assert_eq!((nodes.len(), &nodes[0]["depth"]), (1, &json!(0)), "{list}");
    let kind = |name: &str| {
        let children = nodes[0]["children"].as_array().unwrap();
        children.iter().find(|child| child["name"] == name).unwrap()["type"].clone()
    };
    assert_eq!((kind("sub"), kind("six.txt")), (json!("directory"), json!("file")));
    assert_eq!((&list["data"]["recursive"], &list["data"]["maxDepth"]), (&json!(false), &json!(4)));
    assert_eq!(list["content"], format!("listed 2 paths under {}", root.display()), "{list}");
    let args = r#"{"path":".","recursive":true,"maxDepth":1}"#;
    let shallow = result(&home, &["fs.list_dir", "--args", args]);
    assert!(!shallow.to_string().contains("b.txt"), "{shallow}");
    let deep = result(&home, &["fs.list_dir", "--args", r#"{"path":".","recursive":true}"#]);
    assert!(deep.to_string().contains("b.txt"), "{deep}");
}

#[test]
fn tools_alone_and_tools_with_an_unknown_word_show_their_usage() {
    let home = Home::new();
    for words in [["tools"].as_slice(), &["tools", "bogus"], &["tools", "info"], &["tools", "invoke"]] {
        let done = home.call(words).run();
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{done:?}");
        assert!(done.stderr.contains("tools"), "{done:?}");
    }
}
