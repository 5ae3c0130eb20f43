//! Recovery: what a dead incarnation left behind is settled, and nothing else is touched.

use tidegate_protocol::{ErrorCode, ReplyTarget, RunState, SessionKey, ToolRunState};
use tidegate_storage::{
    Accept, Claim, NewRun, OutboxState, POISON_CRASHES, Recovered, RunRow, Sending, SettledRun,
};
use tidegate_testkit::requests::{Requests, at_once};
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{
    HOUR, audit_of, claim, context, enlist, log, next_send, outbox_states, queue, reply, restart, run, send,
    start, state,
};

on_both_backends! {
    a_run_whose_caller_is_gone_ends_as_interrupted,
    any_other_run_waits_again_in_its_old_place,
    a_run_that_crashes_again_and_again_is_left_to_the_engine,
    tools_without_a_result_become_interrupted,
    a_send_without_an_answer_stays_for_whoever_claims_its_lane,
    runs_that_waited_go_on_waiting_unless_their_caller_is_gone,
    a_run_that_waits_for_a_living_caller_elsewhere_is_left_alone,
    a_waiting_run_of_a_release_without_owners_is_settled,
    what_others_hold_is_left_alone,
    all_tenants_are_recovered,
    a_second_recovery_finds_nothing,
}

async fn a_run_whose_caller_is_gone_ends_as_interrupted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    store.step(&lease, make.intent(vec![make.user("question")])).await.unwrap();
    let before = run(store, &make, lease.run).await;
    let (owner, recovered) = restart(store, &make, owner).await;
    let settled = SettledRun { run: lease.run, key: lease.key.clone(), state: RunState::Interrupted };
    assert_eq!(recovered, Recovered { runs: vec![settled] });
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
    store.step(&lease, make.intent(vec![make.user("question")])).await.unwrap();
    let second = queue(store, make.accept_from_channel(&key)).await;
    let (owner, recovered) = restart(store, &make, owner).await;
    let settled = SettledRun { run: lease.run, key: key.clone(), state: RunState::Queued };
    assert_eq!(recovered, Recovered { runs: vec![settled] });
    let row = run(store, &make, lease.run).await;
    assert_eq!((row.state, row.attempt, row.error, row.finished_at), (RunState::Queued, 1, None, None));
    assert_eq!(audit_of(store, &make, &lease.run.to_string()).await, []);

    let again = claim(store, &make, &key, owner).await;
    assert!(again.fence.0 >= lease.fence.0 + 2);
    assert_eq!((again.run, again.attempt, again.session), (lease.run, 2, lease.session));
    assert_eq!(context(store, &again, 10).await, log(store, &lease).await);
    store.finish(&again, make.completed()).await.unwrap();
    assert_eq!(claim(store, &make, &key, owner).await.run, second);
}

async fn a_run_that_crashes_again_and_again_is_left_to_the_engine(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let mut owner = enlist(store, &make).await;
    let key = make.key("work");
    let lease = start(store, owner, make.accept_from_channel(&key)).await;
    let waiting = queue(store, make.accept_from_channel(&key)).await;
    for attempt in 1..=POISON_CRASHES + 1 {
        assert_eq!(run(store, &make, lease.run).await.attempt, attempt);
        let (next, recovered) = restart(store, &make, owner).await;
        owner = next;
        let settled = SettledRun { run: lease.run, key: key.clone(), state: RunState::Queued };
        assert_eq!(recovered.runs, [settled]);
        let again = claim(store, &make, &key, owner).await;
        assert_eq!((again.run, again.attempt), (lease.run, attempt + 1));
    }
    assert_eq!(audit_of(store, &make, &lease.run.to_string()).await, []);
    assert_eq!(state(store, &make, waiting).await, RunState::Queued);
}

async fn tools_without_a_result_become_interrupted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for (name, channel) in [("caller", false), ("channel", true)] {
        let key = make.key(name);
        let accept = if channel { make.accept_from_channel(&key) } else { make.accept(&key) };
        let lease = start(store, owner, accept).await;
        let (done, open) = (make.intent(Vec::new()), make.intent(Vec::new()));
        store.step(&lease, done.clone()).await.unwrap();
        let outcome = make.outcome(&done, &ToolRunState::Failed, Vec::new());
        store.step(&lease, at_once(outcome, open)).await.unwrap();
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

async fn a_send_without_an_answer_stays_for_whoever_claims_its_lane(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let one = reply(store, &make, owner, "one", &[make.part("one", "1"), make.part("one", "2")]).await;
    let two = reply(store, &make, owner, "two", &[make.part("two", "1")]).await;
    let (mine, theirs) = (send(store, &make, owner).await, send(store, &make, other).await);
    assert_eq!((mine.run, theirs.run), (one, two));
    let before = store.snapshot(make.tenant()).await;
    let (owner, recovered) = restart(store, &make, owner).await;
    assert_eq!(recovered, Recovered::default());
    before.assert_same(&store.snapshot(make.tenant()).await);
    // Only what died is in doubt.
    let taken = send(store, &make, owner).await;
    assert_eq!(taken, Sending { owner, attempt: 2, doubtful: true, ..mine });
    assert_eq!(outbox_states(store, &make, one).await, [OutboxState::Sending, OutboxState::Pending]);
    assert_eq!(next_send(store, make.tenant(), &owner, make.now()).await.unwrap(), None);
}

async fn runs_that_waited_go_on_waiting_unless_their_caller_is_gone(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let gone = queue(store, make.accept(&key)).await;
    let channel = queue(store, make.accept_from_channel(&key)).await;
    let session = queue(store, Accept { run: read_by_session(&make, &key), ..make.accept(&key) }).await;
    let (owner, recovered) = restart(store, &make, owner).await;
    let settled = SettledRun { run: gone, key: key.clone(), state: RunState::Interrupted };
    assert_eq!(recovered.runs, [settled]);
    let row = run(store, &make, gone).await;
    assert_eq!((row.state, row.attempt), (RunState::Interrupted, 0));
    assert_eq!(row.error.map(|error| error.code), Some(ErrorCode::Interrupted));
    let audit = audit_of(store, &make, &gone.to_string()).await;
    assert_eq!(audit.iter().map(|row| row.action.as_str()).collect::<Vec<_>>(), ["agent.run.interrupted"]);
    for expected in [channel, session] {
        let lease = claim(store, &make, &key, owner).await;
        assert_eq!((lease.run, lease.attempt), (expected, 1));
        store.finish(&lease, make.completed()).await.unwrap();
    }
}

fn read_by_session(make: &Requests, key: &SessionKey) -> NewRun {
    NewRun { reply: ReplyTarget::Session, ..make.accept(key).run }
}

async fn a_run_that_waits_for_a_living_caller_elsewhere_is_left_alone(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let key = make.key("work");
    let waiting = queue(store, Accept { owner: other, ..make.accept(&key) }).await;
    let (_, recovered) = restart(store, &make, owner).await;
    assert_eq!(recovered, Recovered::default());
    assert_eq!(claim(store, &make, &key, other).await.run, waiting);
}

async fn a_waiting_run_of_a_release_without_owners_is_settled(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let (caller, channel) =
        (queue(store, make.accept(&key)).await, queue(store, make.accept_from_channel(&key)).await);
    store.execute("UPDATE runs SET owner_instance = NULL, owner_incarnation = NULL").await;
    let recovered = store.recover(&owner, make.now()).await.unwrap();
    assert_eq!(recovered.runs.iter().map(|settled| settled.run).collect::<Vec<_>>(), [caller]);
    assert_eq!(claim(store, &make, &key, owner).await.run, channel);
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
