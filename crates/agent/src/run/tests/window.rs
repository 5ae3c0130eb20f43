//! Conversations that outgrow the window.

use super::*;

/// A model that answers what it is asked, and sums up in one line.
fn talker(tokens: u64) -> World {
    World::new(move |request| {
        let sums_up = request.tools.is_empty();
        if sums_up {
            says("They talked about the weather and agreed on rain.")
        } else {
            Said { tokens, ..says("yes") }
        }
    })
}

fn small(attempt: u32) -> Turn {
    let mut turn = turn(attempt);
    (turn.window.tokens, turn.window.reserve, turn.window.keep_recent) = (4_000, 1_000, 400);
    turn
}

fn fill(world: &World, messages: usize) {
    for at in 0..messages {
        let text = format!("{at} {}", "some words about the weather ".repeat(8));
        world.append(EntryBody::Message(Message::user(text, 0)));
        let said = Message::Assistant {
            content: vec![Block::text("I see, it may rain. ".repeat(8))],
            origin: resume_origin(),
            usage: Usage::default(),
            stop_reason: StopReason::Stop,
            error_message: None,
            timestamp: 0,
        };
        world.append(EntryBody::Message(said));
    }
    // Another run said all that.
    for entry in &mut world.state().log {
        entry.run_id = RunId::from_parts(1, [1; 10]);
    }
}

fn resume_origin() -> Origin {
    let name = || "fake".to_owned();
    Origin { api: name(), provider: name(), model: name(), profile_id: None, route: name(), stage: name() }
}

#[tokio::test]
async fn a_conversation_that_outgrows_its_window_is_summed_up_and_nothing_of_it_changes() {
    let world = talker(0);
    fill(&world, 40);
    let before = world.state().log.clone();
    let outcome = world.attempt_of(&small(1)).await.unwrap();
    assert_eq!(world.finish(&outcome), "yes");
    assert!(
        matches!(&outcome, Outcome::Answered(answer) if answer.summed_up),
        "for those who only read messages"
    );
    assert_eq!(world.state().log[..before.len()], before);
    assert!(world.log().iter().any(|line| line.starts_with("summary from")), "{:?}", world.log());
    let state = world.state();
    let asked = state.requests.last().unwrap();
    let size: u64 = asked.messages.iter().map(crate::context::estimate).sum();
    assert!(size < small(1).window.line(), "{size}");
    assert!(asked.messages.first().unwrap().text().contains("agreed on rain"));
    assert_eq!(asked.messages.last().unwrap().text(), "do it");
    let told = state.events.iter().any(|event| matches!(event, RunEventBody::CompactionEnded { .. }));
    assert!(told, "the user is told");
    assert_eq!(state.parts, Vec::<String>::new(), "nothing goes out before the answer");
}

#[tokio::test]
async fn whoever_asks_for_a_summary_is_told_by_its_answer_alone() {
    let world = talker(0);
    fill(&world, 40);
    let parts = Parts { model: &world, journal: &world, tools: &world, desk: &world, clock: &world };
    let outcome = sum_up(&small(1), parts, None).await.unwrap();
    assert!(matches!(outcome, Outcome::SummedUp { .. }), "{outcome:?}");
    assert_eq!(world.state().parts, Vec::<String>::new());
}

#[tokio::test]
async fn a_model_that_finds_it_too_long_all_the_same_is_asked_once_more_about_less() {
    let world = World::new(|request| {
        let long = request.messages.len() > 30;
        match (request.tools.is_empty(), long) {
            (true, _) => says("They talked about the weather."),
            (false, true) => Said { fails: Some(FailureKind::ContextOverflow), ..Said::default() },
            (false, false) => says("yes"),
        }
    });
    fill(&world, 40);
    let mut turn = turn(1);
    turn.window.keep_recent = 400;
    let outcome = world.attempt_of(&turn).await.unwrap();
    assert_eq!(world.finish(&outcome), "yes");
}

#[tokio::test]
async fn a_second_overflow_ends_the_run() {
    let world = World::new(|request| {
        if request.tools.is_empty() {
            return says("They talked.");
        }
        Said { fails: Some(FailureKind::ContextOverflow), ..Said::default() }
    });
    fill(&world, 40);
    let outcome = world.attempt(1).await.unwrap();
    let Outcome::Failed { error } = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.code, tidegate_protocol::ErrorCode::ContextOverflow);
}

#[tokio::test]
async fn tools_that_fill_the_window_are_summed_up_between_two_rounds() {
    const IDS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    const LONG: &str = "I look at the next one. It is a long story, and every part of it has to be told in full \
                        before I can go on to the part that comes after it, which is a long story as well. ";
    let world = World::new(|request| {
        if request.tools.is_empty() {
            return says("Looked at many things.");
        }
        if request.messages.iter().any(|message| message.text().contains("Looked at many")) {
            return says("done");
        }
        Said { text: LONG, ..calls(&[("look", IDS[results_since_user(request)])]) }
    });
    fill(&world, 27);
    let outcome = world.attempt_of(&small(1)).await.unwrap();
    assert_eq!(world.finish(&outcome), "done");
    let log = world.log();
    let summed_up = log.iter().position(|line| line.starts_with("summary from")).unwrap();
    assert!(log[..summed_up].iter().any(|line| line == "result a: did a"), "{log:?}");
}

#[tokio::test]
async fn a_run_that_was_summed_up_with_everything_it_did_does_not_begin_anew() {
    let mind = |request: &Request| {
        if request.tools.is_empty() {
            return says("The first write was made.");
        }
        match request.messages.last() {
            Some(message) if message.text().contains("was made") => says("done"),
            // So many tokens that nothing can stay.
            Some(Message::User { .. }) => Said { tokens: 9_000_000, ..calls(&[("write", "w1")]) },
            _ => says("not summed up"),
        }
    };
    let mut cut_off = 0;
    for fuse in 0.. {
        let world = World::new(mind);
        world.state().fuse = Some(fuse);
        if world.attempt_of(&small(1)).await.is_ok() {
            break;
        }
        cut_off += 1;
        world.restart();
        let outcome = world.attempt_of(&small(2)).await.unwrap();
        world.finish(&outcome);
        let log = world.log();
        assert_eq!(log.iter().filter(|line| *line == "user do it").count(), 1, "after {fuse}: {log:?}");
        assert!(world.state().effects.len() <= 1, "after {fuse}: {log:?}");
        let Outcome::Answered(answer) = outcome else { panic!("{outcome:?}") };
        let results = log.iter().filter(|line| line.starts_with("result ")).count();
        assert_eq!(answer.calls.len(), results, "after {fuse}: {log:?}");
    }
    assert!(cut_off > 6, "only {cut_off} places to be cut off at");
}

#[tokio::test]
async fn a_summary_that_nobody_can_pay_for_is_made_without_a_model() {
    let world = talker(0);
    fill(&world, 40);
    world.state().broke = true;
    let outcome = world.attempt_of(&small(1)).await.unwrap();
    assert_eq!(world.finish(&outcome), "yes");
    let state = world.state();
    assert_eq!(state.requests.len(), 1, "only what was reserved with the run");
    let ended =
        |event: &RunEventBody| matches!(event, RunEventBody::CompactionEnded { mechanical: true, .. });
    assert!(state.events.iter().any(ended), "{:?}", state.events);
}

#[tokio::test]
async fn nothing_is_told_about_a_summary_where_there_is_nothing_to_sum_up() {
    let world = talker(0);
    fill(&world, 1);
    let parts = Parts { model: &world, journal: &world, tools: &world, desk: &world, clock: &world };
    let outcome = sum_up(&turn(1), parts, None).await.unwrap();
    assert_eq!(outcome, Outcome::NothingToSumUp);
    let state = world.state();
    assert_eq!((state.events.len(), state.requests.len()), (0, 0));
}

#[tokio::test]
async fn rounds_that_were_summed_up_still_count_after_a_crash() {
    let mind = |request: &Request| {
        if request.tools.is_empty() {
            return says("Some things were done.");
        }
        match request.options.tool_choice {
            ToolChoice::None => says("I have to stop"),
            // So many tokens that nothing can stay.
            _ => Said { tokens: 9_000_000, ..calls(&[("write", "w")]) },
        }
    };
    let limited = |attempt| {
        let mut turn = small(attempt);
        turn.spec.tools.max_steps = Some(2);
        turn
    };
    for fuse in 0.. {
        let world = World::new(mind);
        world.state().fuse = Some(fuse);
        if world.attempt_of(&limited(1)).await.is_ok() {
            break;
        }
        world.restart();
        let outcome = world.attempt_of(&limited(2)).await.unwrap();
        assert_eq!(world.finish(&outcome), "I have to stop", "after {fuse}");
        let effects = world.state().effects.len();
        assert!(effects <= 2, "{effects} after {fuse}: {:?}", world.log());
    }
}
