//! Saved rules, and what tools did on record.

use tidegate_policy::approval::{
    AllowMatch, AllowRule, Answer, Approval, ApprovalState, CommandMatch, NewAllowRule,
};
use tidegate_storage::{
    ApprovalFilter, AuditEvent, Cancelled, DecidedApproval, StoreError, ToolRecord, UsedApproval,
};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::ScratchStore;

use super::approvals::{APPROVER, OWNER, always, approve, ask, decide, line, read, state_of, trail};
use crate::scene::audit_of;

on_both_backends! {
    connections = 8;
    a_yes_for_always_saves_its_rule_in_the_same_commit,
    a_rule_that_the_question_does_not_offer_is_not_saved,
    rules_are_saved_listed_touched_and_removed,
    a_rule_of_a_newer_kind_allows_nothing_and_can_be_removed,
    approvals_and_rules_stay_in_their_tenant,
    what_became_of_a_tool_is_put_on_record,
    what_happened_by_itself_is_put_on_record,
}

async fn a_yes_for_always_saves_its_rule_in_the_same_commit(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let asked = ask(store, &make, None).await;
    let new = always(&make, &asked);
    let decided = decide(store, &make, asked.id, Answer::AllowAlways(new.clone())).await;
    let stored = read(store, &make, asked.id).await;
    assert_eq!(decided, DecidedApproval::Won(stored.clone()));
    let answered = stored.answered.unwrap();
    assert_eq!(answered.rule, Some(new.id));
    let expected = AllowRule {
        id: new.id,
        scope: make.scope(),
        tool: "write".to_owned(),
        matches: new.matches,
        created_by: APPROVER.to_owned(),
        approval: Some(asked.id),
        created_at: answered.at,
        last_used_at: None,
    };
    assert_eq!(store.allow_rules(make.tenant(), None).await.unwrap(), [expected]);
    assert_eq!(trail(store, &make, new.id).await, [line(APPROVER, "tool.allowlist.added")]);
    // A second yes saves nothing.
    let again = decide(store, &make, asked.id, Answer::AllowAlways(always(&make, &asked))).await;
    assert!(matches!(again, DecidedApproval::Settled(_)), "{again:?}");
    assert_eq!(store.allow_rules(make.tenant(), None).await.unwrap().len(), 1);
}

async fn a_rule_that_the_question_does_not_offer_is_not_saved(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let asked = ask(store, &make, None).await;
    let command = CommandMatch { program: "/usr/bin/rm".to_owned(), args: Vec::new(), open: true };
    let matches = AllowMatch::Commands(vec![command]);
    let before = store.snapshot(make.tenant()).await;
    let made_up = Answer::AllowAlways(NewAllowRule { id: make.id(), matches });
    assert_eq!(decide(store, &make, asked.id, made_up).await, DecidedApproval::CannotBeSaved);
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn rules_are_saved_listed_touched_and_removed(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let mut elsewhere = make.allow_rule("/usr/bin/ls");
    elsewhere.scope.agent = "helper".parse().unwrap();
    let git = AllowRule { created_by: "whoever".to_owned(), ..make.allow_rule("/usr/bin/git") };
    for rule in [&elsewhere, &git] {
        store.save_allow_rule(&make.principal(), rule.clone()).await.unwrap();
    }
    // Who saved it is known, not claimed.
    let git = AllowRule { created_by: OWNER.to_owned(), ..git };
    let (own, mut nobody) = (make.scope(), make.scope());
    nobody.workspace = "other".parse().unwrap();
    let listed = async |scope| store.allow_rules(make.tenant(), scope).await.unwrap();
    assert_eq!(listed(None).await, [git.clone(), elsewhere.clone()]);
    assert_eq!(listed(Some(&own)).await, std::slice::from_ref(&git));
    assert_eq!(listed(Some(&nobody)).await, []);
    for (now, last) in [(500, 500), (700, 700), (600, 700)] {
        store.touch_allow_rule(make.tenant(), git.id, now).await.unwrap();
        assert_eq!(listed(Some(&own)).await[0].last_used_at, Some(last));
    }
    assert_eq!(listed(None).await[1].last_used_at, None);
    assert!(store.remove_allow_rule(&make.approver(), git.id, make.now()).await.unwrap());
    assert!(!store.remove_allow_rule(&make.approver(), git.id, make.now()).await.unwrap());
    assert_eq!(listed(None).await, [elsewhere]);
    let expected = [line(OWNER, "tool.allowlist.added"), line(APPROVER, "tool.allowlist.removed")];
    assert_eq!(trail(store, &make, git.id).await, expected);
    let rows = audit_of(store, &make, &git.id.to_string()).await;
    let rule = serde_json::to_value(&git.matches).unwrap();
    assert_eq!(rows[0].metadata, serde_json::json!({ "tool": "exec", "agent": "main", "rule": rule }));
    // A rule that is gone is not touched.
    store.touch_allow_rule(make.tenant(), git.id, 900).await.unwrap();
}

async fn a_rule_of_a_newer_kind_allows_nothing_and_can_be_removed(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let [strange, known] = [make.allow_rule("/usr/bin/git"), make.allow_rule("/usr/bin/ls")];
    for rule in [&strange, &known] {
        store.save_allow_rule(&make.principal(), rule.clone()).await.unwrap();
    }
    let newer = r#"{"moon":"full"}"#;
    store
        .execute(&format!("UPDATE allow_rules SET matches_json = '{newer}' WHERE id = '{}'", strange.id))
        .await;
    assert_eq!(store.allow_rules(make.tenant(), None).await.unwrap(), [known]);
    assert!(store.remove_allow_rule(&make.principal(), strange.id, make.now()).await.unwrap());
    let last = trail(store, &make, strange.id).await.pop();
    assert_eq!(last, Some(line(OWNER, "tool.allowlist.removed")));
}

async fn approvals_and_rules_stay_in_their_tenant(store: &ScratchStore) {
    let (one, two) = (Requests::new("one", 7), Requests::new("two", 7));
    let asked = ask(store, &one, None).await;
    let rule = one.allow_rule("/usr/bin/git");
    store.save_allow_rule(&one.principal(), rule.clone()).await.unwrap();
    let before = store.snapshot(one.tenant()).await;
    let tenant = two.tenant();
    assert_eq!(store.approval(tenant, asked.id).await.unwrap(), None);
    let filter = ApprovalFilter { limit: ALL, ..ApprovalFilter::default() };
    assert_eq!(store.approvals(tenant, filter).await.unwrap(), []);
    assert_eq!(store.allow_rules(tenant, None).await.unwrap(), []);
    assert_eq!(decide(store, &two, asked.id, Answer::AllowOnce).await, DecidedApproval::NotFound);
    let used = store.use_approval(tenant, asked.id, &asked.digest, two.now()).await.unwrap();
    assert_eq!(used, UsedApproval::NotFound);
    let cancelled = store.cancel_approvals(tenant, Cancelled::One(asked.id), two.now()).await.unwrap();
    assert_eq!(cancelled, []);
    assert_eq!(store.expire_approvals(tenant, i64::MAX, 9).await.unwrap(), []);
    assert!(!store.remove_allow_rule(&two.principal(), rule.id, two.now()).await.unwrap());
    store.touch_allow_rule(tenant, rule.id, two.now()).await.unwrap();
    let crossed = store.save_allow_rule(&two.principal(), one.allow_rule("/usr/bin/ls")).await;
    assert!(matches!(crossed, Err(StoreError::NotFound(_))), "{crossed:?}");
    before.assert_same(&store.snapshot(one.tenant()).await);
    // The same ids live in both.
    let twin = Approval { id: asked.id, ..two.approval(None) };
    store.request_approval(twin.clone()).await.unwrap();
    approve(store, &two, twin.id).await;
    assert_eq!(state_of(store, &one, asked.id).await, ApprovalState::Pending);
}

async fn what_became_of_a_tool_is_put_on_record(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let record = |metadata| ToolRecord {
        action: "tool.denied",
        tool: "exec".to_owned(),
        call_id: "call\0 1".to_owned(),
        metadata,
        now: make.now(),
    };
    let call = "call\0 1";
    for (given, kept) in [
        (serde_json::json!({ "rule": "shipped" }), serde_json::json!({ "rule": "shipped", "callId": call })),
        (serde_json::json!(null), serde_json::json!({ "callId": call })),
        (serde_json::json!([1]), serde_json::json!({ "details": [1], "callId": call })),
    ] {
        store.audit_tool(&make.approver(), record(given)).await.unwrap();
        let rows = audit_of(store, &make, "exec").await;
        let row = &rows[0];
        assert_eq!((row.actor.as_str(), row.action.as_str()), (APPROVER, "tool.denied"));
        assert_eq!((row.resource_type.as_str(), &row.metadata), ("tool", &kept));
    }
}

async fn what_happened_by_itself_is_put_on_record(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let metadata = serde_json::json!({ "pid": 7 });
    let event = AuditEvent {
        action: "service.started",
        resource_type: "service",
        resource_id: "db".to_owned(),
        metadata: metadata.clone(),
        now: make.now(),
    };
    store.audit_event(&make.approver(), event).await.unwrap();
    let row = &audit_of(store, &make, "db").await[0];
    assert_eq!((row.actor.as_str(), row.action.as_str()), (APPROVER, "service.started"));
    assert_eq!((row.resource_type.as_str(), &row.metadata), ("service", &metadata));
}
