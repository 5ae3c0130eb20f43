//! INTENT, RESULT and the context: the log only grows, without a gap.

use serde_json::json;
use tidegate_protocol::{Block, Entry, EntryBody, Message, ToolRunId, ToolRunState};
use tidegate_storage::{Accept, Finish, SessionChoice, Step, StoreError, ToolRunRow};
use tidegate_testkit::requests::{Requests, at_once};
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{claim, context, converse, enlist, lines, log, queue, restart, run, start};

on_both_backends! {
    an_intent_enters_the_log_before_its_tool_starts,
    a_result_settles_its_tool_and_brings_the_next_intent,
    a_result_without_an_open_intent_is_refused_whole,
    a_result_is_written_once,
    positions_have_no_gap_and_parents_chain_across_runs,
    the_context_is_the_newest_lines_oldest_first,
    a_fresh_run_sees_none_of_the_old_conversation,
    keys_of_tool_arguments_keep_their_order,
    several_tools_begin_and_end_in_one_commit,
    one_tool_that_was_not_open_refuses_the_whole_step,
    what_a_step_says_comes_before_what_the_end_says,
    a_call_counts_once_whatever_steps_it_comes_with,
    an_empty_step_proves_the_fence_and_writes_nothing,
    how_long_a_run_has_worked_outlives_its_attempts,
}

fn intended(intent: &Step) -> ToolRunRow {
    let tool = &intent.begun[0];
    ToolRunRow {
        id: tool.id,
        call_id: tool.call_id.clone(),
        tool_name: tool.tool_name.clone(),
        args: tool.args.clone(),
        result: None,
        state: ToolRunState::Intended,
        created_at: intent.now,
    }
}

fn settled(intent: &Step, outcome: &Step) -> ToolRunRow {
    let ended = &outcome.ended[0];
    ToolRunRow { result: Some(ended.result.clone()), state: ended.state.clone(), ..intended(intent) }
}

async fn an_intent_enters_the_log_before_its_tool_starts(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let intent = make.intent(vec![make.user("question"), make.assistant("let me look")]);
    store.step(&lease, intent.clone()).await.unwrap();
    assert_eq!(log(store, &lease).await, lines(&[], &lease, &intent.entries, intent.now));
    assert_eq!(store.tool_runs(make.tenant(), lease.run).await.unwrap(), [intended(&intent)]);
    assert_eq!(run(store, &make, lease.run).await.entries, Some((1, 2)));
    // The log is there, but not the key's conversation before the run completes.
    assert_eq!(store.session(&lease.key).await.unwrap(), None);
    let row = store.session_by_name(make.tenant(), &lease.session.to_string()).await.unwrap().unwrap();
    assert_eq!((row.current, row.head_seq, row.created_at), (false, 2, intent.now));
}

async fn a_result_settles_its_tool_and_brings_the_next_intent(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let first = make.intent(vec![make.user("question")]);
    store.step(&lease, first.clone()).await.unwrap();
    let outcome = make.outcome(&first, &ToolRunState::Failed, vec![make.user("it failed")]);
    let second = make.intent(vec![make.assistant("once more")]);
    store.step(&lease, at_once(outcome.clone(), second.clone())).await.unwrap();
    let last = make.outcome(&second, &ToolRunState::Succeeded, Vec::new());
    store.step(&lease, last.clone()).await.unwrap();

    let expected = lines(&[], &lease, &first.entries, first.now);
    let expected = lines(&expected, &lease, &outcome.entries, second.now);
    let expected = lines(&expected, &lease, &second.entries, second.now);
    assert_eq!(log(store, &lease).await, expected);
    let tools = store.tool_runs(make.tenant(), lease.run).await.unwrap();
    assert_eq!(tools, [settled(&first, &outcome), settled(&second, &last)]);
    assert_eq!(run(store, &make, lease.run).await.entries, Some((1, 3)));
}

async fn a_result_without_an_open_intent_is_refused_whole(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let other = start(store, owner, make.accept(&make.key("other"))).await;
    let elsewhere = make.intent(vec![make.user("question")]);
    store.step(&other, elsewhere.clone()).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    // Neither a made-up one nor one of another run.
    for tool_run in [make.id::<ToolRunId>(), elsewhere.begun[0].id] {
        let mut outcome = make.outcome(&elsewhere, &ToolRunState::Succeeded, vec![make.user("result")]);
        outcome.ended[0].tool_run = tool_run;
        let next = make.intent(vec![make.assistant("next")]);
        let error = store.step(&lease, at_once(outcome, next)).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
        before.assert_same(&store.snapshot(make.tenant()).await);
    }
}

async fn a_result_is_written_once(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let intent = make.intent(vec![make.user("question")]);
    store.step(&lease, intent.clone()).await.unwrap();
    let outcome = make.outcome(&intent, &ToolRunState::Succeeded, vec![make.user("result")]);
    store.step(&lease, outcome).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    let second = make.outcome(&intent, &ToolRunState::Failed, vec![make.user("another")]);
    store.step(&lease, second).await.unwrap_err();
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn positions_have_no_gap_and_parents_chain_across_runs(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let mut expected: Vec<Entry> = Vec::new();
    for turn in 0..4 {
        let lease = start(store, owner, make.accept(&key)).await;
        let begins = i64::try_from(expected.len()).unwrap() + 1;
        let intent = make.intent(vec![make.user("question")]);
        store.step(&lease, intent.clone()).await.unwrap();
        expected = lines(&expected, &lease, &intent.entries, intent.now);
        // Runs that fail in the middle of a conversation leave no gap either.
        let end = if turn == 2 { make.failed() } else { make.completed() };
        let finished = store.finish(&lease, end.clone()).await.unwrap();
        expected = lines(&expected, &lease, &end.entries, end.now);
        assert_eq!(log(store, &lease).await, expected);
        assert_eq!(finished.head_seq, i64::try_from(expected.len()).unwrap());
        assert_eq!(run(store, &make, lease.run).await.entries, Some((begins, finished.head_seq)));
    }
    assert!(expected.iter().map(|line| line.seq).eq(1..=10));
}

async fn the_context_is_the_newest_lines_oldest_first(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    for _ in 0..4 {
        converse(store, &make, &key, owner).await;
    }
    let lease = start(store, owner, make.accept(&key)).await;
    let intent = make.intent(vec![make.user("question")]);
    store.step(&lease, intent).await.unwrap();
    let all = log(store, &lease).await;
    assert_eq!(all.len(), 9);
    for (limit, from) in [(1, 8), (3, 6), (9, 0), (ALL, 0)] {
        assert_eq!(context(store, &lease, limit).await, all[from..]);
    }
}

async fn a_fresh_run_sees_none_of_the_old_conversation(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    converse(store, &make, &key, owner).await;
    let fresh = Accept { session: SessionChoice::Fresh, ..make.accept(&key) };
    queue(store, fresh.clone()).await;
    let lease = claim(store, &make, &key, owner).await;
    assert_eq!(lease.session, fresh.new_session.id);
    assert_eq!(context(store, &lease, ALL).await, []);
}

async fn keys_of_tool_arguments_keep_their_order(store: &ScratchStore) {
    // The prompt a model is shown again must have the same bytes, or its cache is lost.
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let arguments =
        json!({"zulu": 1, "alpha": {"b": 1.0, "a": [1e2, 0.1]}, "mike": 18_446_744_073_709_551_615_u64});
    let mut intent = make.intent(vec![make.assistant("call")]);
    intent.begun[0].args = arguments.clone();
    if let EntryBody::Message(Message::Assistant { content, .. }) = &mut intent.entries[0].body {
        content.push(Block::ToolCall {
            id: "c1".to_owned(),
            name: "t".to_owned(),
            arguments: arguments.clone(),
            thought_signature: None,
        });
    }
    store.step(&lease, intent.clone()).await.unwrap();
    let mut outcome = make.outcome(&intent, &ToolRunState::Succeeded, Vec::new());
    outcome.ended[0].result = arguments.clone();
    store.step(&lease, outcome).await.unwrap();
    store.finish(&lease, Finish { entries: Vec::new(), ..make.completed() }).await.unwrap();
    let tools = store.tool_runs(make.tenant(), lease.run).await.unwrap();
    assert_eq!(tools[0].args.to_string(), arguments.to_string());
    assert_eq!(tools[0].result.as_ref().unwrap().to_string(), arguments.to_string());
    let stored = serde_json::to_string(&log(store, &lease).await[0].body).unwrap();
    assert_eq!(stored, serde_json::to_string(&intent.entries[0].body).unwrap());
}

async fn several_tools_begin_and_end_in_one_commit(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let mut intent = make.intent(vec![make.user("question")]);
    for _ in 0..3 {
        intent.begun.extend(make.intent(Vec::new()).begun);
    }
    store.step(&lease, intent.clone()).await.unwrap();
    let states = async || {
        let tools = store.steps(&lease).await.unwrap();
        assert!(tools.iter().map(|tool| tool.id).eq(intent.begun.iter().map(|tool| tool.id)));
        tools.into_iter().map(|tool| tool.state).collect::<Vec<_>>()
    };
    assert_eq!(states().await, vec![ToolRunState::Intended; 4]);
    let mut outcome = make.outcome(&intent, &ToolRunState::Succeeded, vec![make.user("results")]);
    let ends =
        [ToolRunState::Succeeded, ToolRunState::Failed, ToolRunState::Interrupted, ToolRunState::Shadowed];
    for (ended, state) in outcome.ended.iter_mut().zip(&ends) {
        ended.state = state.clone();
    }
    // They end in any order.
    outcome.ended.reverse();
    store.step(&lease, outcome).await.unwrap();
    assert_eq!(states().await, ends);
    assert_eq!(log(store, &lease).await.len(), 2);
}

async fn one_tool_that_was_not_open_refuses_the_whole_step(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let accept = Accept { reservation: Some(make.reservation(5, 100)), ..make.accept(&make.key("work")) };
    let lease = start(store, owner, accept).await;
    let intent = make.intent(vec![make.user("question")]);
    store.step(&lease, intent.clone()).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    let mut outcome = make.outcome(&intent, &ToolRunState::Succeeded, vec![make.user("result")]);
    outcome.ended.push(outcome.ended[0].clone());
    let step = Step {
        calls: vec![make.call(3)],
        parts: vec![make.part("lane", "part")],
        ..at_once(outcome, make.intent(vec![make.assistant("next")]))
    };
    let error = store.step(&lease, step).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn what_a_step_says_comes_before_what_the_end_says(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    let say = |texts: &[&str]| texts.iter().map(|text| make.part("lane", text)).collect::<Vec<_>>();
    for texts in [&["let me look"][..], &["still", "looking"]] {
        store.step(&lease, Step { parts: say(texts), now: make.now(), ..Step::default() }).await.unwrap();
    }
    // They may go out before the run is over.
    let sending = crate::scene::send(store, &make, owner).await;
    assert_eq!(sending.body, "let me look");
    store.finish(&lease, Finish { parts: say(&["done"]), ..make.completed() }).await.unwrap();
    let parts = store.outbox_of(make.tenant(), lease.run).await.unwrap();
    let numbered: Vec<_> = parts.iter().map(|part| (part.part, part.body.as_str())).collect();
    assert_eq!(numbered, [(1, "let me look"), (2, "still"), (3, "looking"), (4, "done")]);
}

async fn a_call_counts_once_whatever_steps_it_comes_with(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let (first, second) = (make.call(10), make.call(5));
    // Before the log begins, with its beginning, and at the end.
    for entries in [Vec::new(), vec![make.user("question")]] {
        let step = Step { entries, calls: vec![first.clone()], now: make.now(), ..Step::default() };
        store.step(&lease, step).await.unwrap();
        assert_eq!(run(store, &make, lease.run).await.usage.input, 10);
    }
    let row = store.session_by_name(make.tenant(), &lease.session.to_string()).await.unwrap().unwrap();
    assert_eq!(row.usage.input, 10);
    let calls = vec![first.clone(), second.clone()];
    let finished = store.finish(&lease, Finish { calls, ..make.completed() }).await.unwrap();
    assert_eq!(finished.usage.input, 15);
    assert_eq!(run(store, &make, lease.run).await.usage, finished.usage);
    assert_eq!(store.session(&lease.key).await.unwrap().unwrap().usage, finished.usage);
    assert_eq!(store.calls_of(make.tenant(), lease.run).await.unwrap(), [first, second]);
}

async fn an_empty_step_proves_the_fence_and_writes_nothing(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let library = async || store.snapshot(make.tenant()).await.library;
    let before = library().await;
    store.step(&lease, Step { now: make.now(), ..Step::default() }).await.unwrap();
    assert_eq!(library().await, before);
    store.abort(&make.principal(), lease.run, make.now()).await.unwrap();
    assert_eq!(store.step(&lease, Step::default()).await, Err(StoreError::StaleFence));
}

async fn how_long_a_run_has_worked_outlives_its_attempts(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    assert_eq!(lease.worked_ms, 0);
    let worked = |ms| Step { worked_ms: Some(ms), now: make.now(), ..Step::default() };
    store.step(&lease, worked(1_200)).await.unwrap();
    // Another step says nothing about it.
    store.step(&lease, make.intent(vec![make.user("question")])).await.unwrap();
    let (owner, _) = restart(store, &make, owner).await;
    let again = claim(store, &make, &lease.key, owner).await;
    assert_eq!((again.attempt, again.worked_ms), (2, 1_200));
    assert_eq!(store.step(&lease, worked(9_000)).await, Err(StoreError::StaleFence));
    store.step(&again, worked(3_400)).await.unwrap();
    store.release(&again, make.now()).await.unwrap();
    let last = claim(store, &make, &lease.key, owner).await;
    assert_eq!((last.attempt, last.worked_ms), (2, 3_400));
    store.finish(&last, make.completed()).await.unwrap();
    let next = start(store, owner, make.accept(&lease.key)).await;
    assert_eq!(next.worked_ms, 0, "another run has its own time");
}
