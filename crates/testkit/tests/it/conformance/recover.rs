//! Recovery: what a dead incarnation left behind is settled, and nothing else is touched.

use tidegate_protocol::{ErrorCode, RunState, ToolRunState};
use tidegate_storage::{Claim, Finish, OutboxState, Owner, Recovered, RunRow, SettledRun, StoreError};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, audit_of, claim, enlist, log, outbox_states, queue, run, start, state};

on_both_backends! {
    a_run_whose_caller_is_gone_ends_as_interrupted,
    any_other_run_waits_again_in_its_old_place,
    the_third_crash_of_a_run_ends_it_as_poison,
    tools_without_a_result_become_interrupted,
    a_send_without_an_answer_becomes_unknown_and_its_rest_is_dropped,
    runs_that_waited_go_on_waiting,
    what_others_hold_is_left_alone,
    all_tenants_are_recovered,
    a_second_recovery_finds_nothing,
}

/// The process dies and starts again.
async fn restart(store: &ScratchStore, make: &Requests, owner: Owner) -> (Owner, Recovered) {
    let owner = store.enlist(owner.instance, make.now()).await.unwrap();
    let recovered = store.recover(&owner, make.now()).await.unwrap();
    (owner, recovered)
}

async fn a_run_whose_caller_is_gone_ends_as_interrupted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    store.intend(&lease, make.intent(vec![make.user("question")])).await.unwrap();
    let before = run(store, &make, lease.run).await;
    let (owner, recovered) = restart(store, &make, owner).await;
    let settled = SettledRun { run: lease.run, key: lease.key.clone(), state: RunState::Interrupted };
    assert_eq!(recovered, Recovered { runs: vec![settled], unknown_sends: Vec::new() });
    let after = run(store, &make, lease.run).await;
    assert_eq!(after.error.as_ref().map(|error| error.code), Some(ErrorCode::Interrupted));
    assert!(after.finished_at.is_some());
    let expected = RunRow {
        state: RunState::Interrupted,
        error: after.error.clone(),
        finished_at: after.finished_at,
        ..before
    };
    assert_eq!(after, expected);
    assert_eq!(audit_of(store, &make, &lease.run.to_string()).await.len(), 1);
    let next = start(store, owner, make.accept(&lease.key)).await;
    assert!(next.fence.0 >= lease.fence.0 + 2, "recovery and claim each raise the fence");
}

async fn any_other_run_waits_again_in_its_old_place(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let lease = start(store, owner, make.accept_from_channel(&key)).await;
    store.intend(&lease, make.intent(vec![make.user("question")])).await.unwrap();
    let second = queue(store, make.accept_from_channel(&key)).await;
    let (owner, recovered) = restart(store, &make, owner).await;
    let settled = SettledRun { run: lease.run, key: key.clone(), state: RunState::Queued };
    assert_eq!(recovered, Recovered { runs: vec![settled], unknown_sends: Vec::new() });
    let row = run(store, &make, lease.run).await;
    assert_eq!((row.state, row.attempt, row.error, row.finished_at), (RunState::Queued, 1, None, None));
    assert_eq!(audit_of(store, &make, &lease.run.to_string()).await, []);

    let again = claim(store, &make, &key, owner).await;
    assert!(again.fence.0 >= lease.fence.0 + 2);
    assert_eq!((again.run, again.attempt, again.session), (lease.run, 2, lease.session));
    assert_eq!(store.context(&again, 10).await.unwrap(), log(store, &lease).await);
    store.finish(&again, make.completed()).await.unwrap();
    assert_eq!(claim(store, &make, &key, owner).await.run, second);
}

async fn the_third_crash_of_a_run_ends_it_as_poison(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let mut owner = enlist(store, &make).await;
    let key = make.key("work");
    let lease = start(store, owner, make.accept_from_channel(&key)).await;
    let waiting = queue(store, make.accept_from_channel(&key)).await;
    for attempt in 1..=3 {
        assert_eq!(run(store, &make, lease.run).await.attempt, attempt);
        let (next, recovered) = restart(store, &make, owner).await;
        owner = next;
        let expected = if attempt < 3 { RunState::Queued } else { RunState::Failed };
        let settled = SettledRun { run: lease.run, key: key.clone(), state: expected };
        assert_eq!(recovered.runs, [settled]);
        if attempt < 3 {
            let again = claim(store, &make, &key, owner).await;
            assert_eq!((again.run, again.attempt), (lease.run, attempt + 1));
        }
    }
    let row = run(store, &make, lease.run).await;
    assert_eq!((row.state, row.attempt), (RunState::Failed, 3));
    assert_eq!(row.error.map(|error| error.code), Some(ErrorCode::Poison));
    assert!(row.finished_at.is_some());
    let audit = audit_of(store, &make, &lease.run.to_string()).await;
    assert_eq!(audit.iter().map(|row| row.action.as_str()).collect::<Vec<_>>(), ["agent.run.failed"]);
    assert_eq!(audit[0].metadata["code"], "POISON");
    assert_eq!(claim(store, &make, &key, owner).await.run, waiting);
}

async fn tools_without_a_result_become_interrupted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for (name, channel) in [("caller", false), ("channel", true)] {
        let key = make.key(name);
        let accept = if channel { make.accept_from_channel(&key) } else { make.accept(&key) };
        let lease = start(store, owner, accept).await;
        let (done, open) = (make.intent(Vec::new()), make.intent(Vec::new()));
        store.intend(&lease, done.clone()).await.unwrap();
        let outcome = make.outcome(&done, ToolRunState::Failed, Vec::new());
        store.result(&lease, outcome, Some(open)).await.unwrap();
    }
    let (_, recovered) = restart(store, &make, owner).await;
    assert_eq!(recovered.runs.len(), 2);
    for settled in recovered.runs {
        let tools = store.tool_runs(make.tenant(), settled.run).await.unwrap();
        let states: Vec<_> = tools.iter().map(|tool| tool.state.clone()).collect();
        assert_eq!(states, [ToolRunState::Failed, ToolRunState::Interrupted]);
        assert_eq!(tools[1].result, None);
    }
}

async fn a_send_without_an_answer_becomes_unknown_and_its_rest_is_dropped(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let mut runs = Vec::new();
    for name in ["one", "two", "three"] {
        let lease = start(store, owner, make.accept_from_channel(&make.key(name))).await;
        let parts = vec![make.part(name, "1"), make.part(name, "2")];
        store.finish(&lease, Finish { parts, ..make.completed() }).await.unwrap();
        runs.push(lease.run);
    }
    let mine = store.claim_send(make.tenant(), &owner, make.now()).await.unwrap().unwrap();
    let theirs = store.claim_send(make.tenant(), &other, make.now()).await.unwrap().unwrap();
    let (_, recovered) = restart(store, &make, owner).await;
    assert_eq!(recovered, Recovered { runs: Vec::new(), unknown_sends: vec![mine.id] });
    assert_eq!(mine.run, runs[0]);
    assert_eq!(outbox_states(store, &make, runs[0]).await, [OutboxState::Unknown, OutboxState::Dropped]);
    assert_eq!(outbox_states(store, &make, runs[1]).await, [OutboxState::Sending, OutboxState::Pending]);
    assert_eq!(outbox_states(store, &make, runs[2]).await, [OutboxState::Pending, OutboxState::Pending]);
    let rows = store.outbox_of(make.tenant(), runs[0]).await.unwrap();
    assert!(rows[0].reason.is_some(), "the owner is told why nobody knows");
    // The dead incarnation's late answer changes nothing; the living one's does.
    let sent = |id: &str| tidegate_protocol::SendOutcome::Sent { id: id.to_owned() };
    assert_eq!(store.settle_send(&mine, sent("r1"), make.now()).await.unwrap_err(), StoreError::StaleFence);
    assert_eq!(outbox_states(store, &make, runs[0]).await, [OutboxState::Unknown, OutboxState::Dropped]);
    assert_eq!(store.settle_send(&theirs, sent("r2"), make.now()).await.unwrap(), OutboxState::Sent);
}

async fn runs_that_waited_go_on_waiting(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let waiting = [queue(store, make.accept(&key)).await, queue(store, make.accept_from_channel(&key)).await];
    let (owner, recovered) = restart(store, &make, owner).await;
    assert_eq!(recovered, Recovered::default());
    for expected in waiting {
        let lease = claim(store, &make, &key, owner).await;
        assert_eq!((lease.run, lease.attempt), (expected, 1));
        store.finish(&lease, make.completed()).await.unwrap();
    }
}

async fn what_others_hold_is_left_alone(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let lost = start(store, owner, make.accept(&make.key("mine"))).await;
    let theirs = start(store, other, make.accept(&make.key("theirs"))).await;
    let (owner, recovered) = restart(store, &make, owner).await;
    assert_eq!(recovered.runs.iter().map(|settled| settled.run).collect::<Vec<_>>(), [lost.run]);
    assert_eq!(state(store, &make, theirs.run).await, RunState::Running);
    // What the new incarnation holds itself is not its past.
    let mine = start(store, owner, make.accept(&make.key("mine"))).await;
    assert_eq!(store.recover(&owner, make.now()).await.unwrap(), Recovered::default());
    store.finish(&mine, make.completed()).await.unwrap();
    store.finish(&theirs, make.completed()).await.unwrap();
}

async fn all_tenants_are_recovered(store: &ScratchStore) {
    let (one, two) = (Requests::new("one", 1), Requests::new("two", 1));
    let owner = enlist(store, &one).await;
    let mut lost = Vec::new();
    for make in [&one, &two] {
        let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
        lost.push(SettledRun { run: lease.run, key: lease.key, state: RunState::Queued });
        let caller = start(store, owner, make.accept(&make.key("caller"))).await;
        lost.push(SettledRun { run: caller.run, key: caller.key, state: RunState::Interrupted });
    }
    let (owner, mut recovered) = restart(store, &one, owner).await;
    let order = |settled: &SettledRun| settled.key.to_string();
    lost.sort_by_key(order);
    recovered.runs.sort_by_key(order);
    assert_eq!(recovered.runs, lost);
    for make in [&one, &two] {
        let lease = claim(store, make, &make.key("work"), owner).await;
        assert_eq!(lease.attempt, 2);
    }
}

async fn a_second_recovery_finds_nothing(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lost = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    let (owner, _) = restart(store, &make, owner).await;
    let before = store.snapshot(make.tenant()).await;
    assert_eq!(store.recover(&owner, make.now()).await.unwrap(), Recovered::default());
    before.assert_same(&store.snapshot(make.tenant()).await);
    let claimed = store.claim(&lost.key, &owner, HOUR, make.now()).await.unwrap();
    assert!(matches!(claimed, Claim::Granted(_)), "{claimed:?}");
}
