//! Runs that start runs: they end together, and what came of one becomes a message to the other.

use tidegate_protocol::{ErrorBody, ErrorCode, ReplyTarget, RunId, RunState};
use tidegate_storage::{
    AbortOutcome, Accept, Accepted, Admission, BudgetFilter, Ending, Finish, Lease, RunFilter, StoreError,
};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{audit_of, claim, converse, enlist, queue, restart, run, start, state};

on_both_backends! {
    a_run_ends_with_the_one_that_started_it,
    what_a_run_started_ends_in_the_commit_that_ends_it,
    descendants_are_found_through_one_that_ended,
    what_descendants_reserved_is_settled_with_them,
    a_question_of_a_descendant_is_cancelled_with_it,
    a_run_that_has_ended_starts_nothing,
    what_a_run_started_can_be_listed,
    what_a_conversation_started_is_counted_however_much_else_there_is,
    a_run_that_announces_is_tried_again_after_a_crash,
    an_end_tells_another_conversation_in_its_own_commit,
    an_announcement_keeps_its_place_behind_what_waits,
    an_announcement_that_was_made_before_is_not_made_again,
    an_announcement_begins_a_key_that_was_deleted,
    an_announcement_reserves_like_any_request,
    an_announcement_elsewhere_fails_the_end_whole,
    a_run_may_announce_to_its_own_conversation,
}

fn child(make: &Requests, name: &str, parent: RunId) -> Accept {
    let mut accept = make.accept_from_channel(&make.key(name));
    accept.run.parent = Some(parent);
    accept
}

/// A run, one that it started and that is under way, one that this one started and that waits.
async fn family(store: &ScratchStore, make: &Requests) -> (Lease, Lease, RunId) {
    let owner = enlist(store, make).await;
    let parent = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    let under_way = start(store, owner, child(make, "child", parent.run)).await;
    store.step(&under_way, make.intent(vec![make.user("work")])).await.unwrap();
    let waiting = queue(store, child(make, "grandchild", under_way.run)).await;
    (parent, under_way, waiting)
}

async fn a_run_ends_with_the_one_that_started_it(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (parent, under_way, waiting) = family(store, &make).await;
    let bystander = start(store, parent.owner, make.accept(&make.key("bystander"))).await;
    let mut found = store.descendants(make.tenant(), parent.run).await.unwrap();
    found.sort();
    let mut expected = [under_way.run, waiting];
    expected.sort();
    assert_eq!(found, expected);
    let now = make.now();
    let aborted = store.abort(&make.principal(), parent.run, now).await.unwrap();
    assert_eq!(aborted, AbortOutcome::Aborted);
    for id in [parent.run, under_way.run, waiting] {
        let row = run(store, &make, id).await;
        assert_eq!((row.state, row.finished_at), (RunState::Aborted, Some(now)));
        let audit = audit_of(store, &make, &id.to_string()).await;
        assert_eq!(audit.iter().map(|row| row.action.as_str()).collect::<Vec<_>>(), ["agent.run.aborted"]);
    }
    let tools = store.tool_runs(make.tenant(), under_way.run).await.unwrap();
    assert_eq!(tools[0].state.as_str(), "interrupted");
    assert_eq!(store.finish(&under_way, make.completed()).await, Err(StoreError::StaleFence));
    assert_eq!(store.descendants(make.tenant(), parent.run).await.unwrap(), []);
    // Nobody else is touched, and the sessions go on.
    store.finish(&bystander, make.completed()).await.unwrap();
    for name in ["work", "child", "grandchild"] {
        converse(store, &make, &make.key(name), parent.owner).await;
    }
}

async fn what_a_run_started_ends_in_the_commit_that_ends_it(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let error = |code| ErrorBody::new(code, "over");
    for (ending, ends) in [
        (Ending::Aborted(error(ErrorCode::Aborted)), true),
        (Ending::Failed(error(ErrorCode::DeadlineExceeded)), true),
        (Ending::Failed(error(ErrorCode::ModelUnavailable)), false),
        (make.completed().ending, false),
    ] {
        let (parent, under_way, waiting) = family(store, &make).await;
        let finish = Finish::bare(ending.clone(), make.principal(), make.now());
        store.finish(&parent, finish).await.unwrap();
        let (begun, queued) =
            if ends { (RunState::Aborted, RunState::Aborted) } else { (RunState::Running, RunState::Queued) };
        assert_eq!(state(store, &make, under_way.run).await, begun, "{ending:?}");
        assert_eq!(state(store, &make, waiting).await, queued, "{ending:?}");
        store.abort(&make.principal(), under_way.run, make.now()).await.unwrap();
    }
}

async fn descendants_are_found_through_one_that_ended(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (parent, under_way, waiting) = family(store, &make).await;
    store.finish(&under_way, make.completed()).await.unwrap();
    assert_eq!(store.descendants(make.tenant(), parent.run).await.unwrap(), [waiting]);
    store.abort(&make.principal(), parent.run, make.now()).await.unwrap();
    assert_eq!(state(store, &make, under_way.run).await, RunState::Completed);
    assert_eq!(state(store, &make, waiting).await, RunState::Aborted);
}

async fn what_descendants_reserved_is_settled_with_them(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let reservation = || Some(make.reservation(10, 100));
    let accept = Accept { reservation: reservation(), ..make.accept_from_channel(&make.key("work")) };
    let parent = start(store, owner, accept).await;
    let begun = Accept { reservation: reservation(), ..child(&make, "begun", parent.run) };
    let begun = start(store, owner, begun).await;
    queue(store, Accept { reservation: reservation(), ..child(&make, "waiting", begun.run) }).await;
    store.abort(&make.principal(), parent.run, make.now()).await.unwrap();
    let filter = BudgetFilter { limit: ALL, ..BudgetFilter::default() };
    for row in store.budgets(make.tenant(), filter).await.unwrap() {
        // Two had begun and count as spent, one had not.
        assert_eq!((row.used.tokens_reserved, row.used.tokens_spent), (0, 20));
    }
}

async fn a_question_of_a_descendant_is_cancelled_with_it(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (parent, under_way, _) = family(store, &make).await;
    let question = make.approval(Some(under_way.run));
    store.request_approval(question.clone()).await.unwrap();
    store.abort(&make.principal(), parent.run, make.now()).await.unwrap();
    let found = store.approval(make.tenant(), question.id).await.unwrap().unwrap();
    assert_eq!(found.state.as_str(), "cancelled");
}

async fn a_run_that_has_ended_starts_nothing(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (parent, ..) = family(store, &make).await;
    store.abort(&make.principal(), parent.run, make.now()).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    for ended in [parent.run, make.id()] {
        let late =
            Accept { idempotency: Some(make.idempotency("late", "late")), ..child(&make, "late", ended) };
        assert_eq!(store.accept(late).await, Err(StoreError::StaleFence));
        before.assert_same(&store.snapshot(make.tenant()).await);
    }
}

async fn what_a_run_started_can_be_listed(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (parent, under_way, waiting) = family(store, &make).await;
    let started = async |run: RunId| {
        let filter = RunFilter { parent: Some(run), limit: ALL, ..RunFilter::default() };
        let rows = store.runs(make.tenant(), filter).await.unwrap();
        rows.into_iter().map(|row| (row.id, row.parent)).collect::<Vec<_>>()
    };
    assert_eq!(started(parent.run).await, [(under_way.run, Some(parent.run))]);
    assert_eq!(started(under_way.run).await, [(waiting, Some(under_way.run))]);
    assert_eq!(started(waiting).await, []);
    assert_eq!(run(store, &make, parent.run).await.parent, None);
}

async fn a_run_that_announces_is_tried_again_after_a_crash(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut accept = make.accept(&make.key("child"));
    accept.run.reply = ReplyTarget::Announce {
        key: Box::new(make.key("work")),
        // The caller of the other conversation is not this run's.
        reply: Box::new(ReplyTarget::Caller),
        label: "look".to_owned(),
    };
    let lease = start(store, owner, accept.clone()).await;
    let queued = {
        let mut waiting = make.accept(&make.key("child"));
        waiting.run.reply = accept.run.reply.clone();
        queue(store, waiting).await
    };
    let (owner, _) = restart(store, &make, owner).await;
    assert_eq!(state(store, &make, lease.run).await, RunState::Queued);
    assert_eq!(state(store, &make, queued).await, RunState::Queued);
    let again = claim(store, &make, &lease.key, owner).await;
    assert_eq!((again.run, again.attempt), (lease.run, 2));
    assert_eq!(run(store, &make, lease.run).await.reply, accept.run.reply);
}

/// An end that tells the conversation `work`.
fn announcing(make: &Requests, announce: &Accept) -> Finish {
    Finish { announce: Some(Box::new(announce.clone())), ..make.completed() }
}

async fn an_end_tells_another_conversation_in_its_own_commit(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (parent, under_way, _) = family(store, &make).await;
    store.finish(&parent, make.completed()).await.unwrap();
    // It never claims, whatever it says.
    let told = Accept { claim: true, ..make.accept_from_channel(&parent.key) };
    let finished = store.finish(&under_way, announcing(&make, &told)).await.unwrap();
    let accepted = Accepted { run: told.run.id, admission: Admission::Queued { ahead: 0 } };
    assert_eq!(finished.announced, Some(accepted));
    let next = claim(store, &make, &parent.key, parent.owner).await;
    assert_eq!((next.run, next.session), (told.run.id, parent.session));
    assert_eq!(run(store, &make, told.run.id).await.input, told.run.input);
}

async fn an_announcement_keeps_its_place_behind_what_waits(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (parent, under_way, _) = family(store, &make).await;
    queue(store, make.accept(&parent.key)).await;
    let told = make.accept_from_channel(&parent.key);
    let finished = store.finish(&under_way, announcing(&make, &told)).await.unwrap();
    assert_eq!(finished.announced.unwrap().admission, Admission::Queued { ahead: 2 });
    assert!(!finished.more, "nothing waits in its own session");
}

async fn an_announcement_that_was_made_before_is_not_made_again(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (parent, under_way, _) = family(store, &make).await;
    let told = || Accept {
        idempotency: Some(make.idempotency("told", "told")),
        ..make.accept_from_channel(&parent.key)
    };
    let earlier = queue(store, told()).await;
    let finished = store.finish(&under_way, announcing(&make, &told())).await.unwrap();
    assert_eq!(finished.announced, Some(Accepted { run: earlier, admission: Admission::Replayed }));
    assert_eq!(state(store, &make, under_way.run).await, RunState::Completed);
}

async fn an_announcement_begins_a_key_that_was_deleted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (parent, under_way, _) = family(store, &make).await;
    store.finish(&parent, make.completed()).await.unwrap();
    store.delete_session(&make.principal(), &parent.key, make.now()).await.unwrap();
    let told = make.accept_from_channel(&parent.key);
    store.finish(&under_way, announcing(&make, &told)).await.unwrap();
    let next = claim(store, &make, &parent.key, parent.owner).await;
    assert_eq!((next.run, next.session), (told.run.id, told.new_session.id));
}

async fn an_announcement_reserves_like_any_request(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let accept = Accept {
        reservation: Some(make.reservation(50, 100)),
        ..make.accept_from_channel(&make.key("child"))
    };
    let lease = start(store, owner, accept).await;
    let told = Accept {
        reservation: Some(make.reservation(30, 100)),
        ..make.accept_from_channel(&make.key("work"))
    };
    let finish = Finish { calls: vec![make.call(60)], ..announcing(&make, &told) };
    store.finish(&lease, finish).await.unwrap();
    let filter = BudgetFilter { limit: ALL, ..BudgetFilter::default() };
    for row in store.budgets(make.tenant(), filter).await.unwrap() {
        assert_eq!((row.used.tokens_reserved, row.used.tokens_spent, row.rejected), (30, 60, 0));
    }
}

async fn an_announcement_elsewhere_fails_the_end_whole(store: &ScratchStore) {
    let (make, foreign) = (Requests::new("local", 1), Requests::new("elsewhere", 2));
    let (_, under_way, _) = family(store, &make).await;
    let before = store.snapshot(make.tenant()).await;
    let stolen = Accept { principal: foreign.principal(), ..make.accept(&make.key("work")) };
    let abroad = foreign.accept(&foreign.key("work"));
    for told in [stolen, abroad] {
        let error = store.finish(&under_way, announcing(&make, &told)).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
        before.assert_same(&store.snapshot(make.tenant()).await);
    }
}

async fn a_run_may_announce_to_its_own_conversation(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    let told = make.accept_from_channel(&lease.key);
    let finished = store.finish(&lease, announcing(&make, &told)).await.unwrap();
    assert!(finished.more);
    assert_eq!(claim(store, &make, &lease.key, owner).await.run, told.run.id);
}

async fn what_a_conversation_started_is_counted_however_much_else_there_is(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (parent, under_way, waiting) = family(store, &make).await;
    let counted = async |except: &str| store.started_by(&parent.key, &make.key(except)).await.unwrap();
    assert_eq!(counted("nothing").await, 1, "what its own runs started, and not what those did");
    queue(store, child(&make, "second", parent.run)).await;
    for number in 0..30 {
        queue(store, make.accept_from_channel(&make.key(&format!("other {number}")))).await;
        queue(store, child(&make, &format!("grandchild {number}"), waiting)).await;
    }
    assert_eq!(counted("nothing").await, 2);
    assert_eq!(counted("child").await, 1, "but for those in this one");
    // Whichever of its runs started it, also one that has ended.
    store.finish(&parent, make.completed()).await.unwrap();
    let next = start(store, parent.owner, make.accept_from_channel(&parent.key)).await;
    queue(store, child(&make, "third", next.run)).await;
    assert_eq!(counted("nothing").await, 3);
    store.finish(&under_way, make.completed()).await.unwrap();
    assert_eq!(counted("nothing").await, 2);
    assert_eq!(store.started_by(&make.key("nobody"), &parent.key).await.unwrap(), 0);
}
