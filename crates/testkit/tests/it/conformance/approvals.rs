//! Approvals: asked, answered once, used once, and put on record with every step.

use futures_util::future::join_all;
use tidegate_policy::approval::{Answer, Approval, ApprovalState, NewAllowRule, UseRefused};
use tidegate_protocol::{ApprovalId, RunId};
use tidegate_storage::{
    ApprovalFilter, DecideApproval, DecidedApproval, Digest, OwnCalls, StoreError, UsedApproval,
};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{audit_of, enlist, start};

on_both_backends! {
    connections = 8;
    a_question_is_kept_as_it_was_asked,
    a_question_begins_pending_whatever_it_was_given_as,
    a_question_of_a_run_that_ended_is_refused,
    the_first_answer_counts_and_the_second_is_told_about_it,
    a_no_is_kept_with_its_reason,
    an_answer_after_its_time_lets_the_question_expire,
    whoever_asked_may_not_approve_where_policy_says_so,
    a_yes_is_used_once_and_for_the_same_call_only,
    of_many_answers_at_once_one_wins,
    of_many_uses_at_once_one_is_granted,
    questions_are_listed_by_state_and_run_newest_first,
}

pub(super) async fn ask(store: &ScratchStore, make: &Requests, run: Option<RunId>) -> Approval {
    let asked = make.approval(run);
    store.request_approval(asked.clone()).await.unwrap();
    asked
}

pub(super) fn answer_of(make: &Requests, id: ApprovalId, answer: Answer) -> DecideApproval {
    DecideApproval { id, by: make.approver(), answer, own: OwnCalls::MayNotApprove, now: make.now() }
}

pub(super) async fn decide(
    store: &ScratchStore,
    make: &Requests,
    id: ApprovalId,
    answer: Answer,
) -> DecidedApproval {
    store.decide_approval(answer_of(make, id, answer)).await.unwrap()
}

pub(super) async fn approve(store: &ScratchStore, make: &Requests, id: ApprovalId) -> Approval {
    match decide(store, make, id, Answer::AllowOnce).await {
        DecidedApproval::Won(approval) => approval,
        other => panic!("nobody answered before, and yet: {other:?}"),
    }
}

pub(super) fn deny(reason: Option<&str>) -> Answer {
    Answer::Deny { reason: reason.map(str::to_owned) }
}

pub(super) async fn read(store: &ScratchStore, make: &Requests, id: ApprovalId) -> Approval {
    store.approval(make.tenant(), id).await.unwrap().expect("it was asked")
}

pub(super) async fn state_of(store: &ScratchStore, make: &Requests, id: ApprovalId) -> ApprovalState {
    read(store, make, id).await.state
}

/// What the audit trail says about something, the oldest first: who did what.
pub(super) async fn trail(store: &ScratchStore, make: &Requests, id: impl ToString) -> Vec<(String, String)> {
    let mut rows = audit_of(store, make, &id.to_string()).await;
    rows.reverse();
    rows.into_iter().map(|row| (row.actor, row.action)).collect()
}

pub(super) fn line(actor: &str, action: &str) -> (String, String) {
    (actor.to_owned(), action.to_owned())
}

pub(super) const ASKED: &str = "tool.approval.requested";

pub(super) const OWNER: &str = "local:owner";

pub(super) const APPROVER: &str = "slack:T1:U2";

async fn a_question_is_kept_as_it_was_asked(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let run = start(store, owner, make.accept(&make.key("work"))).await.run;
    let strange = Approval { call_id: "call\0\u{1}".to_owned(), ..make.approval(Some(run)) };
    store.request_approval(strange.clone()).await.unwrap();
    let asked = ask(store, &make, None).await;
    assert_eq!(read(store, &make, strange.id).await, strange);
    assert_eq!(read(store, &make, asked.id).await, asked);
    let rows = audit_of(store, &make, &strange.id.to_string()).await;
    let [row] = rows.as_slice() else { panic!("asked once: {rows:?}") };
    assert_eq!((row.actor.as_str(), row.action.as_str(), row.created_at), (OWNER, ASKED, strange.created_at));
    assert_eq!(row.resource_type, "approval");
    let expected = serde_json::json!({
        "tool": "write", "callId": strange.call_id, "sessionKey": strange.session,
        "digest": strange.digest.as_str(), "runId": run.to_string(),
    });
    assert_eq!(row.metadata, expected);
    // The same id cannot be asked twice.
    assert!(store.request_approval(asked.clone()).await.is_err());
    assert_eq!(store.approval(make.tenant(), make.id()).await.unwrap(), None);
}

async fn a_question_begins_pending_whatever_it_was_given_as(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let asked = make.approval(None);
    let given = Approval { state: ApprovalState::Approved, ..asked.clone() };
    store.request_approval(given).await.unwrap();
    assert_eq!(read(store, &make, asked.id).await, asked);
    let used = store.use_approval(make.tenant(), asked.id, &asked.digest, make.now()).await.unwrap();
    assert_eq!(used, UsedApproval::Refused(UseRefused::State(ApprovalState::Pending)));
    assert_eq!(trail(store, &make, asked.id).await, [line(OWNER, ASKED)]);
}

async fn a_question_of_a_run_that_ended_is_refused(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    store.finish(&lease, make.completed()).await.unwrap();
    let late = store.request_approval(make.approval(Some(lease.run))).await;
    assert_eq!(late, Err(StoreError::StaleFence));
    let nowhere = store.request_approval(make.approval(Some(make.id()))).await;
    assert!(matches!(nowhere, Err(StoreError::NotFound(_))), "{nowhere:?}");
    assert_eq!(store.tables(make.tenant()).await["approvals"].len(), 0);
}

async fn the_first_answer_counts_and_the_second_is_told_about_it(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let asked = ask(store, &make, None).await;
    let won = approve(store, &make, asked.id).await;
    assert_eq!(won.state, ApprovalState::Approved);
    assert_eq!(won.answered.as_ref().map(|answered| answered.by.as_str()), Some(APPROVER));
    assert_eq!(read(store, &make, asked.id).await, won);
    for late in [deny(Some("no")), Answer::AllowOnce] {
        assert_eq!(decide(store, &make, asked.id, late).await, DecidedApproval::Settled(won.clone()));
    }
    assert_eq!(read(store, &make, asked.id).await, won);
    let expected = [line(OWNER, ASKED), line(APPROVER, "tool.approval.approved")];
    assert_eq!(trail(store, &make, asked.id).await, expected);
    assert_eq!(decide(store, &make, make.id(), Answer::AllowOnce).await, DecidedApproval::NotFound);
}

async fn a_no_is_kept_with_its_reason(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let asked = ask(store, &make, None).await;
    let no = decide(store, &make, asked.id, deny(Some("not\0today"))).await;
    let stored = read(store, &make, asked.id).await;
    assert_eq!(no, DecidedApproval::Won(stored.clone()));
    assert_eq!(stored.state, ApprovalState::Denied);
    assert_eq!(stored.answered.unwrap().reason.as_deref(), Some("not\0today"));
    let used = store.use_approval(make.tenant(), asked.id, &asked.digest, make.now()).await.unwrap();
    assert_eq!(used, UsedApproval::Refused(UseRefused::State(ApprovalState::Denied)));
    let rows = audit_of(store, &make, &asked.id.to_string()).await;
    assert_eq!(rows[0].action, "tool.approval.denied");
    assert_eq!(rows[0].metadata["reason"], "not\0today");
}

async fn an_answer_after_its_time_lets_the_question_expire(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    for (late, answer) in [(0, Answer::AllowOnce), (1, deny(None))] {
        let asked = ask(store, &make, None).await;
        let now = asked.expires_at + late;
        let decide = DecideApproval { now, ..answer_of(&make, asked.id, answer) };
        let settled = store.decide_approval(decide).await.unwrap();
        let stored = read(store, &make, asked.id).await;
        assert_eq!(settled, DecidedApproval::Settled(stored.clone()));
        assert_eq!((stored.state, stored.answered), (ApprovalState::Expired, None));
        let expected = [line(OWNER, ASKED), line(OWNER, "tool.approval.expired")];
        assert_eq!(trail(store, &make, asked.id).await, expected);
    }
    let asked = ask(store, &make, None).await;
    let now = asked.expires_at - 1;
    let in_time = DecideApproval { now, ..answer_of(&make, asked.id, Answer::AllowOnce) };
    assert!(matches!(store.decide_approval(in_time).await.unwrap(), DecidedApproval::Won(_)));
}

async fn whoever_asked_may_not_approve_where_policy_says_so(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let asked = ask(store, &make, None).await;
    let own = DecideApproval { by: make.principal(), ..answer_of(&make, asked.id, Answer::AllowOnce) };
    let before = store.snapshot(make.tenant()).await;
    assert_eq!(store.decide_approval(own.clone()).await.unwrap(), DecidedApproval::Own);
    before.assert_same(&store.snapshot(make.tenant()).await);
    let no = DecideApproval { answer: deny(None), ..own.clone() };
    assert!(matches!(store.decide_approval(no).await.unwrap(), DecidedApproval::Won(_)));
    let other = ask(store, &make, None).await;
    let allowed = DecideApproval { id: other.id, own: OwnCalls::MayApprove, ..own };
    assert!(matches!(store.decide_approval(allowed).await.unwrap(), DecidedApproval::Won(_)));
}

pub(super) fn always(make: &Requests, asked: &Approval) -> NewAllowRule {
    NewAllowRule { id: make.id(), matches: asked.question.rule_for(None).unwrap() }
}

async fn a_yes_is_used_once_and_for_the_same_call_only(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let asked = ask(store, &make, None).await;
    let tenant = make.tenant();
    let use_it =
        async |digest: &Digest| store.use_approval(tenant, asked.id, digest, make.now()).await.unwrap();
    let refused = |state| UsedApproval::Refused(UseRefused::State(state));
    assert_eq!(use_it(&asked.digest).await, refused(ApprovalState::Pending));
    approve(store, &make, asked.id).await;
    let other = Digest::stored("another".to_owned());
    assert_eq!(use_it(&other).await, UsedApproval::Refused(UseRefused::OtherCall));
    let UsedApproval::Granted(grant) = use_it(&asked.digest).await else { panic!("it was approved") };
    assert_eq!((grant.approval(), grant.digest()), (asked.id, &asked.digest));
    for digest in [&asked.digest, &other] {
        assert_eq!(use_it(digest).await, refused(ApprovalState::Used));
    }
    let expected =
        [line(OWNER, ASKED), line(APPROVER, "tool.approval.approved"), line(OWNER, "tool.approval.used")];
    assert_eq!(trail(store, &make, asked.id).await, expected);
    let nowhere = store.use_approval(tenant, make.id(), &asked.digest, make.now()).await.unwrap();
    assert_eq!(nowhere, UsedApproval::NotFound);
}

async fn of_many_answers_at_once_one_wins(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    for _ in 0..8 {
        let asked = ask(store, &make, None).await;
        let answers = (0..8).map(|number| {
            let answer = match number % 3 {
                0 => Answer::AllowOnce,
                1 => Answer::AllowAlways(always(&make, &asked)),
                _ => deny(None),
            };
            store.decide_approval(answer_of(&make, asked.id, answer))
        });
        let decided: Vec<_> = join_all(answers).await.into_iter().map(Result::unwrap).collect();
        let won: Vec<_> = decided
            .iter()
            .filter_map(|decided| match decided {
                DecidedApproval::Won(approval) => Some(approval),
                _ => None,
            })
            .collect();
        let [won] = won.as_slice() else { panic!("one wins: {decided:?}") };
        let stored = read(store, &make, asked.id).await;
        assert_eq!(**won, stored);
        let told = decided.iter().filter(|told| **told == DecidedApproval::Settled(stored.clone()));
        assert_eq!(told.count(), 7);
        assert_eq!(trail(store, &make, asked.id).await.len(), 2);
        let rules = store.allow_rules(make.tenant(), None).await.unwrap();
        let saved = rules.iter().filter(|rule| rule.approval == Some(asked.id)).count();
        assert_eq!(saved, usize::from(stored.answered.unwrap().rule.is_some()));
    }
}

async fn of_many_uses_at_once_one_is_granted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    for _ in 0..8 {
        let asked = ask(store, &make, None).await;
        approve(store, &make, asked.id).await;
        let uses = (0..8).map(|_| store.use_approval(make.tenant(), asked.id, &asked.digest, make.now()));
        let used: Vec<_> = join_all(uses).await.into_iter().map(Result::unwrap).collect();
        let granted = used.iter().filter(|used| matches!(used, UsedApproval::Granted(_))).count();
        let refused = UsedApproval::Refused(UseRefused::State(ApprovalState::Used));
        let refused = used.iter().filter(|used| **used == refused).count();
        assert_eq!((granted, refused), (1, 7), "{used:?}");
    }
}

async fn questions_are_listed_by_state_and_run_newest_first(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let run = start(store, owner, make.accept(&make.key("work"))).await.run;
    let [first, second, third] =
        [ask(store, &make, None).await, ask(store, &make, Some(run)).await, ask(store, &make, None).await];
    approve(store, &make, first.id).await;
    let listed = async |states: &[ApprovalState], run, limit| -> Vec<ApprovalId> {
        let filter = ApprovalFilter { states: states.to_vec(), run, limit };
        let rows = store.approvals(make.tenant(), filter).await.unwrap();
        rows.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(listed(&[], None, 9).await, [third.id, second.id, first.id]);
    assert_eq!(listed(&[], None, 2).await, [third.id, second.id]);
    assert_eq!(listed(&[ApprovalState::Pending], None, 9).await, [third.id, second.id]);
    assert_eq!(listed(&[ApprovalState::Approved], None, 9).await, [first.id]);
    let both = [ApprovalState::Approved, ApprovalState::Pending];
    assert_eq!(listed(&both, None, 9).await.len(), 3);
    assert_eq!(listed(&[], Some(run), 9).await, [second.id]);
    assert_eq!(listed(&[ApprovalState::Approved], Some(run), 9).await, []);
}
