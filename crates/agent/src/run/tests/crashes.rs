//! A run that is cut off anywhere goes on, and does nothing twice.

use super::*;

/// Three rounds: two looks side by side, two writes in order, a mixture; then an answer. The model keeps no state.
fn three_rounds() -> World {
    World::new(|request| match results_since_user(request) {
        0 => Said { text: "I begin", ..calls(&[("look", "l1"), ("look", "l2")]) },
        2 => calls(&[("write", "w1"), ("write", "w2")]),
        4 => calls(&[("look", "l3"), ("write", "w3")]),
        _ => says("done"),
    })
}

/// Every call of the log has one result, directly behind it and in order.
fn assert_paired(world: &World) {
    let state = world.state();
    let messages: Vec<&Message> = state.log.iter().filter_map(|entry| entry.body.message()).collect();
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        match message {
            Message::ToolResult { tool_call_id, .. } => {
                assert_eq!(open.first(), Some(tool_call_id), "{:?}", state.log);
                open.remove(0);
            }
            other => {
                assert!(open.is_empty(), "{:?}", state.log);
                open = calls_of(other).into_iter().map(|call| call.id).collect();
            }
        }
    }
    assert!(open.is_empty());
}

#[tokio::test]
async fn wherever_a_run_is_cut_off_it_goes_on_from_its_last_step_and_writes_nothing_twice() {
    let whole = three_rounds();
    whole.attempt(1).await.unwrap();
    assert_eq!(whole.state().effects, ["l1", "l2", "w1", "w2", "l3", "w3"]);
    let mut cut_off = 0;
    for fuse in 0.. {
        let world = three_rounds();
        world.state().fuse = Some(fuse);
        if world.attempt(1).await.is_ok() {
            break;
        }
        cut_off += 1;
        let before = world.state().log.clone();
        let told = world.state().parts.clone();
        world.restart();
        let outcome = world.attempt(2).await.unwrap();
        assert_eq!(world.finish(&outcome), "done", "after {fuse}");
        // What was committed stays as it was.
        assert_eq!(world.state().log[..before.len()], before, "after {fuse}");
        assert!(world.state().parts.starts_with(&told), "after {fuse}");
        assert_eq!(world.state().parts, ["I begin"], "after {fuse}");
        assert_paired(&world);
        for write in ["w1", "w2", "w3"] {
            let times = world.state().effects.iter().filter(|effect| *effect == write).count();
            let told =
                world.log().iter().any(|line| line.starts_with(&format!("result {write}: interrupted")));
            assert!(times == 1 || (times == 0 && told), "{write} ran {times} times after {fuse}");
            let known = world.log().contains(&format!("result {write}: did {write}"));
            assert!(known != told, "{write} after {fuse}: {:?}", world.log());
        }
    }
    assert!(cut_off > 15, "only {cut_off} places to be cut off at");
}

#[tokio::test]
async fn a_run_that_is_cut_off_again_and_again_still_comes_to_its_end() {
    let world = three_rounds();
    let mut attempts = 0;
    let outcome = loop {
        attempts += 1;
        assert!(attempts < 100);
        // A little longer each time: two tools that only look begin anew together.
        world.state().fuse = Some(2 + usize::try_from(attempts).unwrap());
        match world.attempt(attempts).await {
            Ok(outcome) => break outcome,
            Err(_) => world.restart(),
        }
    };
    assert_eq!(world.finish(&outcome), "done");
    assert_paired(&world);
    for write in ["w1", "w2", "w3"] {
        assert!(world.state().effects.iter().filter(|effect| *effect == write).count() <= 1);
    }
}

#[tokio::test]
async fn an_answer_that_only_lacks_its_end_is_not_asked_for_again() {
    let world = three_rounds();
    let outcome = world.attempt(1).await.unwrap();
    world.finish(&outcome);
    let asked = world.state().requests.len();
    let outcome = world.attempt(2).await.unwrap();
    assert_eq!(world.state().requests.len(), asked);
    let Outcome::Answered(answer) = outcome else { panic!("{outcome:?}") };
    assert_eq!((answer.text.as_str(), answer.entries.len()), ("done", 0));
}

#[tokio::test]
async fn a_call_whose_outcome_can_be_found_out_is_told_as_it_is_and_one_that_did_nothing_is_made() {
    for (recalled, line, effects) in [
        (Recalled::Unknown, "result w1: interrupted", vec![]),
        (Recalled::Nothing, "result w1: did w1", vec!["w1"]),
        (Recalled::Done(result("write", "it is there")), "result w1: it is there", vec![]),
    ] {
        let world = World::new(|request| match results_since_user(request) {
            0 => calls(&[("write", "w1")]),
            _ => says("done"),
        });
        // Its INTENT is durable, and it dies before the tool begins.
        world.state().fuse = Some(2);
        world.attempt(1).await.unwrap_err();
        world.restart();
        assert_eq!(world.state().tool_runs[0].state, ToolRunState::Interrupted);
        world.state().recalled = Some(recalled);
        let outcome = world.attempt(2).await.unwrap();
        assert_eq!(world.finish(&outcome), "done");
        assert!(world.log().iter().any(|said| said.starts_with(line)), "{line}: {:?}", world.log());
        assert_eq!(world.state().effects, effects, "{line}");
        assert_paired(&world);
    }
}
