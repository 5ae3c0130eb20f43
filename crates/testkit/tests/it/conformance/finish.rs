//! FINISH: the log, the end, the outgoing parts and the audit row in one commit.

use serde_json::json;
use tidegate_protocol::{ErrorBody, ErrorCode, RunState, SessionSettings, ToolRunState, Usage};
use tidegate_storage::{
    Accept, AuditRow, Ending, Finish, Finished, Lease, NewCall, OutboxRow, OutboxState, RunRow,
    SessionChoice, SessionRow, Step, StoreError,
};
use tidegate_testkit::requests::{Requests, origin, usage};
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{audit_of, claim, converse, enlist, lines, log, queue, run, running_row, start};

on_both_backends! {
    a_completed_run_becomes_the_conversation,
    a_run_that_failed_without_a_line_leaves_no_conversation,
    a_failed_first_run_keeps_its_log_but_not_as_the_conversation,
    a_run_can_end_itself_as_aborted,
    a_fresh_log_becomes_current_only_when_its_run_completes,
    a_failed_fresh_run_keeps_the_old_conversation,
    a_finish_says_whether_another_run_waits,
    the_parts_of_a_reply_wait_in_order,
    a_run_ends_once,
    a_finish_that_fails_leaves_nothing,
    a_log_name_in_use_does_not_cost_the_run,
    a_run_that_completes_without_a_line_leaves_the_conversation_where_it_was,
    a_run_whose_answer_is_in_the_log_before_its_end_is_the_conversation,
    a_tool_under_way_at_the_end_is_interrupted,
}

async fn a_run_whose_answer_is_in_the_log_before_its_end_is_the_conversation(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let lease = start(store, owner, make.accept(&key)).await;
    let entries = vec![make.user("question"), make.assistant("answer")];
    store.step(&lease, Step { entries, now: make.now(), ..Step::default() }).await.unwrap();
    assert!(store.session(&key).await.unwrap().is_none(), "it has not completed");
    store.finish(&lease, Finish { entries: Vec::new(), ..make.completed() }).await.unwrap();
    let session = store.session(&key).await.unwrap().expect("the conversation");
    assert_eq!(
        (session.id, session.current, session.provider),
        (lease.session, true, Some(origin().provider))
    );
    // The next one goes on with it.
    assert_eq!(start(store, owner, make.accept(&key)).await.session, lease.session);
}

async fn a_tool_under_way_at_the_end_is_interrupted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    store.step(&lease, make.intent(vec![make.user("question")])).await.unwrap();
    store.finish(&lease, make.failed()).await.unwrap();
    let tools = store.tool_runs(make.tenant(), lease.run).await.unwrap();
    assert_eq!(tools.iter().map(|tool| tool.state.clone()).collect::<Vec<_>>(), [ToolRunState::Interrupted]);
}

async fn a_completed_run_becomes_the_conversation(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut accept = make.accept(&make.key("work"));
    accept.new_session.alias = Some("lc-1-abcd".to_owned());
    let lease = start(store, owner, accept.clone()).await;
    let call = NewCall { usage: usage(), ..make.call(0) };
    let finish = Finish { calls: vec![call], context_tokens: Some(321), ..make.completed() };
    let finished = store.finish(&lease, finish.clone()).await.unwrap();
    assert_eq!(finished, Finished { head_seq: 2, more: false, usage: usage(), announced: None });

    assert_eq!(log(store, &lease).await, lines(&[], &lease, &finish.entries, finish.now));
    let row = RunRow {
        state: RunState::Completed,
        usage: usage(),
        entries: Some((1, 2)),
        finished_at: Some(finish.now),
        ..running_row(&accept, &lease, accept.now)
    };
    assert_eq!(run(store, &make, lease.run).await, row);
    let session = SessionRow {
        key: lease.key.clone(),
        id: lease.session,
        alias: Some("lc-1-abcd".to_owned()),
        current: true,
        head_seq: 2,
        title: Some("question".to_owned()),
        parent: None,
        compactions: 0,
        flushed_at: None,
        usage: usage(),
        context_tokens: 321,
        settings: SessionSettings::default(),
        route: Some(origin().route),
        provider: Some(origin().provider),
        profile_id: origin().profile_id,
        created_at: finish.now,
        updated_at: finish.now,
    };
    assert_eq!(store.session(&lease.key).await.unwrap(), Some(session));
    let audit = audit_of(store, &make, &lease.run.to_string()).await;
    let [row] = audit.as_slice() else { panic!("one end, {} audit rows", audit.len()) };
    let expected = AuditRow {
        id: row.id,
        actor: make.principal().actor().to_owned(),
        action: "agent.run.completed".to_owned(),
        resource_type: "run".to_owned(),
        resource_id: lease.run.to_string(),
        metadata: json!({
            "sessionKey": lease.key.to_string(), "sessionId": lease.session.to_string(), "attempt": 1,
        }),
        created_at: finish.now,
    };
    assert_eq!(*row, expected);
}

async fn a_run_that_failed_without_a_line_leaves_no_conversation(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let accept = make.accept(&make.key("work"));
    let lease = start(store, owner, accept.clone()).await;
    let finish = make.failed();
    let finished = store.finish(&lease, finish.clone()).await.unwrap();
    assert_eq!(finished, Finished { head_seq: 0, more: false, usage: Usage::default(), announced: None });
    let Ending::Failed(error) = finish.ending else { panic!("it failed") };
    let row = RunRow {
        state: RunState::Failed,
        error: Some(error),
        finished_at: Some(finish.now),
        ..running_row(&accept, &lease, accept.now)
    };
    assert_eq!(run(store, &make, lease.run).await, row);
    assert_eq!(store.session(&lease.key).await.unwrap(), None);
    assert_eq!(store.session_by_name(make.tenant(), &lease.session.to_string()).await.unwrap(), None);
    let audit = audit_of(store, &make, &lease.run.to_string()).await;
    assert_eq!(audit.len(), 1);
    assert_eq!(audit[0].action, "agent.run.failed");
    assert_eq!(audit[0].metadata["code"], "MODEL_UNAVAILABLE");
}

async fn a_failed_first_run_keeps_its_log_but_not_as_the_conversation(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let failed = start(store, owner, make.accept(&key)).await;
    let finish = Finish { entries: vec![make.user("question")], ..make.failed() };
    store.finish(&failed, finish.clone()).await.unwrap();
    assert_eq!(store.session(&key).await.unwrap(), None);
    assert_eq!(log(store, &failed).await, lines(&[], &failed, &finish.entries, finish.now));
    let next = converse(store, &make, &key, owner).await;
    assert_ne!(next.session, failed.session);
    assert_eq!(store.session(&key).await.unwrap().map(|row| row.id), Some(next.session));
}

async fn a_run_can_end_itself_as_aborted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let error = ErrorBody {
        details: Some(json!({"after": "deadline"})),
        ..ErrorBody::new(ErrorCode::DeadlineExceeded, "took too long")
    };
    store.finish(&lease, make.ending(Ending::Aborted(error.clone()))).await.unwrap();
    let row = run(store, &make, lease.run).await;
    assert_eq!((row.state, row.error), (RunState::Aborted, Some(error)));
    let audit = audit_of(store, &make, &lease.run.to_string()).await;
    assert_eq!(audit.iter().map(|row| row.action.as_str()).collect::<Vec<_>>(), ["agent.run.aborted"]);
}

async fn a_fresh_log_becomes_current_only_when_its_run_completes(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let old = converse(store, &make, &key, owner).await;
    let before = store.session(&key).await.unwrap().unwrap();
    let fresh = Accept { session: SessionChoice::Fresh, ..make.accept(&key) };
    let lease = start(store, owner, fresh).await;
    store.step(&lease, make.intent(vec![make.user("question")])).await.unwrap();
    // Under way, with lines of its own: the old conversation is still the key's.
    assert_eq!(store.session(&key).await.unwrap(), Some(before.clone()));
    let finished = store.finish(&lease, make.completed()).await.unwrap();
    assert_eq!(finished.head_seq, 3);
    let current = store.session(&key).await.unwrap().unwrap();
    assert_eq!((current.id, current.current, current.head_seq), (lease.session, true, 3));
    let closed = store.session_by_name(make.tenant(), &old.session.to_string()).await.unwrap();
    assert_eq!(closed, Some(SessionRow { current: false, ..before }));
}

async fn a_failed_fresh_run_keeps_the_old_conversation(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let old = converse(store, &make, &key, owner).await;
    let before = store.session(&key).await.unwrap();
    for entries in [Vec::new(), vec![make.user("question")]] {
        let fresh = Accept { session: SessionChoice::Fresh, ..make.accept(&key) };
        let lease = start(store, owner, fresh).await;
        assert_ne!(lease.session, old.session);
        store.finish(&lease, Finish { entries, ..make.failed() }).await.unwrap();
        assert_eq!(store.session(&key).await.unwrap(), before);
    }
    let next = converse(store, &make, &key, owner).await;
    assert_eq!(next.session, old.session);
    assert!(log(store, &old).await.iter().map(|line| line.seq).eq(1..=4));
}

async fn a_finish_says_whether_another_run_waits(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let lease = start(store, owner, make.accept(&key)).await;
    let waiting = queue(store, make.accept(&key)).await;
    assert!(store.finish(&lease, make.completed()).await.unwrap().more);
    let lease = claim(store, &make, &key, owner).await;
    assert_eq!(lease.run, waiting);
    // One that was aborted while it waited does not count.
    let dropped = queue(store, make.accept(&key)).await;
    store.abort(&make.principal(), dropped, make.now()).await.unwrap();
    assert!(!store.finish(&lease, make.completed()).await.unwrap().more);
}

async fn the_parts_of_a_reply_wait_in_order(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    let parts = vec![make.part("a", "one"), make.part("a", "two"), make.part("b", "three")];
    let finish = Finish { parts: parts.clone(), ..make.completed() };
    let now = finish.now;
    store.finish(&lease, finish).await.unwrap();
    let expected: Vec<_> = (1..)
        .zip(parts)
        .map(|(part, new)| OutboxRow {
            id: new.id,
            run: lease.run,
            channel: new.channel,
            account_id: new.account_id,
            part,
            lane: new.lane,
            body: new.body,
            state: OutboxState::Pending,
            attempt: 0,
            retry_at: 0,
            remote_id: None,
            reason: None,
            created_at: now,
            updated_at: now,
        })
        .collect();
    assert_eq!(store.outbox_of(make.tenant(), lease.run).await.unwrap(), expected);
}

async fn a_run_ends_once(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = converse(store, &make, &make.key("work"), owner).await;
    let before = store.snapshot(make.tenant()).await;
    for finish in [make.completed(), make.failed()] {
        assert_eq!(store.finish(&lease, finish).await.unwrap_err(), StoreError::StaleFence);
    }
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn a_finish_that_fails_leaves_nothing(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    let part = make.part("a", "one");
    let before = store.snapshot(make.tenant()).await;
    // The same part twice: the last statements of the commit fail.
    let parts = vec![part.clone(), make.part("a", "two"), part];
    store.finish(&lease, Finish { parts, ..make.completed() }).await.unwrap_err();
    before.assert_same(&store.snapshot(make.tenant()).await);
    store.finish(&lease, make.completed()).await.unwrap();
    assert_eq!(run(store, &make, lease.run).await.state, RunState::Completed);
}

async fn a_log_name_in_use_does_not_cost_the_run(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let named = |name: &str| {
        let mut accept = make.accept(&make.key(name));
        accept.new_session.alias = Some("lc-1-abcd".to_owned());
        accept
    };
    // Short names are made of a millisecond and two random bytes: two logs may get the same one.
    let first = start(store, owner, named("first")).await;
    let second = start(store, owner, named("second")).await;
    for lease in [&first, &second] {
        store.finish(lease, make.completed()).await.unwrap();
    }
    let alias = async |lease: &Lease| store.session(&lease.key).await.unwrap().unwrap().alias;
    assert_eq!(alias(&first).await.as_deref(), Some("lc-1-abcd"));
    assert_eq!(alias(&second).await, None);
    assert_eq!(store.session_by_name(make.tenant(), "lc-1-abcd").await.unwrap().unwrap().id, first.session);
    // Only the log's id names the second one's file now.
    let next = start(store, owner, make.accept(&second.key)).await;
    assert_eq!((next.session, next.alias), (second.session, None));
}

async fn a_run_that_completes_without_a_line_leaves_the_conversation_where_it_was(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let first = start(store, owner, make.accept(&make.key("work"))).await;
    store.finish(&first, make.completed()).await.unwrap();
    let fresh = Accept { session: SessionChoice::Fresh, ..make.accept(&make.key("work")) };
    let silent = start(store, owner, fresh).await;
    store.finish(&silent, Finish { entries: Vec::new(), ..make.completed() }).await.unwrap();
    assert_eq!(store.session(&first.key).await.unwrap().unwrap().id, first.session);
}
