//! INTENT, RESULT and the context: the log only grows, without a gap.

use serde_json::json;
use tidegate_protocol::{Block, Entry, EntryBody, Message, ToolRunId, ToolRunState};
use tidegate_storage::{Accept, Finish, Intent, SessionChoice, StoreError, ToolOutcome, ToolRunRow};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{claim, converse, enlist, lines, log, queue, run, start};

on_both_backends! {
    an_intent_enters_the_log_before_its_tool_starts,
    a_result_settles_its_tool_and_brings_the_next_intent,
    a_result_without_an_open_intent_is_refused_whole,
    a_result_is_written_once,
    positions_have_no_gap_and_parents_chain_across_runs,
    the_context_is_the_newest_lines_oldest_first,
    a_fresh_run_sees_none_of_the_old_conversation,
    keys_of_tool_arguments_keep_their_order,
}

fn intended(intent: &Intent) -> ToolRunRow {
    ToolRunRow {
        id: intent.tool_run.id,
        call_id: intent.tool_run.call_id.clone(),
        tool_name: intent.tool_run.tool_name.clone(),
        args: intent.tool_run.args.clone(),
        result: None,
        state: ToolRunState::Intended,
        created_at: intent.now,
    }
}

fn settled(intent: &Intent, outcome: &ToolOutcome) -> ToolRunRow {
    ToolRunRow { result: Some(outcome.result.clone()), state: outcome.state.clone(), ..intended(intent) }
}

async fn an_intent_enters_the_log_before_its_tool_starts(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let intent = make.intent(vec![make.user("question"), make.assistant("let me look")]);
    store.intend(&lease, intent.clone()).await.unwrap();
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
    store.intend(&lease, first.clone()).await.unwrap();
    let outcome = make.outcome(&first, ToolRunState::Failed, vec![make.user("it failed")]);
    let second = make.intent(vec![make.assistant("once more")]);
    store.result(&lease, outcome.clone(), Some(second.clone())).await.unwrap();
    let last = make.outcome(&second, ToolRunState::Succeeded, Vec::new());
    store.result(&lease, last.clone(), None).await.unwrap();

    let expected = lines(&[], &lease, &first.entries, first.now);
    let expected = lines(&expected, &lease, &outcome.entries, outcome.now);
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
    store.intend(&other, elsewhere.clone()).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    // Neither a made-up one nor one of another run.
    for tool_run in [make.id::<ToolRunId>(), elsewhere.tool_run.id] {
        let outcome = make.outcome(&elsewhere, ToolRunState::Succeeded, vec![make.user("result")]);
        let outcome = ToolOutcome { tool_run, ..outcome };
        let next = make.intent(vec![make.assistant("next")]);
        let error = store.result(&lease, outcome, Some(next)).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
        before.assert_same(&store.snapshot(make.tenant()).await);
    }
}

async fn a_result_is_written_once(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let intent = make.intent(vec![make.user("question")]);
    store.intend(&lease, intent.clone()).await.unwrap();
    let outcome = make.outcome(&intent, ToolRunState::Succeeded, vec![make.user("result")]);
    store.result(&lease, outcome, None).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    let second = make.outcome(&intent, ToolRunState::Failed, vec![make.user("another")]);
    store.result(&lease, second, None).await.unwrap_err();
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
        store.intend(&lease, intent.clone()).await.unwrap();
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
    store.intend(&lease, intent).await.unwrap();
    let all = log(store, &lease).await;
    assert_eq!(all.len(), 9);
    for (limit, from) in [(1, 8), (3, 6), (9, 0), (ALL, 0)] {
        assert_eq!(store.context(&lease, limit).await.unwrap(), all[from..]);
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
    assert_eq!(store.context(&lease, ALL).await.unwrap(), []);
}

async fn keys_of_tool_arguments_keep_their_order(store: &ScratchStore) {
    // The prompt a model is shown again must have the same bytes, or its cache is lost.
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let arguments =
        json!({"zulu": 1, "alpha": {"b": 1.0, "a": [1e2, 0.1]}, "mike": 18_446_744_073_709_551_615_u64});
    let mut intent = make.intent(vec![make.assistant("call")]);
    intent.tool_run.args = arguments.clone();
    if let EntryBody::Message(Message::Assistant { content, .. }) = &mut intent.entries[0].body {
        content.push(Block::ToolCall {
            id: "c1".to_owned(),
            name: "t".to_owned(),
            arguments: arguments.clone(),
            thought_signature: None,
        });
    }
    store.intend(&lease, intent.clone()).await.unwrap();
    let outcome = ToolOutcome {
        result: arguments.clone(),
        ..make.outcome(&intent, ToolRunState::Succeeded, Vec::new())
    };
    store.result(&lease, outcome, None).await.unwrap();
    store.finish(&lease, Finish { entries: Vec::new(), ..make.completed() }).await.unwrap();
    let tools = store.tool_runs(make.tenant(), lease.run).await.unwrap();
    assert_eq!(tools[0].args.to_string(), arguments.to_string());
    assert_eq!(tools[0].result.as_ref().unwrap().to_string(), arguments.to_string());
    let stored = serde_json::to_string(&log(store, &lease).await[0].body).unwrap();
    assert_eq!(stored, serde_json::to_string(&intent.entries[0].body).unwrap());
}
