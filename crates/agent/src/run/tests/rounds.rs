//! Rounds of tools: their order, their commits, their limit.

use super::*;

#[tokio::test]
async fn a_plain_turn_is_one_call_and_no_step() {
    let world = World::new(|_| says("hello"));
    let outcome = world.attempt(1).await.unwrap();
    assert_eq!(world.state().requests.len(), 1);
    assert!(world.state().commits.is_empty());
    assert_eq!(world.finish(&outcome), "hello");
    assert_eq!(world.log(), ["user do it", "agent hello[]"]);
}

#[tokio::test]
async fn a_tool_is_intended_before_it_runs_and_its_result_is_read() {
    let world = World::new(|request| match results_since_user(request) {
        0 => Said { text: "let me see", ..calls(&[("write", "a")]) },
        _ => says("done"),
    });
    let outcome = world.attempt(1).await.unwrap();
    assert_eq!(world.finish(&outcome), "done");
    assert_eq!(world.state().commits, ["- +a", "-a +"]);
    assert_eq!(world.state().parts, ["let me see"]);
    assert_eq!(world.log(), ["user do it", "agent let me see[a]", "result a: did a", "agent done[]"]);
}

#[tokio::test]
async fn calls_that_change_something_run_one_after_the_other_and_share_their_commits() {
    let world = World::new(|request| match results_since_user(request) {
        0 => calls(&[("write", "a"), ("forbidden", "b"), ("look", "c")]),
        _ => says("done"),
    });
    let outcome = world.attempt(1).await.unwrap();
    world.finish(&outcome);
    assert_eq!(world.state().effects, ["a", "c"]);
    assert_eq!(world.state().commits, ["- +a", "-a +c", "-c +"]);
    let log = world.log();
    assert_eq!(log[2..5], ["result a: did a", "result b: not permitted", "result c: did c"]);
}

#[tokio::test]
async fn calls_that_only_look_are_intended_together() {
    let world = World::new(|request| match results_since_user(request) {
        0 => calls(&[("look", "a"), ("look", "b"), ("look", "c")]),
        _ => says("done"),
    });
    let outcome = world.attempt(1).await.unwrap();
    world.finish(&outcome);
    assert_eq!(world.state().commits, ["- +a b c", "-a b c +"]);
    assert_eq!(world.log()[2..5], ["result a: did a", "result b: did b", "result c: did c"]);
}

#[tokio::test]
async fn after_its_last_round_the_model_answers_without_tools() {
    let world = World::new(|request| match request.options.tool_choice {
        ToolChoice::None => says("I have to stop"),
        _ => calls(&[("look", "again")]),
    });
    let mut turn = turn(1);
    turn.spec.tools.max_steps = Some(2);
    let outcome = world.attempt_of(&turn).await.unwrap();
    let Outcome::Answered(answer) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(answer.limit, Some(StepLimit { steps: 2, tool: "look".to_owned() }));
    assert_eq!(world.state().effects.len(), 2);
    assert_eq!(world.finish(&outcome), "I have to stop");
    // The list of tools is the same to the end: only so does the provider's cache hold.
    assert!(world.state().requests.iter().all(|request| request.tools.len() == 2));
    let log = world.log();
    assert!(log[log.len() - 2].contains("not run: the limit of 2 rounds"), "{log:?}");
}

#[tokio::test]
async fn a_model_that_calls_tools_to_the_last_still_leaves_words() {
    let world = World::new(|_| calls(&[("look", "again")]));
    let mut turn = turn(1);
    turn.spec.tools.max_steps = Some(1);
    let outcome = world.attempt_of(&turn).await.unwrap();
    assert_eq!(world.finish(&outcome), NO_WORDS);
    assert_eq!(world.log().last().unwrap(), &format!("agent {NO_WORDS}[]"));
}

#[tokio::test]
async fn what_is_shown_is_what_is_stored() {
    let world = World::new(|_| says("<think>hm</think>The answer [[reply_to_current]]is 4."));
    let outcome = world.attempt(1).await.unwrap();
    let said = world.finish(&outcome);
    let shown: String = world
        .state()
        .events
        .iter()
        .filter_map(|event| match event {
            RunEventBody::TextDelta { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(shown, said);
    assert_eq!(world.log().last().unwrap(), &format!("agent {said}[]"));
    assert!(!said.contains("hm") && !said.contains("[["), "{said}");
}

#[tokio::test]
async fn a_failure_of_the_model_ends_the_run_and_keeps_its_steps() {
    let world = World::new(|request| match results_since_user(request) {
        0 => calls(&[("write", "a")]),
        _ => Said { fails: Some(FailureKind::Broken), ..Said::default() },
    });
    let outcome = world.attempt(1).await.unwrap();
    assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
    assert_eq!(world.log(), ["user do it", "agent [a]", "result a: did a"]);
}

#[tokio::test]
async fn calls_written_by_hand_run_before_the_model_is_asked() {
    let world = World::new(|_| says("it says did a"));
    let mut turn = turn(1);
    let call = |id: &str, name: &str| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        args: json!({}),
        source: tidegate_protocol::ToolSource::User,
    };
    turn.manual = Some(Manual { calls: vec![call("a", "look"), call("b", "forbidden")], malformed: None });
    let outcome = world.attempt_of(&turn).await.unwrap();
    let Outcome::Answered(answer) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(
        answer.calls.iter().map(|(call, result)| (call.id.as_str(), result.ok)).collect::<Vec<_>>(),
        [("a", true), ("b", false)]
    );
    world.finish(&outcome);
    assert_eq!(world.state().requests.len(), 1);
    assert_eq!(world.log()[..4], ["user do it", "agent [a b]", "result a: did a", "result b: not permitted"]);
}

#[tokio::test]
async fn what_is_said_beside_a_round_too_many_is_sent_like_everything_else() {
    let world = World::new(|request| match request.options.tool_choice {
        ToolChoice::None => says("I have to stop"),
        _ => Said { text: "one more look", ..calls(&[("look", "again")]) },
    });
    let mut turn = turn(1);
    turn.spec.tools.max_steps = Some(1);
    let outcome = world.attempt_of(&turn).await.unwrap();
    let said = world.finish(&outcome);
    let sent: Vec<String> = world.state().parts.iter().cloned().chain([said]).collect();
    let state = world.state();
    let in_log: Vec<String> = state
        .log
        .iter()
        .filter_map(|entry| entry.body.message())
        .filter(|message| matches!(message, Message::Assistant { .. }))
        .map(Message::text)
        .collect();
    assert_eq!(sent, in_log);
    assert_eq!(sent, ["one more look", "one more look", "I have to stop"]);
}

#[tokio::test]
async fn a_run_that_met_its_limit_and_is_cut_off_goes_on_without_tools() {
    let world = World::new(|request| match request.options.tool_choice {
        ToolChoice::None => says("I have to stop"),
        _ => calls(&[("look", "again")]),
    });
    let mut limited = turn(1);
    limited.spec.tools.max_steps = Some(2);
    world.attempt_of(&limited).await.unwrap();
    world.restart();
    let outcome = world.attempt_of(&Turn { lease: turn(2).lease, ..limited }).await.unwrap();
    let Outcome::Answered(answer) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(answer.limit, Some(StepLimit { steps: 2, tool: "look".to_owned() }));
    assert_eq!(world.state().effects.len(), 2);
    let refused = world.log().iter().filter(|line| line.contains("not run: the limit")).count();
    assert_eq!(refused, 1, "{:?}", world.log());
}

#[test]
fn a_call_that_uses_an_id_once_more_has_its_own_result() {
    let call = |id: &str| Block::ToolCall {
        id: id.to_owned(),
        name: "look".to_owned(),
        arguments: json!({}),
        thought_signature: None,
    };
    let asks = |content: Vec<Block>| Message::Assistant {
        content,
        origin: past::by_hand(),
        usage: Usage::default(),
        stop_reason: StopReason::ToolUse,
        error_message: None,
        timestamp: 0,
    };
    let answered = |id: &str, text: &str| Message::ToolResult {
        tool_call_id: id.to_owned(),
        tool_name: "look".to_owned(),
        content: vec![Block::text(text)],
        is_error: false,
        details: None,
        timestamp: 0,
    };
    let lines = [
        asks(vec![call("c1"), call("c1")]),
        answered("c1", "one"),
        answered("c1", "two"),
        asks(vec![call("c1"), call("c2")]),
        answered("c1", "three"),
    ];
    let made = calls_made(&lines.iter().collect::<Vec<_>>());
    let results: Vec<String> = made.iter().map(|(_, result)| result.text()).collect();
    assert_eq!(results, ["one", "two", "three"]);
}

#[test]
fn no_tool_can_hide_its_own_call_or_end_the_rounds_by_what_it_answers() {
    let sly = past::refusal(1);
    let call = |id: &str| Block::ToolCall {
        id: id.to_owned(),
        name: "look".to_owned(),
        arguments: json!({}),
        thought_signature: None,
    };
    let answered = |id: &str, is_error, details: &serde_json::Value| Message::ToolResult {
        tool_call_id: id.to_owned(),
        tool_name: "look".to_owned(),
        content: vec![Block::text(id)],
        is_error,
        details: Some(details.clone()),
        timestamp: 0,
    };
    let asks = Message::Assistant {
        content: vec![call("well"), call("refused")],
        origin: past::by_hand(),
        usage: Usage::default(),
        stop_reason: StopReason::ToolUse,
        error_message: None,
        timestamp: 0,
    };
    let lines = [asks, answered("well", false, &sly), answered("refused", true, &sly)];
    let made = calls_made(&lines.iter().collect::<Vec<_>>());
    let made: Vec<&str> = made.iter().map(|(call, _)| call.id.as_str()).collect();
    assert_eq!(made, ["well"], "only what failed can have been refused");
    // And what fails with such words is told without them.
    let mut data = sly.clone();
    data["more"] = json!(1);
    assert_eq!(past::without_reserved(Some(data)), Some(json!({"more": 1})));
    let kept = json!({"stepLimit": 1});
    assert_eq!(past::without_reserved(Some(kept.clone())), Some(kept));
}
