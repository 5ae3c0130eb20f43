//! Reading: orders, filters, names and counts.

use tidegate_protocol::{RunId, RunState, SendOutcome, SessionId};
use tidegate_storage::{
    Accept, Finish, RunFilter, RunLookup, SCHEMA, SessionChoice, SessionFilter, StoreStatus,
};
use tidegate_testkit::requests::{Requests, parse};
use tidegate_testkit::stores::{Backend, ScratchStore};

use crate::scene::{converse, enlist, log, next_send, queue, run, start};

on_both_backends! {
    an_empty_store_answers_every_read,
    conversations_come_most_recently_used_first,
    conversations_are_filtered_by_agent_and_bounded,
    a_conversation_begun_anew_is_still_listed_among_all,
    a_conversation_is_found_by_its_id_and_its_alias,
    lines_are_read_in_pages,
    runs_come_newest_first_and_are_filtered,
    a_clients_key_names_its_newest_run,
    audit_rows_come_newest_first,
    the_status_counts_what_is_there,
}

async fn an_empty_store_answers_every_read(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (tenant, key) = (make.tenant(), make.key("work"));
    assert_eq!(
        store.sessions(tenant, SessionFilter { agent: None, all: false, limit: 10 }).await.unwrap(),
        []
    );
    assert_eq!(store.session(&key).await.unwrap(), None);
    assert_eq!(store.session_by_name(tenant, "lc-1-abcd").await.unwrap(), None);
    assert_eq!(store.entries(tenant, make.id::<SessionId>(), 0, 10).await.unwrap(), []);
    assert_eq!(store.runs(tenant, RunFilter { limit: 10, ..RunFilter::default() }).await.unwrap(), []);
    assert_eq!(store.run(tenant, &RunLookup::Id(make.id::<RunId>())).await.unwrap(), None);
    assert_eq!(store.run(tenant, &RunLookup::ClientKey("none".to_owned())).await.unwrap(), None);
    assert_eq!(store.tool_runs(tenant, make.id::<RunId>()).await.unwrap(), []);
    assert_eq!(store.outbox_of(tenant, make.id::<RunId>()).await.unwrap(), []);
    assert_eq!(store.audit(tenant, 10).await.unwrap(), []);
    assert_eq!(store.mirror_backlog(tenant, 10).await.unwrap(), []);
}

async fn conversations_come_most_recently_used_first(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for name in ["one", "two", "three", "one"] {
        converse(store, &make, &make.key(name), owner).await;
    }
    // A key without a conversation is not one.
    let failed = start(store, owner, make.accept(&make.key("four"))).await;
    store.finish(&failed, make.failed()).await.unwrap();
    queue(store, make.accept(&make.key("five"))).await;
    let rows =
        store.sessions(make.tenant(), SessionFilter { agent: None, all: false, limit: 10 }).await.unwrap();
    let names: Vec<_> = rows.iter().map(|row| row.key.label()).collect();
    assert_eq!(names, ["one", "three", "two"]);
    for row in rows {
        assert_eq!(store.session(&row.key).await.unwrap(), Some(row));
    }
}

async fn a_conversation_begun_anew_is_still_listed_among_all(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let old = converse(store, &make, &make.key("work"), owner).await;
    let fresh = Accept { session: SessionChoice::Fresh, ..make.accept(&make.key("work")) };
    let new = start(store, owner, fresh).await;
    store.finish(&new, make.completed()).await.unwrap();
    let listed = async |all| {
        let filter = SessionFilter { agent: None, all, limit: 10 };
        let rows = store.sessions(make.tenant(), filter).await.unwrap();
        rows.into_iter().map(|row| (row.id, row.current)).collect::<Vec<_>>()
    };
    assert_eq!(listed(false).await, [(new.session, true)]);
    assert_eq!(listed(true).await, [(new.session, true), (old.session, false)]);
}

async fn conversations_are_filtered_by_agent_and_bounded(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    for name in ["one", "two", "three"] {
        converse(store, &make, &make.key(name), owner).await;
    }
    let mut helper = make.key("one");
    helper.scope.agent = parse("helper");
    converse(store, &make, &helper, owner).await;
    let labels = async |agent: Option<&str>, limit| {
        let filter = SessionFilter { agent: agent.map(parse), all: false, limit };
        let rows = store.sessions(make.tenant(), filter).await.unwrap();
        rows.iter().map(|row| format!("{}/{}", row.key.scope.agent, row.key.label())).collect::<Vec<_>>()
    };
    assert_eq!(labels(Some("main"), 10).await, ["main/three", "main/two", "main/one"]);
    assert_eq!(labels(Some("main"), 2).await, ["main/three", "main/two"]);
    assert_eq!(labels(Some("helper"), 10).await, ["helper/one"]);
    assert_eq!(labels(Some("nobody"), 10).await, Vec::<String>::new());
    assert_eq!(labels(None, 2).await, ["helper/one", "main/three"]);
}

async fn a_conversation_is_found_by_its_id_and_its_alias(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let mut accept = make.accept(&make.key("work"));
    accept.new_session.alias = Some("lc-1-abcd".to_owned());
    let lease = start(store, owner, accept).await;
    store.finish(&lease, make.completed()).await.unwrap();
    let row = store.session(&lease.key).await.unwrap();
    assert!(row.is_some());
    for name in [lease.session.to_string(), "lc-1-abcd".to_owned()] {
        assert_eq!(store.session_by_name(make.tenant(), &name).await.unwrap(), row);
    }
    // Names are data, whatever they contain.
    for name in ["", "LC-1-ABCD", "lc-1-abc%", "lc_1_abcd", "' OR 1=1 --", "not a uuid"] {
        assert_eq!(store.session_by_name(make.tenant(), name).await.unwrap(), None, "{name:?}");
    }
}

async fn lines_are_read_in_pages(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    for _ in 0..3 {
        converse(store, &make, &key, owner).await;
    }
    let lease = converse(store, &make, &key, owner).await;
    let all = log(store, &lease).await;
    assert_eq!(all.len(), 8);
    for (after, limit, expected) in
        [(0, 3, &all[..3]), (3, 3, &all[3..6]), (6, 3, &all[6..]), (8, 3, &all[8..])]
    {
        assert_eq!(store.entries(make.tenant(), lease.session, after, limit).await.unwrap(), expected);
    }
}

async fn runs_come_newest_first_and_are_filtered(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (one, two) = (make.key("one"), make.key("two"));
    let completed = converse(store, &make, &one, owner).await.run;
    let running = start(store, owner, make.accept(&two)).await.run;
    let second = converse(store, &make, &one, owner).await.run;
    let queued = queue(store, make.accept(&two)).await;
    let ids = async |filter: RunFilter| {
        let rows = store.runs(make.tenant(), filter).await.unwrap();
        for row in &rows {
            assert_eq!(run(store, &make, row.id).await, *row);
        }
        rows.iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let all = RunFilter { limit: 10, ..RunFilter::default() };
    assert_eq!(ids(all.clone()).await, [queued, second, running, completed]);
    assert_eq!(ids(RunFilter { limit: 2, ..all.clone() }).await, [queued, second]);
    let of_two = RunFilter { session: Some(two), ..all.clone() };
    assert_eq!(ids(of_two.clone()).await, [queued, running]);
    assert_eq!(ids(RunFilter { state: Some(RunState::Completed), ..all.clone() }).await, [second, completed]);
    assert_eq!(ids(RunFilter { state: Some(RunState::Queued), ..of_two.clone() }).await, [queued]);
    assert_eq!(ids(RunFilter { state: Some(RunState::Failed), ..of_two }).await, []);
    let unknown = RunState::Unknown("paused".to_owned());
    assert_eq!(ids(RunFilter { state: Some(unknown), ..all }).await, []);
}

async fn a_clients_key_names_its_newest_run(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let mut newest = None;
    for _ in 0..3 {
        let mut accept = make.accept(&make.key("work"));
        accept.run.client_key = Some("mine".to_owned());
        newest = Some(queue(store, accept).await);
    }
    let found = store.run(make.tenant(), &RunLookup::ClientKey("mine".to_owned())).await.unwrap();
    assert_eq!(found.map(|row| row.id), newest);
}

async fn audit_rows_come_newest_first(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let mut expected = Vec::new();
    for _ in 0..24 {
        let run = queue(store, make.accept(&make.key("work"))).await;
        store.abort(&make.principal(), run, make.now()).await.unwrap();
        expected.insert(0, run.to_string());
    }
    let rows = store.audit(make.tenant(), 100).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.resource_id.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(store.audit(make.tenant(), 5).await.unwrap(), rows[..5]);
}

async fn the_status_counts_what_is_there(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (one, two) = (make.key("one"), make.key("two"));
    converse(store, &make, &one, owner).await;
    converse(store, &make, &one, owner).await;
    let lease = start(store, owner, make.accept_from_channel(&two)).await;
    let parts = vec![make.part("a", "1"), make.part("a", "2"), make.part("b", "3")];
    store.finish(&lease, Finish { parts, ..make.completed() }).await.unwrap();
    let sending = next_send(store, make.tenant(), &owner, make.now()).await.unwrap().unwrap();
    store.settle_send(&sending, SendOutcome::Sent { id: "r".to_owned() }, make.now()).await.unwrap();
    let failed = start(store, owner, make.accept(&make.key("three"))).await;
    store.finish(&failed, make.failed()).await.unwrap();
    queue(store, make.accept(&two)).await;
    let count = |state: &str, count| (state.to_owned(), count);
    let backend = match store.backend() {
        Backend::Sqlite => "sqlite",
        Backend::Postgres => "postgres",
    };
    let expected = StoreStatus {
        backend: backend.to_owned(),
        schema: SCHEMA,
        sessions: 2,
        runs: vec![count("completed", 3), count("failed", 1), count("queued", 1)],
        outbox: vec![count("pending", 2), count("sent", 1)],
        bytes: None,
    };
    let status = store.status(make.tenant()).await.unwrap();
    assert_eq!(StoreStatus { bytes: None, ..status }, expected);
}
