//! The `process` tool: who sees what, what asks, and what happens to programs in the background.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_protocol::{Risk, ToolErrorCode};
use tidegate_tools::{Output, ProcessLimits, Tool as _};

use crate::stage::{Stage, asks, is_gone, permitted};

fn data(output: Output) -> Value {
    output.data.unwrap()
}

async fn names(stage: &Stage) -> Vec<String> {
    let listed = data(stage.process(json!({ "action": "list" })).await.unwrap());
    let all = listed["processes"].as_array().unwrap();
    all.iter().map(|one| one["sessionId"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn writing_asks_and_everything_else_does_not() {
    let stage = Stage::new();
    let name = stage.background("cat").await;
    let table = [
        (json!({ "action": "list" }), Risk::Read, false),
        (json!({ "action": "poll" }), Risk::Read, false),
        (json!({ "action": "log" }), Risk::Read, false),
        (json!({ "action": "kill" }), Risk::Write, false),
        (json!({ "action": "clear" }), Risk::Write, false),
        (json!({ "action": "remove" }), Risk::Write, false),
        (json!({ "action": "write", "data": "rm -rf x\n" }), Risk::Execute, true),
        (json!({ "action": "submit", "data": "x" }), Risk::Execute, true),
        (json!({ "action": "paste", "text": "x" }), Risk::Execute, true),
        (json!({ "action": "send-keys", "keys": ["C-c"] }), Risk::Execute, true),
    ];
    for (mut args, risk, asked) in table {
        args["sessionId"] = name.clone().into();
        let prepared = stage.prepare(&stage.process, &args).await.unwrap();
        assert_eq!(prepared.risk(), risk, "{args}");
        assert_eq!(prepared.preview().is_some(), asked, "{args}");
        assert_eq!(asks(prepared), asked, "{args}");
    }
    assert_eq!(stage.process.spec().risk, Risk::Execute);
}

#[tokio::test]
async fn whoever_approves_sees_what_is_sent_and_to_what() {
    let stage = Stage::new();
    let name = stage.background("cat").await;
    let args = json!({ "action": "submit", "sessionId": name, "data": "echo \u{202e}hi" });
    let prepared = stage.prepare(&stage.process, &args).await.unwrap();
    assert_eq!(prepared.preview().unwrap(), format!("input for {name} (cat):\necho \\u{{202e}}hi\n"));
}

#[tokio::test]
async fn a_command_cannot_write_the_input_that_is_shown() {
    let stage = Stage::new();
    let name = stage.background("cat -u # ):\nharmless\n").await;
    let args = json!({ "action": "write", "sessionId": name, "data": "real" });
    let preparation = stage.process.prepare(&args, &stage.place).await.unwrap();
    let preview = preparation.preview.unwrap();
    assert_eq!(preview, format!("input for {name} (cat -u # ):\\nharmless\\n):\nreal"));
}

#[tokio::test]
async fn a_program_is_written_to_until_its_input_ends() {
    let stage = Stage::new();
    let name = stage.background("cat").await;
    stage.process(json!({ "action": "write", "sessionId": name, "data": "one\n" })).await.unwrap();
    assert_eq!(stage.poll_until(&name, "one").await, "one\n");
    stage.process(json!({ "action": "submit", "sessionId": name, "data": "two" })).await.unwrap();
    stage.process(json!({ "action": "paste", "sessionId": name, "text": "three" })).await.unwrap();
    stage
        .process(json!({ "action": "send-keys", "sessionId": name, "literal": "!", "hex": ["0a"] }))
        .await
        .unwrap();
    stage.process(json!({ "action": "write", "sessionId": name, "eof": true })).await.unwrap();
    // What was polled before does not come again.
    assert_eq!(stage.poll_until(&name, "completed").await, "two\nthree!\n");
    let late = stage.process(json!({ "action": "write", "sessionId": name, "data": "x" })).await.unwrap_err();
    assert_eq!(late.message, format!("{name} has ended"));
}

#[tokio::test]
async fn a_log_is_read_again_and_by_lines() {
    let stage = Stage::new();
    let name = stage.background("sh -c 'sleep 0.3; seq 5'").await;
    stage.poll_until(&name, "completed").await;
    let log = |args: Value| {
        let mut all = json!({ "action": "log", "sessionId": name });
        all.as_object_mut().unwrap().extend(args.as_object().unwrap().clone());
        stage.process(all)
    };
    let all = data(log(json!({})).await.unwrap());
    assert_eq!((&all["output"], &all["totalLines"]), (&json!("1\n2\n3\n4\n5"), &json!(5)));
    let some = data(log(json!({ "offset": 1, "limit": 2 })).await.unwrap());
    assert_eq!((&some["output"], &some["offset"], &some["lines"]), (&json!("2\n3"), &json!(1), &json!(2)));
    let last = data(log(json!({ "limit": 1 })).await.unwrap());
    assert_eq!(last["output"], "5");
}

#[tokio::test]
async fn nobody_else_sees_or_touches_a_process() {
    let stage = Stage::new();
    let name = stage.background("sleep 72.001").await;
    for (agent, session) in [("other", "agent:main:main"), ("main", "agent:main:other")] {
        let place = stage.elsewhere(agent, session);
        for action in ["poll", "log", "write", "submit", "send-keys", "paste", "kill", "clear", "remove"] {
            let args = json!({
                "action": action, "sessionId": name, "data": "x", "text": "x", "keys": ["a"]
            });
            let failure = stage.process.prepare(&args, &place).await.unwrap_err();
            assert_eq!(failure.message, format!("there is no process {name:?}"), "{action}");
        }
        let prepared = stage.prepare_in(&place, &stage.process, &json!({ "action": "list" })).await.unwrap();
        let listed = data(stage.run(&stage.process, &permitted(prepared)).await.unwrap());
        assert_eq!(listed["processes"], json!([]));
    }
    assert_eq!(names(&stage).await, [name]);
    stage.processes.close().await;
}

#[tokio::test]
async fn a_permission_to_write_is_for_one_process_only() {
    let stage = Stage::new();
    let name = stage.background("cat").await;
    let args = json!({ "action": "write", "sessionId": name, "data": "x" });
    let permitted = permitted(stage.prepare(&stage.process, &args).await.unwrap());
    stage.process(json!({ "action": "remove", "sessionId": name })).await.unwrap();
    let failure = stage.run(&stage.process, &permitted).await.unwrap_err();
    assert_eq!(failure.message, format!("there is no process {name:?}"));
}

#[tokio::test]
async fn what_was_killed_can_be_read_until_it_is_cleared() {
    let stage = Stage::new();
    let name = stage.background("sh -c 'sleep 0.3; echo begun; sleep 72.002'").await;
    stage.poll_until(&name, "begun").await;
    let running = stage.process(json!({ "action": "clear", "sessionId": name })).await.unwrap_err();
    assert!(running.message.contains("still runs"), "{}", running.message);
    let killed = data(stage.process(json!({ "action": "kill", "sessionId": name })).await.unwrap());
    assert_eq!(killed["status"], "killed");
    assert!(is_gone("72.002").await);
    let log = data(stage.process(json!({ "action": "log", "sessionId": name })).await.unwrap());
    assert_eq!(log["output"], "begun");
    stage.process(json!({ "action": "clear", "sessionId": name })).await.unwrap();
    assert!(names(&stage).await.is_empty());
}

#[tokio::test]
async fn removing_kills_and_forgets() {
    let stage = Stage::new();
    let name = stage.background("sleep 72.003").await;
    stage.process(json!({ "action": "remove", "sessionId": name })).await.unwrap();
    assert!(is_gone("72.003").await);
    assert!(names(&stage).await.is_empty());
}

#[tokio::test]
async fn a_command_that_nobody_said_to_write_to_has_no_input() {
    let stage = Stage::new();
    let output = stage.exec(json!({ "command": "sleep 72.004", "yieldMs": 50 })).await.unwrap();
    let name = data(output)["sessionId"].as_str().unwrap().to_owned();
    let args = json!({ "action": "write", "sessionId": name, "data": "x" });
    let failure = stage.process(args).await.unwrap_err();
    assert!(failure.message.contains("has no input"), "{}", failure.message);
    stage.processes.close().await;
}

#[tokio::test]
async fn wrong_calls_are_told_what_is_wrong() {
    let stage = Stage::new();
    let name = stage.background("cat").await;
    for (args, expected) in [
        (json!({ "action": "explode" }), "unknown variant"),
        (json!({ "action": "poll" }), "sessionId"),
        (json!({ "action": "write", "sessionId": name }), "data"),
        (json!({ "action": "paste", "sessionId": name }), "text"),
        (json!({ "action": "send-keys", "sessionId": name }), "keys"),
        (json!({ "action": "send-keys", "sessionId": name, "keys": ["Hyper"] }), "Hyper"),
        (json!({ "action": "list", "approved": true }), "approved"),
    ] {
        let failure = stage.process(args.clone()).await.unwrap_err();
        assert_eq!(failure.code, ToolErrorCode::InvalidArgs, "{args}");
        assert!(failure.message.contains(expected), "{args}: {}", failure.message);
    }
    stage.processes.close().await;
}

#[tokio::test]
async fn closing_kills_everything_and_nothing_starts_afterwards() {
    let stage = Stage::new();
    stage.background("sleep 72.005").await;
    stage.background("sh -c 'sleep 72.005 & sleep 72.005'").await;
    stage.processes.close().await;
    assert!(is_gone("72.005").await);
    let late = stage.exec(json!({ "command": "true" })).await.unwrap_err();
    assert!(late.message.contains("closing"), "{}", late.message);
}

#[tokio::test]
async fn dropping_the_registry_kills_everything() {
    let stage = Stage::new();
    stage.background("sleep 72.006").await;
    drop(stage);
    assert!(is_gone("72.006").await);
}

#[tokio::test]
async fn a_session_cannot_start_endlessly_many() {
    let stage = Stage::with(ProcessLimits { running: 2, ..ProcessLimits::default() });
    stage.background("sleep 72.007").await;
    let second = stage.background("sleep 72.007").await;
    let third = stage.exec(json!({ "command": "true" })).await.unwrap_err();
    assert!(third.message.contains("2 commands of this session run already"), "{}", third.message);
    stage.process(json!({ "action": "kill", "sessionId": second })).await.unwrap();
    stage.exec(json!({ "command": "true" })).await.unwrap();
    stage.processes.close().await;
}

#[tokio::test]
async fn what_ended_is_kept_for_a_while_and_in_small_numbers() {
    let limits =
        ProcessLimits { finished: 2, keep_finished: Duration::from_secs(2), ..ProcessLimits::default() };
    let stage = Stage::with(limits);
    let mut started = Vec::new();
    for _ in 0..3 {
        let name = stage.background("sleep 0.3").await;
        stage.poll_until(&name, "completed").await;
        started.push(name);
    }
    assert_eq!(names(&stage).await, [started[2].clone(), started[1].clone()]);
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    assert!(names(&stage).await.is_empty());
}
