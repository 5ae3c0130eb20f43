//! What a program brings along: its tools end the run, its messages are the conversation.

use tidegate_protocol::{Brought, BroughtChoice, BroughtTool};

use super::*;

fn bringing(brought: Brought) -> Turn {
    let mut turn = turn(1);
    turn.spec.brought = Some(Box::new(brought));
    turn
}

fn tool(name: &str) -> BroughtTool {
    BroughtTool { name: name.to_owned(), description: String::new(), parameters: json!({"type": "object"}) }
}

fn result_of(call: &str, text: &str) -> Message {
    Message::ToolResult {
        tool_call_id: call.to_owned(),
        tool_name: "theirs".to_owned(),
        content: vec![Block::text(text)],
        is_error: false,
        details: None,
        timestamp: 0,
    }
}

#[tokio::test]
async fn a_call_of_a_brought_tool_ends_the_run_after_the_agents_own_calls() {
    let world = World::new(|_| Said { text: "look", ..calls(&[("theirs", "t"), ("write", "w")]) });
    let outcome =
        world.attempt_of(&bringing(Brought { tools: vec![tool("theirs")], ..Brought::default() })).await;
    let outcome = outcome.unwrap();
    let Outcome::Answered(answer) = &outcome else { panic!("{outcome:?}") };
    let handed: Vec<_> = answer.handed.iter().map(|call| call.id.as_str()).collect();
    assert_eq!((handed, answer.text.as_str()), (vec!["t"], "look"));
    world.finish(&outcome);
    assert_eq!(world.state().effects, ["w"], "nobody here runs what is theirs");
    assert_eq!(world.log(), ["user do it", "agent look[t w]", "result w: did w"]);
}

#[tokio::test]
async fn a_brought_tool_hides_one_of_the_same_name_and_the_wish_holds_for_the_first_call() {
    let world = World::new(|request| match results_since_user(request) {
        0 => calls(&[("look", "l")]),
        _ => says("done"),
    });
    let brought = Brought {
        tools: vec![tool("write")],
        choice: BroughtChoice::Named("write".to_owned()),
        instructions: Some("in verse".to_owned()),
        ..Brought::default()
    };
    world.attempt_of(&bringing(brought)).await.unwrap();
    let state = world.state();
    let shown: Vec<_> = state.requests[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(shown, ["look", "write"]);
    let choices: Vec<_> = state.requests.iter().map(|request| request.options.tool_choice.clone()).collect();
    assert_eq!(choices, [ToolChoice::Named("write".to_owned()), ToolChoice::Auto]);
    assert_eq!(state.requests[0].system.last().map(String::as_str), Some("in verse"));
}

#[tokio::test]
async fn what_was_said_before_stands_before_the_question_and_in_the_log() {
    let call = Block::ToolCall {
        id: "t".to_owned(),
        name: "theirs".to_owned(),
        arguments: json!({}),
        thought_signature: None,
    };
    let answer = Message::Assistant {
        content: vec![call],
        origin: past::by_hand(),
        usage: Usage::default(),
        stop_reason: StopReason::ToolUse,
        error_message: None,
        timestamp: 0,
    };
    let world = World::new(|_| says("done"));
    let before = vec![Message::user("hi", 0), answer];
    let mut turn = bringing(Brought { before, ..Brought::default() });
    turn.input = result_of("t", "wet");
    let outcome = world.attempt_of(&turn).await.unwrap();
    world.finish(&outcome);
    assert_eq!(world.log(), ["user hi", "agent [t]", "result t: wet", "agent done[]"]);
}

#[tokio::test]
async fn a_result_without_its_call_is_told_as_a_text() {
    let world = World::new(|_| says("done"));
    let mut turn = bringing(Brought { tools: vec![tool("theirs")], ..Brought::default() });
    turn.input = result_of("unknown", "wet");
    let outcome = world.attempt_of(&turn).await.unwrap();
    world.finish(&outcome);
    assert_eq!(world.log(), ["user Tool:theirs: wet", "agent done[]"]);
}
