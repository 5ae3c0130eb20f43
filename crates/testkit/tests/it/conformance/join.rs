//! Messages that join the run under way: in order, once, and only those that want to.

use tidegate_protocol::{EntryId, Id as _, JoinMode, ReplyTarget, RunId, RunState};
use tidegate_storage::{
    Absorb, Absorbed, Accept, BudgetFilter, Lease, OutboxState, RunRow, SessionChoice, StoreError,
};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{
    audit_of, claim, converse, enlist, everything, log, outbox_states, queue, restart, run, start, state,
    waiting_row,
};

on_both_backends! {
    messages_that_steer_join_the_run_in_order,
    the_first_message_that_does_not_fit_stops_the_joining,
    at_the_end_both_kinds_join,
    what_a_joined_run_reserved_is_given_back,
    a_run_without_room_in_its_budget_does_not_join,
    a_message_for_another_log_does_not_join,
    a_caller_of_another_process_is_not_taken_in,
    a_joined_run_has_ended,
    what_joined_is_still_there_after_a_crash,
    nothing_joins_where_nothing_waits,
    what_was_said_before_a_message_is_sent_only_if_it_joined,
    an_answer_for_another_place_is_no_answer,
    whether_somebody_waits_can_be_asked_without_taking_them_in,
}

async fn what_was_said_before_a_message_is_sent_only_if_it_joined(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = under_way(store, &make).await;
    let wish =
        || Absorb { mode: JoinMode::FollowUp, parts: vec![make.part("slack:U1", "said")], now: make.now() };
    assert_eq!(store.absorb(&lease, wish()).await.unwrap(), []);
    assert!(outbox_states(store, &make, lease.run).await.is_empty());
    queue(store, joining(&make, &lease, Some(JoinMode::Steer))).await;
    assert_eq!(store.absorb(&lease, wish()).await.unwrap().len(), 1);
    assert_eq!(outbox_states(store, &make, lease.run).await, [OutboxState::Pending]);
}

async fn an_answer_for_another_place_is_no_answer(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    // Its answer goes into the log, and nobody on a network reads that.
    let mut accept = make.accept(&make.key("work"));
    accept.run.reply = ReplyTarget::Session;
    let lease = start(store, owner, accept).await;
    let from_network = queue(store, joining(&make, &lease, Some(JoinMode::Steer))).await;
    assert_eq!(absorb(store, &make, &lease, JoinMode::FollowUp).await, []);
    assert_eq!(state(store, &make, from_network).await, RunState::Queued);
}

async fn whether_somebody_waits_can_be_asked_without_taking_them_in(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = under_way(store, &make).await;
    assert!(!store.is_joined(&lease, JoinMode::FollowUp).await.unwrap());
    let run = queue(store, joining(&make, &lease, Some(JoinMode::Note))).await;
    for (mode, waits) in [(JoinMode::Steer, false), (JoinMode::Note, true), (JoinMode::FollowUp, true)] {
        assert_eq!(store.is_joined(&lease, mode).await.unwrap(), waits, "{mode:?}");
    }
    assert_eq!(state(store, &make, run).await, RunState::Queued);
}

fn joining(make: &Requests, lease: &Lease, join: Option<JoinMode>) -> Accept {
    let mut accept = make.accept_from_channel(&lease.key);
    accept.run.join = join;
    accept
}

/// A run under way that wrote its question.
async fn under_way(store: &ScratchStore, make: &Requests) -> Lease {
    let owner = enlist(store, make).await;
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    store.step(&lease, make.intent(vec![make.user("question")])).await.unwrap();
    lease
}

async fn absorb(store: &ScratchStore, make: &Requests, lease: &Lease, mode: JoinMode) -> Vec<RunId> {
    let absorbed = store.absorb(lease, Absorb::quietly(mode, make.now())).await.unwrap();
    absorbed.into_iter().map(|joined| joined.run).collect()
}

async fn messages_that_steer_join_the_run_in_order(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = under_way(store, &make).await;
    let accepts = [(); 3].map(|()| joining(&make, &lease, Some(JoinMode::Steer)));
    for accept in &accepts {
        queue(store, accept.clone()).await;
    }
    let now = make.now();
    let absorbed = store.absorb(&lease, Absorb::quietly(JoinMode::Steer, now)).await.unwrap();
    let expected = accepts.clone().map(|accept| Absorbed { run: accept.run.id, input: accept.run.input });
    assert_eq!(absorbed, expected);
    let lines = log(store, &lease).await;
    assert_eq!(lines.len(), 4);
    for (line, accept) in lines[1..].iter().zip(&accepts) {
        assert_eq!(line.body.message(), Some(&accept.run.input));
        // The line is of the run that took it in, and has the joined one's id.
        assert_eq!((line.run_id, line.created_at), (lease.run, now));
        assert_eq!(line.id.uuid(), accept.run.id.uuid());
        let row = RunRow {
            state: RunState::Joined,
            joined: Some(lease.run),
            finished_at: Some(now),
            ..waiting_row(accept)
        };
        assert_eq!(run(store, &make, accept.run.id).await, row);
        let audit = audit_of(store, &make, &accept.run.id.to_string()).await;
        assert_eq!(audit.iter().map(|row| row.action.as_str()).collect::<Vec<_>>(), ["agent.run.joined"]);
    }
    assert_eq!(run(store, &make, lease.run).await.entries, Some((1, 4)));
    assert_eq!(absorb(store, &make, &lease, JoinMode::FollowUp).await, []);
    let finished = store.finish(&lease, make.completed()).await.unwrap();
    assert!(!finished.more);
}

async fn the_first_message_that_does_not_fit_stops_the_joining(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = under_way(store, &make).await;
    let mut runs = Vec::new();
    for join in [Some(JoinMode::Steer), Some(JoinMode::FollowUp), Some(JoinMode::Steer), None] {
        runs.push(queue(store, joining(&make, &lease, join)).await);
    }
    assert_eq!(absorb(store, &make, &lease, JoinMode::Steer).await, [runs[0]]);
    assert_eq!(absorb(store, &make, &lease, JoinMode::Steer).await, []);
    assert_eq!(absorb(store, &make, &lease, JoinMode::FollowUp).await, [runs[1], runs[2]]);
    // What did not join simply runs next.
    assert!(store.finish(&lease, make.completed()).await.unwrap().more);
    assert_eq!(claim(store, &make, &lease.key, lease.owner).await.run, runs[3]);
}

async fn at_the_end_both_kinds_join(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = under_way(store, &make).await;
    let follow_up = queue(store, joining(&make, &lease, Some(JoinMode::FollowUp))).await;
    let steer = queue(store, joining(&make, &lease, Some(JoinMode::Steer))).await;
    assert_eq!(absorb(store, &make, &lease, JoinMode::FollowUp).await, [follow_up, steer]);
}

async fn what_a_joined_run_reserved_is_given_back(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = under_way(store, &make).await;
    for _ in 0..2 {
        let reservation = Some(make.reservation(30, 100));
        queue(store, Accept { reservation, ..joining(&make, &lease, Some(JoinMode::Steer)) }).await;
    }
    let reserved = async || {
        let filter = BudgetFilter { limit: ALL, ..BudgetFilter::default() };
        let rows = store.budgets(make.tenant(), filter).await.unwrap();
        rows.iter().map(|row| (row.used.tokens_reserved, row.used.tokens_spent)).collect::<Vec<_>>()
    };
    assert_eq!(reserved().await, [(60, 0), (60, 0)]);
    assert_eq!(absorb(store, &make, &lease, JoinMode::Steer).await.len(), 2);
    assert_eq!(reserved().await, [(0, 0), (0, 0)]);
}

async fn a_run_without_room_in_its_budget_does_not_join(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = under_way(store, &make).await;
    let reservation = Some(make.reservation(300, 100));
    let refused = queue(store, Accept { reservation, ..joining(&make, &lease, Some(JoinMode::Steer)) }).await;
    assert_eq!(absorb(store, &make, &lease, JoinMode::FollowUp).await, []);
    store.finish(&lease, make.completed()).await.unwrap();
    let next = claim(store, &make, &lease.key, lease.owner).await;
    assert_eq!((next.run, next.refusal.is_some()), (refused, true));
}

async fn a_message_for_another_log_does_not_join(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = under_way(store, &make).await;
    let written = store.session_by_name(make.tenant(), &lease.session.to_string()).await.unwrap().unwrap();
    let choices = [
        SessionChoice::Since(written.updated_at),
        SessionChoice::Since(written.updated_at + 1),
        SessionChoice::Fresh,
    ];
    let mut runs = Vec::new();
    for session in choices {
        let accept = Accept { session, ..joining(&make, &lease, Some(JoinMode::Steer)) };
        runs.push(queue(store, accept).await);
    }
    assert_eq!(absorb(store, &make, &lease, JoinMode::Steer).await, [runs[0]]);
    store.abort(&make.principal(), runs[1], make.now()).await.unwrap();
    assert_eq!(absorb(store, &make, &lease, JoinMode::Steer).await, []);
}

async fn a_caller_of_another_process_is_not_taken_in(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = under_way(store, &make).await;
    let other = enlist(store, &make).await;
    let caller = |owner| {
        let mut accept = joining(&make, &lease, Some(JoinMode::Steer));
        accept.run.reply = ReplyTarget::Caller;
        Accept { owner, ..accept }
    };
    let own = queue(store, caller(lease.owner)).await;
    let foreign = queue(store, caller(other)).await;
    assert_eq!(absorb(store, &make, &lease, JoinMode::Steer).await, [own]);
    assert_eq!(state(store, &make, foreign).await, RunState::Queued);
}

async fn a_joined_run_has_ended(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = under_way(store, &make).await;
    let joined = queue(store, joining(&make, &lease, Some(JoinMode::Steer))).await;
    absorb(store, &make, &lease, JoinMode::Steer).await;
    let aborted = store.abort(&make.principal(), joined, make.now()).await.unwrap();
    assert_eq!(aborted, tidegate_storage::AbortOutcome::AlreadyEnded(RunState::Joined));
    store.finish(&lease, make.completed()).await.unwrap();
    // Nothing of it keeps its session or its message.
    let swept = store.sweep(make.tenant(), everything(make.now() + 1)).await.unwrap();
    assert_eq!(swept.inbox, 2);
    store.delete_session(&make.principal(), &lease.key, make.now()).await.unwrap();
    converse(store, &make, &lease.key, lease.owner).await;
}

async fn what_joined_is_still_there_after_a_crash(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = under_way(store, &make).await;
    let joined = queue(store, joining(&make, &lease, Some(JoinMode::Steer))).await;
    absorb(store, &make, &lease, JoinMode::Steer).await;
    let (owner, recovered) = restart(store, &make, lease.owner).await;
    assert_eq!(recovered.runs.iter().map(|run| run.run).collect::<Vec<_>>(), [lease.run]);
    let again = claim(store, &make, &lease.key, owner).await;
    assert_eq!(again.run, lease.run);
    let ids: Vec<EntryId> = log(store, &again).await.iter().map(|line| line.id).collect();
    assert_eq!(ids.iter().filter(|id| id.uuid() == joined.uuid()).count(), 1);
    assert_eq!(absorb(store, &make, &again, JoinMode::FollowUp).await, []);
    assert_eq!(state(store, &make, joined).await, RunState::Joined);
}

async fn nothing_joins_where_nothing_waits(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    assert_eq!(absorb(store, &make, &lease, JoinMode::FollowUp).await, []);
    assert_eq!(log(store, &lease).await, []);
    store.finish(&lease, make.completed()).await.unwrap();
    let stale = store.absorb(&lease, Absorb::quietly(JoinMode::Steer, make.now())).await.unwrap_err();
    assert_eq!(stale, StoreError::StaleFence);
}
