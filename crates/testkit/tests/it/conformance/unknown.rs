//! States of a newer release: shown as they are, and left alone by every verb.

use tidegate_protocol::{RunId, RunState, SendOutcome, ToolRunState};
use tidegate_storage::{AbortOutcome, Accept, Admission, Claim, Finish, OutboxState, Recovered, StoreError};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, converse, enlist, next_send, outbox_states, queue, start, state};

on_both_backends! {
    a_run_in_an_unknown_state_is_shown_as_it_is,
    a_run_in_an_unknown_state_is_not_aborted,
    a_run_in_an_unknown_state_is_not_claimed,
    a_run_in_an_unknown_state_is_not_recovered,
    a_run_with_an_unknown_reply_target_is_tried_again,
    a_run_in_an_unknown_state_keeps_its_session_from_deletion,
    a_tool_in_an_unknown_state_is_not_interrupted,
    a_part_in_an_unknown_state_is_neither_sent_nor_dropped,
}

fn paused() -> RunState {
    RunState::Unknown("paused".to_owned())
}

async fn pause(store: &ScratchStore, run: RunId) {
    store.execute(&format!("UPDATE runs SET state = 'paused' WHERE id = '{run}'")).await;
}

async fn a_run_in_an_unknown_state_is_shown_as_it_is(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let run = queue(store, make.accept(&make.key("work"))).await;
    pause(store, run).await;
    assert_eq!(state(store, &make, run).await, paused());
    let filter = tidegate_storage::RunFilter { state: Some(paused()), limit: 10, ..Default::default() };
    let rows = store.runs(make.tenant(), filter).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [run]);
    assert_eq!(store.status(make.tenant()).await.unwrap().runs, [("paused".to_owned(), 1)]);
}

async fn a_run_in_an_unknown_state_is_not_aborted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let waiting = queue(store, make.accept(&make.key("waiting"))).await;
    let running = start(store, owner, make.accept(&make.key("running"))).await.run;
    for run in [waiting, running] {
        pause(store, run).await;
        let before = store.snapshot(make.tenant()).await;
        let outcome = store.abort(&make.principal(), run, make.now()).await.unwrap();
        assert_eq!(outcome, AbortOutcome::AlreadyEnded(paused()));
        before.assert_same(&store.snapshot(make.tenant()).await);
    }
}

async fn a_run_in_an_unknown_state_is_not_claimed(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let run = queue(store, make.accept(&key)).await;
    pause(store, run).await;
    assert_eq!(store.claim(&key, &owner, HOUR, make.now()).await.unwrap(), Claim::Nothing);
    assert_eq!(state(store, &make, run).await, paused());
    // The session is not stuck because of it.
    let accept = Accept { owner, claim: true, ..make.accept(&key) };
    let accepted = store.accept(accept).await.unwrap();
    assert!(matches!(accepted.admission, Admission::Claimed(_)), "{accepted:?}");
    assert_eq!(state(store, &make, run).await, paused());
}

async fn a_run_in_an_unknown_state_is_not_recovered(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let keys = [make.key("caller"), make.key("channel")];
    let caller = start(store, owner, make.accept(&keys[0])).await.run;
    let channel = start(store, owner, make.accept_from_channel(&keys[1])).await;
    store.step(&channel, make.intent(vec![make.user("question")])).await.unwrap();
    for run in [caller, channel.run] {
        pause(store, run).await;
    }
    let before = store.snapshot(make.tenant()).await.library;
    let owner = store.enlist(owner.instance, make.now()).await.unwrap();
    let recovered = store.recover(&owner, make.now()).await.unwrap();
    assert_eq!(store.snapshot(make.tenant()).await.library, before);
    assert_eq!(recovered, Recovered::default(), "whoever schedules is only told of runs that were settled");
}

async fn a_run_with_an_unknown_reply_target_is_tried_again(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    store.execute("UPDATE runs SET reply_json = '{\"to\": \"pigeon\"}'").await;
    let owner = store.enlist(owner.instance, make.now()).await.unwrap();
    let recovered = store.recover(&owner, make.now()).await.unwrap();
    let states: Vec<_> = recovered.runs.iter().map(|run| (run.run, run.state.clone())).collect();
    assert_eq!(states, [(lease.run, RunState::Queued)], "somebody waits for it, whoever that is");
}

async fn a_run_in_an_unknown_state_keeps_its_session_from_deletion(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    converse(store, &make, &key, owner).await;
    let run = queue(store, make.accept(&key)).await;
    pause(store, run).await;
    let before = store.snapshot(make.tenant()).await;
    // This release cannot know that it has ended.
    let error = store.delete_session(&make.principal(), &key, make.now()).await.unwrap_err();
    assert_eq!(error, StoreError::SessionBusy);
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn a_tool_in_an_unknown_state_is_not_interrupted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    let intent = make.intent(vec![make.user("question")]);
    store.step(&lease, intent.clone()).await.unwrap();
    store.execute("UPDATE tool_runs SET status = 'detached'").await;
    let before = store.snapshot(make.tenant()).await;
    let outcome = make.outcome(&intent, &ToolRunState::Succeeded, vec![make.user("result")]);
    store.step(&lease, outcome).await.unwrap_err();
    before.assert_same(&store.snapshot(make.tenant()).await);
    let owner = store.enlist(owner.instance, make.now()).await.unwrap();
    store.recover(&owner, make.now()).await.unwrap();
    let tools = store.tool_runs(make.tenant(), lease.run).await.unwrap();
    assert_eq!(tools[0].state, ToolRunState::Unknown("detached".to_owned()));
}

async fn a_part_in_an_unknown_state_is_neither_sent_nor_dropped(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    let parts = vec![make.part("a", "1"), make.part("a", "2"), make.part("a", "3")];
    let held = parts[1].id;
    store.finish(&lease, Finish { parts, ..make.completed() }).await.unwrap();
    store.execute(&format!("UPDATE outbox SET state = 'held' WHERE id = '{held}'")).await;
    let sending = next_send(store, make.tenant(), &owner, make.now()).await.unwrap().unwrap();
    let outcome = SendOutcome::Rejected { reason: "not allowed".to_owned() };
    store.settle_send(&sending, outcome, make.now()).await.unwrap();
    let other = OutboxState::Other("held".to_owned());
    assert_eq!(
        outbox_states(store, &make, lease.run).await,
        [OutboxState::Dead, other, OutboxState::Dropped]
    );
    assert_eq!(next_send(store, make.tenant(), &owner, make.now()).await.unwrap(), None);
}
