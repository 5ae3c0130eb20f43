//! A few whole turns: that the verbs fit together here as they do on the other backend.

use serde_json::json;
use tidegate_protocol::{RunState, SendOutcome, ToolRunState};
use tidegate_storage::{
    AbortOutcome, Admission, Claim, Instances as _, Journal as _, Library as _, NewToolRun, NextSend,
    Outbox as _, OutboxState, RunFilter, RunLookup, Runs as _, SCHEMA, SessionFilter, Step, StoreError,
    ToolOutcome,
};

use crate::scratch::{
    NOW, accept, begin, enlisted, entry, finish, id, key, newest, part, principal, send, with_schema,
};

#[tokio::test]
async fn a_turn_with_a_tool_and_a_reply_is_kept_in_order() {
    with_schema(|scratch| async move {
        let store = scratch.open().await;
        let owner = enlisted(&store).await;
        let key = key("acme", "work");
        let lease = begin(&store, &key, owner).await;
        let queued = store.accept(accept(&key, owner)).await.unwrap();
        assert_eq!(queued.admission, Admission::Queued { ahead: 1 });

        let tool =
            NewToolRun { id: id(), call_id: "c1\0".into(), tool_name: "t".into(), args: json!({"a": "\0"}) };
        let entries = vec![entry("one"), entry("two")];
        let intent = Step { entries, begun: vec![tool.clone()], now: NOW, ..Step::default() };
        store.step(&lease, intent).await.unwrap();
        let outcome = ToolOutcome { tool_run: tool.id, state: ToolRunState::Succeeded, result: json!([1]) };
        let entries = vec![entry("three")];
        let outcome = Step { ended: vec![outcome], entries, now: NOW, ..Step::default() };
        store.step(&lease, outcome.clone()).await.unwrap();
        let twice = store.step(&lease, outcome).await.unwrap_err();
        assert!(matches!(twice, StoreError::NotFound(_)), "{twice:?}");
        assert!(
            store.session(&key).await.unwrap().is_none(),
            "the key moves to the log only when the run completes"
        );

        let done = finish(&lease, &["four"], vec![part("lane", "nul \0 and \u{1}"), part("lane", "b")]);
        let finished = store.finish(&lease, done.clone()).await.unwrap();
        assert_eq!((finished.head_seq, finished.more), (4, true));
        assert_eq!(store.finish(&lease, done).await, Err(StoreError::StaleFence));

        let entries = store.entries(lease.tenant(), lease.session, 0, 10).await.unwrap();
        assert_eq!(entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
        for pair in entries.windows(2) {
            assert_eq!(pair[1].parent_id, Some(pair[0].id));
        }
        let run = store.run(lease.tenant(), &RunLookup::Id(lease.run)).await.unwrap().unwrap();
        assert_eq!((run.state, run.entries, run.attempt), (RunState::Completed, Some((1, 4)), 1));
        let tools = store.tool_runs(lease.tenant(), lease.run).await.unwrap();
        assert_eq!(tools.len(), 1);
        assert_eq!((tools[0].call_id.as_str(), &tools[0].result), ("c1\0", &Some(json!([1]))));
        let context = store.context(&lease, newest(2)).await.unwrap();
        let seqs: Vec<i64> = context.entries.iter().map(|entry| entry.seq).collect();
        assert_eq!(seqs, [1, 2, 3, 4], "a run's own lines are read whatever the limit");

        let session = store.session(&key).await.unwrap().unwrap();
        assert_eq!(
            (session.id, session.alias.clone(), session.current),
            (lease.session, lease.alias.clone(), true)
        );
        let listed = store
            .sessions(lease.tenant(), SessionFilter { agent: None, all: false, limit: 9 })
            .await
            .unwrap();
        assert_eq!(listed, vec![session.clone()]);
        let named = store.session_by_name(lease.tenant(), lease.alias.as_deref().unwrap()).await.unwrap();
        assert_eq!(named, Some(session));

        let sending = send(&store, &key.scope.tenant, &owner, "lane").await;
        assert_eq!((sending.body.as_str(), sending.attempt), ("nul \0 and \u{1}", 1));
        assert_eq!(
            store.claim_send(&key.scope.tenant, &owner, "lane", 60_000, NOW).await.unwrap(),
            NextSend::Busy,
            "one at a time a lane"
        );
        let rejected = SendOutcome::Rejected { reason: "no".into() };
        assert_eq!(store.settle_send(&sending, rejected.clone(), NOW).await, Ok(OutboxState::Dead));
        assert_eq!(store.settle_send(&sending, rejected, NOW).await, Err(StoreError::StaleFence));
        let states: Vec<_> = store.outbox_of(&key.scope.tenant, lease.run).await.unwrap();
        assert_eq!(states.iter().map(|row| row.state.as_str()).collect::<Vec<_>>(), ["dead", "dropped"]);

        let status = store.status(&key.scope.tenant).await.unwrap();
        assert_eq!((status.backend.as_str(), status.schema, status.sessions), ("postgres", SCHEMA, 1));
        assert_eq!(status.runs, vec![("completed".to_owned(), 1), ("queued".to_owned(), 1)]);
        assert_eq!(status.outbox, vec![("dead".to_owned(), 1), ("dropped".to_owned(), 1)]);
        assert!(status.bytes.unwrap() > 0);
    })
    .await;
}

#[tokio::test]
async fn what_a_dead_incarnation_held_in_any_tenant_is_settled() {
    with_schema(|scratch| async move {
        let store = scratch.open().await;
        let dead = enlisted(&store).await;
        let (acme, beta, caller) = (key("acme", "a"), key("beta", "b"), key("beta", "c"));
        let held = begin(&store, &acme, dead).await;
        let done = begin(&store, &beta, dead).await;
        store.finish(&done, finish(&done, &["x"], vec![part("l", "1"), part("l", "2")])).await.unwrap();
        let sending = send(&store, &beta.scope.tenant, &dead, "l").await;
        let mut waiting = accept(&caller, dead);
        waiting.run.reply = tidegate_protocol::ReplyTarget::Caller;
        let waiting = store.accept(waiting).await.unwrap().run;

        let alive = store.enlist(dead.instance, NOW).await.unwrap();
        let recovered = store.recover(&alive, NOW).await.unwrap();
        assert_eq!(
            recovered.runs.iter().map(|run| (run.run, run.state.clone())).collect::<Vec<_>>(),
            [(held.run, RunState::Queued), (waiting, RunState::Interrupted)]
        );
        assert_eq!(store.recover(&alive, NOW).await.unwrap(), tidegate_storage::Recovered::default());
        let states: Vec<_> = store.outbox_of(&beta.scope.tenant, done.run).await.unwrap();
        assert_eq!(states.iter().map(|row| row.state.as_str()).collect::<Vec<_>>(), ["sending", "pending"]);
        let doubtful = send(&store, &beta.scope.tenant, &alive, "l").await;
        assert_eq!((doubtful.id, doubtful.attempt, doubtful.doubtful), (sending.id, 2, true));
        assert_eq!(store.heartbeat(&dead, NOW).await, Err(StoreError::StaleFence));
        assert_eq!(store.finish(&held, finish(&held, &["late"], vec![])).await, Err(StoreError::StaleFence));

        let Claim::Granted(again) = store.claim(&acme, &alive, 60_000, NOW).await.unwrap() else {
            panic!("not granted")
        };
        assert_eq!((again.run, again.attempt, again.session), (held.run, 2, held.session));
        let busy = store.claim(&acme, &enlisted(&store).await, 60_000, NOW).await.unwrap();
        assert_eq!(busy, Claim::Busy { run: again.run });
    })
    .await;
}

#[tokio::test]
async fn a_silent_instance_loses_its_session_by_the_databases_clock() {
    with_schema(|scratch| async move {
        let store = scratch.open().await;
        let (silent, other) = (enlisted(&store).await, enlisted(&store).await);
        let key = key("acme", "a");
        let held = begin(&store, &key, silent).await;
        // The caller's clock says nothing: only the database's heartbeat counts.
        let far = NOW + 1_000_000_000_000;
        assert_eq!(store.claim(&key, &other, 60_000, far).await.unwrap(), Claim::Busy { run: held.run });
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let Claim::Granted(lease) = store.claim(&key, &other, 10, NOW).await.unwrap() else {
            panic!("not granted")
        };
        assert_eq!((lease.run, lease.attempt, lease.owner), (held.run, 2, other));
    })
    .await;
}

#[tokio::test]
async fn a_session_is_deleted_whole_and_only_when_idle() {
    with_schema(|scratch| async move {
        let store = scratch.open().await;
        let owner = enlisted(&store).await;
        let key = key("acme", "a");
        let lease = begin(&store, &key, owner).await;
        let busy = store.delete_session(&principal(&key), &key, NOW).await;
        assert_eq!(busy, Err(StoreError::SessionBusy));
        assert!(
            matches!(store.run(lease.tenant(), &RunLookup::Id(lease.run)).await, Ok(Some(_))),
            "nothing is gone"
        );
        store.finish(&lease, finish(&lease, &["x"], vec![part("l", "1")])).await.unwrap();
        let names = store.delete_session(&principal(&key), &key, NOW).await.unwrap();
        assert_eq!(names, [lease.alias.clone().unwrap()]);
        assert_eq!(
            store.runs(lease.tenant(), RunFilter { limit: 9, ..RunFilter::default() }).await,
            Ok(vec![])
        );
        assert_eq!(store.entries(lease.tenant(), lease.session, 0, 9).await, Ok(vec![]));
        let gone = store.delete_session(&principal(&key), &key, NOW).await;
        assert!(matches!(gone, Err(StoreError::NotFound(_))));
        let audit = store.audit(lease.tenant(), 9).await.unwrap();
        assert_eq!(
            audit.iter().map(|row| row.action.as_str()).collect::<Vec<_>>(),
            ["session.delete", "agent.run.completed"]
        );
    })
    .await;
}

#[tokio::test]
async fn an_aborted_run_frees_its_session_and_its_holder_cannot_write() {
    with_schema(|scratch| async move {
        let store = scratch.open().await;
        let owner = enlisted(&store).await;
        let key = key("acme", "a");
        let lease = begin(&store, &key, owner).await;
        assert_eq!(store.abort(&principal(&key), lease.run, NOW).await, Ok(AbortOutcome::Aborted));
        let again = store.abort(&principal(&key), lease.run, NOW).await;
        assert_eq!(again, Ok(AbortOutcome::AlreadyEnded(RunState::Aborted)));
        assert_eq!(store.abort(&principal(&key), id(), NOW).await, Ok(AbortOutcome::NotFound));
        assert_eq!(
            store.finish(&lease, finish(&lease, &["late"], vec![])).await,
            Err(StoreError::StaleFence)
        );
        assert_eq!(store.claim(&key, &owner, 60_000, NOW).await, Ok(Claim::Nothing));
    })
    .await;
}
