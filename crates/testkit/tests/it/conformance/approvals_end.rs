//! How approvals end without an answer, and what outlives a restart, a sweep and an upgrade.

use std::collections::BTreeSet;

use tidegate_policy::Principal;
use tidegate_policy::approval::{Answer, Approval, ApprovalState, GRACE_MS, UseRefused};
use tidegate_protocol::{ApprovalId, RunState};
use tidegate_storage::{
    ApprovalFilter, Cancelled, DecideApproval, DecidedApproval, StoreError, Sweep, UsedApproval,
};
use tidegate_testkit::requests::{ASKED_FOR_MS, Requests};
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::{ScratchStore, with_place};

use super::approvals::{ASKED, OWNER, answer_of, approve, ask, decide, deny, line, read, state_of, trail};
use crate::scene::{HOUR, claim, enlist, everything, queue, restart, start, state};

on_both_backends! {
    connections = 8;
    a_yes_that_nobody_used_in_time_expires,
    what_is_open_expires_by_the_clock_the_oldest_first,
    one_question_is_cancelled_or_all_of_a_run,
    the_end_of_a_run_cancels_what_it_waited_for,
    a_run_that_goes_on_after_a_restart_keeps_its_question,
    a_restart_keeps_everything,
    a_question_and_the_end_of_its_run_do_not_miss_each_other,
    states_of_a_newer_release_are_shown_and_left_alone,
    settled_approvals_are_swept_and_open_ones_stay,
    deleting_a_session_removes_its_settled_questions,
    a_reader_reads_approvals_and_writes_none,
    data_without_approvals_is_read_as_empty_and_upgraded,
}

async fn a_yes_that_nobody_used_in_time_expires(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let [late, last] = [ask(store, &make, None).await, ask(store, &make, None).await];
    for asked in [&late, &last] {
        approve(store, &make, asked.id).await;
    }
    let use_at = async |asked: &Approval, now| {
        store.use_approval(make.tenant(), asked.id, &asked.digest, now).await.unwrap()
    };
    let expired = UsedApproval::Refused(UseRefused::State(ApprovalState::Expired));
    assert_eq!(use_at(&late, late.expires_at + GRACE_MS).await, expired);
    assert_eq!(state_of(store, &make, late.id).await, ApprovalState::Expired);
    assert_eq!(trail(store, &make, late.id).await.len(), 3, "asked, approved, expired");
    let used = use_at(&last, last.expires_at + GRACE_MS - 1).await;
    assert!(matches!(used, UsedApproval::Granted(_)), "{used:?}");
}

async fn what_is_open_expires_by_the_clock_the_oldest_first(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let mut asked = Vec::new();
    for _ in 0..4 {
        asked.push(ask(store, &make, None).await);
    }
    let [yes, no, first, second] = asked.try_into().unwrap();
    approve(store, &make, yes.id).await;
    decide(store, &make, no.id, deny(None)).await;
    let expire = async |now, limit| -> Vec<ApprovalId> {
        let expired = store.expire_approvals(make.tenant(), now, limit).await.unwrap();
        for one in &expired {
            assert_eq!((&one.state, one.updated_at), (&ApprovalState::Expired, now));
            assert_eq!(&read(store, &make, one.id).await, one);
        }
        expired.iter().map(|one| one.id).collect()
    };
    assert_eq!(expire(first.expires_at - 1, 9).await, []);
    assert_eq!(expire(first.expires_at, 9).await, [first.id]);
    assert_eq!(expire(yes.expires_at + GRACE_MS - 1, 9).await, [second.id]);
    assert_eq!(expire(yes.expires_at + GRACE_MS, 9).await, [yes.id]);
    assert_eq!(expire(i64::MAX, 9).await, []);
    assert_eq!(state_of(store, &make, no.id).await, ApprovalState::Denied);
    let [one, two] = [ask(store, &make, None).await, ask(store, &make, None).await];
    assert_eq!(expire(two.expires_at, 1).await, [one.id]);
    assert_eq!(expire(two.expires_at, 1).await, [two.id]);
    let expected = [line(OWNER, ASKED), line(OWNER, "tool.approval.expired")];
    assert_eq!(trail(store, &make, two.id).await, expected);
}

async fn one_question_is_cancelled_or_all_of_a_run(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let run = start(store, owner, make.accept(&make.key("work"))).await.run;
    let other = start(store, owner, make.accept(&make.key("other"))).await.run;
    let [one, yes, no] = [
        ask(store, &make, Some(run)).await,
        ask(store, &make, Some(run)).await,
        ask(store, &make, Some(run)).await,
    ];
    let [alone, elsewhere] = [ask(store, &make, None).await, ask(store, &make, Some(other)).await];
    approve(store, &make, yes.id).await;
    decide(store, &make, no.id, deny(None)).await;
    let cancel = async |which| -> BTreeSet<ApprovalId> {
        let cancelled = store.cancel_approvals(make.tenant(), which, make.now()).await.unwrap();
        for one in &cancelled {
            assert_eq!(one.state, ApprovalState::Cancelled);
            assert_eq!(&read(store, &make, one.id).await, one);
        }
        cancelled.iter().map(|one| one.id).collect()
    };
    assert_eq!(cancel(Cancelled::OfRun(run)).await, BTreeSet::from([one.id, yes.id]));
    assert_eq!(cancel(Cancelled::OfRun(run)).await, BTreeSet::new());
    assert_eq!(cancel(Cancelled::One(no.id)).await, BTreeSet::new());
    assert_eq!(cancel(Cancelled::One(make.id())).await, BTreeSet::new());
    assert_eq!(cancel(Cancelled::One(alone.id)).await, BTreeSet::from([alone.id]));
    assert_eq!(state_of(store, &make, elsewhere.id).await, ApprovalState::Pending);
    let gone = store.use_approval(make.tenant(), yes.id, &yes.digest, make.now()).await.unwrap();
    assert_eq!(gone, UsedApproval::Refused(UseRefused::State(ApprovalState::Cancelled)));
    let expected = [line(OWNER, ASKED), line(OWNER, "tool.approval.cancelled")];
    assert_eq!(trail(store, &make, one.id).await, expected);
}

async fn the_end_of_a_run_cancels_what_it_waited_for(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for (name, how) in ["finish", "fail", "abort", "release"].into_iter().zip(0..) {
        let lease = start(store, owner, make.accept(&make.key(name))).await;
        let [one, yes] = [ask(store, &make, Some(lease.run)).await, ask(store, &make, Some(lease.run)).await];
        approve(store, &make, yes.id).await;
        match how {
            0 => drop(store.finish(&lease, make.completed()).await.unwrap()),
            1 => drop(store.finish(&lease, make.failed()).await.unwrap()),
            2 => drop(store.abort(&make.principal(), lease.run, make.now()).await.unwrap()),
            _ => assert_eq!(store.release(&lease, make.now()).await.unwrap(), RunState::Interrupted),
        }
        for asked in [one, yes] {
            assert_eq!(state_of(store, &make, asked.id).await, ApprovalState::Cancelled, "{name}");
            let last = trail(store, &make, asked.id).await.pop();
            assert_eq!(last, Some(line(OWNER, "tool.approval.cancelled")), "{name}");
        }
    }
    // A waiting run too, and one whose caller is gone.
    let waiting = queue(store, make.accept(&make.key("waiting"))).await;
    let asked = ask(store, &make, Some(waiting)).await;
    let lease = start(store, owner, make.accept(&make.key("gone"))).await;
    let gone = ask(store, &make, Some(lease.run)).await;
    restart(store, &make, owner).await;
    for (run, asked) in [(waiting, asked), (lease.run, gone)] {
        assert_eq!(state(store, &make, run).await, RunState::Interrupted);
        assert_eq!(state_of(store, &make, asked.id).await, ApprovalState::Cancelled);
    }
}

async fn a_run_that_goes_on_after_a_restart_keeps_its_question(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let lease = start(store, owner, make.accept_from_channel(&key)).await;
    let [pending, yes] = [ask(store, &make, Some(lease.run)).await, ask(store, &make, Some(lease.run)).await];
    approve(store, &make, yes.id).await;
    let (owner, _) = restart(store, &make, owner).await;
    assert_eq!(state(store, &make, lease.run).await, RunState::Queued);
    assert_eq!(state_of(store, &make, pending.id).await, ApprovalState::Pending);
    let again = claim(store, &make, &key, owner).await;
    assert_eq!(again.run, lease.run);
    let used = store.use_approval(make.tenant(), yes.id, &yes.digest, make.now()).await.unwrap();
    assert!(matches!(used, UsedApproval::Granted(_)), "{used:?}");
    assert_eq!(store.release(&again, make.now()).await.unwrap(), RunState::Queued);
    approve(store, &make, pending.id).await;
}

async fn a_restart_keeps_everything(store: &mut ScratchStore) {
    let make = Requests::new("local", 1);
    let [pending, yes, used] =
        [ask(store, &make, None).await, ask(store, &make, None).await, ask(store, &make, None).await];
    for asked in [&yes, &used] {
        approve(store, &make, asked.id).await;
    }
    store.use_approval(make.tenant(), used.id, &used.digest, make.now()).await.unwrap();
    store.save_allow_rule(&make.principal(), make.allow_rule("/usr/bin/git")).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    store.close().await;
    store.open().await;
    before.assert_same(&store.snapshot(make.tenant()).await);
    approve(store, &make, pending.id).await;
    let granted = store.use_approval(make.tenant(), yes.id, &yes.digest, make.now()).await.unwrap();
    assert!(matches!(granted, UsedApproval::Granted(_)), "{granted:?}");
    let again = store.use_approval(make.tenant(), used.id, &used.digest, make.now()).await.unwrap();
    assert_eq!(again, UsedApproval::Refused(UseRefused::State(ApprovalState::Used)));
}

async fn a_question_and_the_end_of_its_run_do_not_miss_each_other(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for number in 0..16 {
        let lease = start(store, owner, make.accept(&make.key(&format!("s{number}")))).await;
        let asked = make.approval(Some(lease.run));
        let principal = make.principal();
        let (requested, aborted) = tokio::join!(
            store.request_approval(asked.clone()),
            store.abort(&principal, lease.run, make.now())
        );
        aborted.unwrap();
        match requested {
            Ok(()) => {
                assert_eq!(state_of(store, &make, asked.id).await, ApprovalState::Cancelled);
            }
            Err(error) => assert_eq!(error, StoreError::StaleFence),
        }
    }
}

async fn states_of_a_newer_release_are_shown_and_left_alone(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let asked = ask(store, &make, Some(lease.run)).await;
    store.execute(&format!("UPDATE approvals SET state = 'escalated' WHERE id = '{}'", asked.id)).await;
    let escalated = ApprovalState::Unknown("escalated".to_owned());
    let stored = Approval { state: escalated.clone(), ..asked.clone() };
    assert_eq!(read(store, &make, asked.id).await, stored);
    let filter = ApprovalFilter { states: vec![escalated.clone()], run: None, limit: 9 };
    assert_eq!(store.approvals(make.tenant(), filter).await.unwrap(), std::slice::from_ref(&stored));
    let settled = decide(store, &make, asked.id, Answer::AllowOnce).await;
    assert_eq!(settled, DecidedApproval::Settled(stored.clone()));
    let used = store.use_approval(make.tenant(), asked.id, &asked.digest, make.now()).await.unwrap();
    assert_eq!(used, UsedApproval::Refused(UseRefused::State(escalated)));
    for which in [Cancelled::One(asked.id), Cancelled::OfRun(lease.run)] {
        assert_eq!(store.cancel_approvals(make.tenant(), which, make.now()).await.unwrap(), []);
    }
    assert_eq!(store.expire_approvals(make.tenant(), i64::MAX, 9).await.unwrap(), []);
    store.finish(&lease, make.completed()).await.unwrap();
    store.sweep(make.tenant(), everything(make.now() + HOUR)).await.unwrap();
    assert_eq!(read(store, &make, asked.id).await, stored);
}

async fn settled_approvals_are_swept_and_open_ones_stay(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let mut asked = Vec::new();
    for _ in 0..6 {
        asked.push(ask(store, &make, None).await);
    }
    let [pending, yes, no, used, cancelled, expired] = asked.try_into().unwrap();
    for one in [&yes, &used] {
        approve(store, &make, one.id).await;
    }
    decide(store, &make, no.id, deny(None)).await;
    store.use_approval(make.tenant(), used.id, &used.digest, make.now()).await.unwrap();
    store.cancel_approvals(make.tenant(), Cancelled::One(cancelled.id), make.now()).await.unwrap();
    let late = DecideApproval { now: expired.expires_at, ..answer_of(&make, expired.id, Answer::AllowOnce) };
    store.decide_approval(late).await.unwrap();
    let sweep = async |settled_before, limit| {
        let sweep = Sweep { settled_before, limit, ..everything(0) };
        let swept = store.sweep(make.tenant(), sweep).await.unwrap();
        (swept.approvals, swept.more)
    };
    let settled = read(store, &make, no.id).await.updated_at;
    assert_eq!(sweep(settled, 9).await, (0, false));
    assert_eq!(sweep(settled + 1, 9).await, (1, false));
    assert_eq!(store.approval(make.tenant(), no.id).await.unwrap(), None);
    assert_eq!(sweep(i64::MAX, 2).await, (2, true));
    assert_eq!(sweep(i64::MAX, 2).await, (1, false));
    let filter = ApprovalFilter { limit: ALL, ..ApprovalFilter::default() };
    let left: Vec<_> =
        store.approvals(make.tenant(), filter).await.unwrap().into_iter().map(|one| one.id).collect();
    assert_eq!(left, [yes.id, pending.id]);
    assert_eq!(trail(store, &make, no.id).await.len(), 2, "the record stays");
}

async fn deleting_a_session_removes_its_settled_questions(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let asked = ask(store, &make, Some(lease.run)).await;
    let elsewhere = Approval { session: "cli".to_owned(), ..make.approval(None) };
    store.request_approval(elsewhere.clone()).await.unwrap();
    decide(store, &make, elsewhere.id, deny(None)).await;
    store.finish(&lease, make.completed()).await.unwrap();
    // Somebody waits for this one, without a run.
    let waiting = ask(store, &make, None).await;
    store.delete_session(&make.principal(), &make.key("work"), make.now()).await.unwrap();
    assert_eq!(store.approval(make.tenant(), asked.id).await.unwrap(), None);
    assert_eq!(state_of(store, &make, elsewhere.id).await, ApprovalState::Denied);
    assert_eq!(state_of(store, &make, waiting.id).await, ApprovalState::Pending);
}

async fn a_reader_reads_approvals_and_writes_none(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let asked = ask(store, &make, None).await;
    let rule = make.allow_rule("/usr/bin/git");
    store.save_allow_rule(&make.principal(), rule.clone()).await.unwrap();
    let reader = store.location().open_for_reading().await.unwrap();
    assert_eq!(reader.approval(make.tenant(), asked.id).await.unwrap(), Some(asked.clone()));
    assert_eq!(reader.allow_rules(make.tenant(), None).await.unwrap(), [rule]);
    let before = store.snapshot(make.tenant()).await;
    let read_only = |error: StoreError| assert!(matches!(error, StoreError::ReadOnly(_)), "{error:?}");
    read_only(reader.request_approval(make.approval(None)).await.unwrap_err());
    let yes = answer_of(&make, asked.id, Answer::AllowOnce);
    read_only(reader.decide_approval(yes).await.unwrap_err());
    let used = reader.use_approval(make.tenant(), asked.id, &asked.digest, make.now()).await;
    read_only(used.unwrap_err());
    before.assert_same(&store.snapshot(make.tenant()).await);
    reader.close().await;
}

async fn data_without_approvals_is_read_as_empty_and_upgraded(store: &mut ScratchStore) {
    with_place(store.backend(), async |store| {
        store.migrate_to(4).await;
        let make = Requests::new("local", 1);
        let reader = store.location().open_for_reading().await.unwrap();
        let filter = ApprovalFilter { limit: ALL, ..ApprovalFilter::default() };
        assert_eq!(reader.approvals(make.tenant(), filter).await.unwrap(), []);
        assert_eq!(reader.approval(make.tenant(), make.id()).await.unwrap(), None);
        assert_eq!(reader.allow_rules(make.tenant(), None).await.unwrap(), []);
        assert_eq!(reader.status(make.tenant()).await.unwrap().schema, 4);
        reader.close().await;
        store.open().await;
        let asked = ask(store, &make, None).await;
        approve(store, &make, asked.id).await;
        let rule = make.allow_rule("/usr/bin/git");
        store.save_allow_rule(&Principal::local_owner(make.tenant().clone()), rule).await.unwrap();
        let late = make.now() + ASKED_FOR_MS + GRACE_MS;
        assert_eq!(store.expire_approvals(make.tenant(), late, 9).await.unwrap().len(), 1);
    })
    .await;
}
