//! Data of the release before: everything in it is still there, and goes on.

use tidegate_protocol::{RunId, RunState, SessionSettings, Usage};
use tidegate_storage::{
    Accept, BudgetFilter, Finish, NextSend, OutboxFilter, OutboxState, Owner, RunFilter, SCHEMA, Search,
    Sending, SessionFilter, Sweep, UsageFilter, UsageGroup,
};
use tidegate_testkit::requests::{Requests, channel_reply, parse};
use tidegate_testkit::stores::{Backend, ScratchStore, with_place};

use crate::scene::{HOUR, claim, converse, enlist, everything, next_send, queue, run, send, start, state};

on_both_backends! {
    data_of_the_release_before_is_read,
    data_of_the_release_before_goes_on,
    what_an_older_release_writes_into_this_data_goes_on,
    money_is_empty_in_the_data_of_the_release_before,
    runs_of_the_release_before_end_without_a_budget,
    what_an_older_release_left_reserved_is_settled_by_the_sweep,
    a_conversation_of_the_release_before_reads_as_one_that_was_never_forked,
}

/// What the release before left: an answer that waits, one that was being sent, and two runs that wait behind each
/// other, the first one's caller gone.
struct Old {
    make: Requests,
    dead: Owner,
    answered: RunId,
    caller: RunId,
    channel: RunId,
}

fn quoted(value: serde_json::Result<String>) -> String {
    format!("'{}'", value.unwrap().replace('\'', "''"))
}

fn insert_run(accept: &Accept, state: &str, queue: u32) -> String {
    let run = &accept.run;
    format!(
        "INSERT INTO runs (tenant_id, id, session_key, new_session_id, fresh, state, queue, attempt, actor, spec_json,
           input_json, reply_json, created_at)
         VALUES ('local', '{}', '{}', '{}', false, '{state}', {queue}, 0, 'local:owner', {}, {}, {}, {});",
        run.id,
        accept.key,
        accept.new_session.id,
        quoted(serde_json::to_string(&run.spec)),
        quoted(serde_json::to_string(&run.input)),
        quoted(serde_json::to_string(&run.reply)),
        accept.now
    )
}

fn insert_part(
    make: &Requests,
    run: RunId,
    part: u32,
    lane: &str,
    state: &str,
    dead: Option<Owner>,
) -> String {
    let owner =
        dead.map_or("NULL, NULL".to_owned(), |dead| format!("'{}', {}", dead.instance, dead.incarnation));
    format!(
        "INSERT INTO outbox (tenant_id, id, run_id, part, lane, body, state, attempt, retry_at, owner_instance,
           owner_incarnation, created_at, updated_at)
         VALUES ('local', '{}', '{run}', {part}, '{lane}', 'part {part}', '{state}', {}, 0, {owner}, 5, 5);",
        make.id::<tidegate_protocol::OutboxId>(),
        u32::from(dead.is_some())
    )
}

async fn old(store: &ScratchStore) -> Old {
    store.migrate_to(2).await;
    let make = Requests::new("local", 1);
    let dead = Owner { instance: make.id(), incarnation: 1 };
    let key = make.key("work");
    let (answered, caller) = (make.accept_from_channel(&key), make.accept(&key));
    let channel = make.accept_from_channel(&key);
    let run = answered.run.id;
    let sql = [
        format!("INSERT INTO instances (id, incarnation, heartbeat_at) VALUES ('{}', 1, 5);", dead.instance),
        format!(
            "INSERT INTO session_keys (tenant_id, session_key, fence, next_queue, updated_at)
             VALUES ('local', '{key}', 7, 4, 5);"
        ),
        insert_run(&answered, "completed", 1),
        insert_run(&caller, "queued", 2),
        insert_run(&channel, "queued", 3),
        insert_part(&make, run, 1, "a", "sending", Some(dead)),
        insert_part(&make, run, 2, "b", "pending", None),
        "INSERT INTO audit_logs (tenant_id, id, actor, action, resource_type, resource_id, metadata_json, created_at)
         VALUES ('local', '019c8b78-7408-7000-8000-000000000001', 'local:owner', 'agent.run.completed', 'run', 'r', '{}', 5);"
            .to_owned(),
    ];
    store.execute(&sql.concat()).await;
    Old { make, dead, answered: run, caller: caller.run.id, channel: channel.run.id }
}

async fn data_of_the_release_before_is_read(store: &mut ScratchStore) {
    with_place(store.backend(), async |store| {
        let old = old(store).await;
        let tenant = old.make.tenant();
        let reader = store.location().open_for_reading().await.unwrap();
        let parts = reader.outbox_of(tenant, old.answered).await.unwrap();
        let told: Vec<_> = parts
            .iter()
            .map(|part| (part.channel.as_str(), part.account_id.as_str(), part.body.as_str()))
            .collect();
        assert_eq!(told, [("slack", "T1", "part 1"), ("slack", "T1", "part 2")]);
        let filter = OutboxFilter { channel: Some(parse("slack")), limit: 9, ..OutboxFilter::default() };
        assert_eq!(reader.outbox(tenant, filter).await.unwrap().len(), 2);
        assert_eq!(reader.undelivered(tenant, 9).await.unwrap(), []);
        assert_eq!(reader.cursor(tenant, &parse("slack"), "T1").await.unwrap(), None);
        assert_eq!(reader.seals(tenant, 0, 9).await.unwrap(), []);
        assert_eq!(reader.sealed_rows(tenant, 1).await.unwrap(), []);
        assert_eq!(reader.unsealed(tenant).await.unwrap(), 1);
        assert_eq!(reader.status(tenant).await.unwrap().schema, 2, "a reader does not migrate");
        reader.close().await;
    })
    .await;
}

async fn data_of_the_release_before_goes_on(store: &mut ScratchStore) {
    with_place(store.backend(), async |store| {
        let old = old(store).await;
        store.open().await;
        let make = &old.make;
        assert_eq!(store.status(make.tenant()).await.unwrap().schema, SCHEMA);
        let owner = store.enlist(old.dead.instance, make.now()).await.unwrap();
        make.set_owner(owner);
        // The part that was being sent is in doubt; the other one waits.
        let lanes = store.lanes(make.tenant(), 9).await.unwrap();
        assert_eq!(lanes.iter().map(|lane| lane.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let Sending { channel, account_id, attempt, doubtful, .. } = send(store, make, owner).await;
        assert_eq!((channel.as_str(), account_id.as_str(), attempt, doubtful), ("slack", "T1", 2, true));
        let second = send(store, make, owner).await;
        assert_eq!((second.body.as_str(), second.attempt, second.doubtful), ("part 2", 1, false));
        // Nobody waits any more for the first run.
        assert_eq!(store.waiting(make.tenant(), &owner, HOUR, make.now(), 9).await.unwrap().len(), 1);
        let lease = claim(store, make, &make.key("work"), owner).await;
        assert_eq!((lease.run, lease.fence.0), (old.channel, 8));
        assert_eq!(state(store, make, old.caller).await, RunState::Interrupted);
        store.finish(&lease, make.completed()).await.unwrap();
        let sealed = store.seal(make.tenant(), 9, make.now()).await.unwrap().unwrap();
        assert_eq!(sealed.rows, 3);
        assert_eq!(super::seal::verify(store, make).await, []);
        store.ingest(make.ingest(&make.key("work"), &[1], Some("1"))).await.unwrap();
        store.sweep(make.tenant(), everything(make.now() + HOUR)).await.unwrap();
        assert_eq!(run(store, make, old.answered).await.reply, channel_reply());
    })
    .await;
}

async fn what_an_older_release_writes_into_this_data_goes_on(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    converse(store, &make, &key, owner).await;
    let (answered, caller) = (make.accept_from_channel(&key), make.accept(&key));
    let run = answered.run.id;
    let sql = [
        insert_run(&answered, "completed", 8),
        insert_run(&caller, "queued", 9),
        insert_part(&make, run, 1, "a", "pending", None),
    ];
    let tenant = match store.backend() {
        Backend::Sqlite => "",
        Backend::Postgres => "SET tidegate.tenant = 'local'; ",
    };
    store.execute(&format!("{tenant}{}", sql.concat())).await;
    let sending = next_send(store, make.tenant(), &owner, make.now()).await.unwrap().unwrap();
    assert_eq!((sending.run, sending.channel.as_str(), sending.account_id.as_str()), (run, "slack", "T1"));
    let lost = store.claim_send(make.tenant(), &owner, "a", HOUR, make.now()).await.unwrap();
    assert_eq!(lost, NextSend::Busy);
    let parts = store.outbox_of(make.tenant(), run).await.unwrap();
    assert_eq!(parts[0].state, OutboxState::Sending);
    store.recover(&owner, make.now()).await.unwrap();
    assert_eq!(state(store, &make, caller.run.id).await, RunState::Interrupted);
}

fn whole_usage() -> UsageFilter {
    let group = UsageGroup::Day;
    UsageFilter { since_ms: 0, until_ms: i64::MAX, agent: None, session: None, group, limit: 9 }
}

async fn money_is_empty_in_the_data_of_the_release_before(store: &mut ScratchStore) {
    with_place(store.backend(), async |store| {
        store.migrate_to(3).await;
        let make = Requests::new("local", 1);
        let reader = store.location().open_for_reading().await.unwrap();
        assert_eq!(reader.usage(make.tenant(), whole_usage()).await.unwrap(), []);
        let filter = BudgetFilter { limit: 9, ..BudgetFilter::default() };
        assert_eq!(reader.budgets(make.tenant(), filter).await.unwrap(), []);
        assert_eq!(reader.standings(make.tenant()).await.unwrap(), []);
        assert_eq!(reader.status(make.tenant()).await.unwrap().schema, 3);
        reader.close().await;
    })
    .await;
}

async fn runs_of_the_release_before_end_without_a_budget(store: &mut ScratchStore) {
    with_place(store.backend(), async |store| {
        store.migrate_to(3).await;
        let make = Requests::new("local", 1);
        let key = make.key("work");
        let waiting = make.accept_from_channel(&key);
        let session = format!(
            "INSERT INTO session_keys (tenant_id, session_key, fence, next_queue, updated_at)
             VALUES ('local', '{key}', 7, 2, 5);"
        );
        store.execute(&format!("{session}{}", insert_run(&waiting, "queued", 1))).await;
        store.open().await;
        let owner = enlist(store, &make).await;
        let lease = claim(store, &make, &key, owner).await;
        assert_eq!((lease.run, lease.refusal.clone(), lease.over_budget.len()), (waiting.run.id, None, 0));
        store.finish(&lease, Finish { calls: vec![make.call(5)], ..make.completed() }).await.unwrap();
        assert_eq!(store.usage(make.tenant(), whole_usage()).await.unwrap()[0].calls, 1);
        assert_eq!(store.tables(make.tenant()).await["budget_usage"].len(), 0);
    })
    .await;
}

/// It knows of no reservation and so settles none.
async fn what_an_older_release_left_reserved_is_settled_by_the_sweep(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let reserve =
        |name: &str| Accept { reservation: Some(make.reservation(10, 100)), ..make.accept(&make.key(name)) };
    let ran = start(store, owner, reserve("ran")).await.run;
    let metered = start(store, owner, reserve("metered")).await.run;
    let waited = queue(store, reserve("waited")).await;
    let open = start(store, owner, reserve("open")).await;
    let tenant = match store.backend() {
        Backend::Sqlite => "",
        Backend::Postgres => "SET tidegate.tenant = 'local'; ",
    };
    for run in [ran, metered, waited] {
        let ended = format!("UPDATE runs SET state = 'aborted', finished_at = 5 WHERE id = '{run}';");
        store.execute(&format!("{tenant}{ended}")).await;
    }
    store.meter(make.tenant(), make.meter(Some(metered), vec![make.call(3)])).await.unwrap();
    for _ in 0..2 {
        store.sweep(make.tenant(), Sweep { pending_before: 0, ..everything(0) }).await.unwrap();
        let filter = BudgetFilter { limit: 9, ..BudgetFilter::default() };
        for row in store.budgets(make.tenant(), filter).await.unwrap() {
            assert_eq!((row.used.tokens_spent, row.used.tokens_reserved), (10 + 3, 10), "{row:?}");
        }
    }
    store.finish(&open, make.completed()).await.unwrap();
}

async fn a_conversation_of_the_release_before_reads_as_one_that_was_never_forked(store: &mut ScratchStore) {
    with_place(store.backend(), async |store| {
        store.migrate_to(5).await;
        let make = Requests::new("local", 1);
        let key = make.key("work");
        let accept = make.accept_from_channel(&key);
        let (log, line) = (accept.new_session.id, make.user("an old question"));
        let (kind, body) = line.body.to_stored().unwrap();
        let sql = [
            format!(
                "INSERT INTO session_keys (tenant_id, session_key, session_id, fence, next_queue, updated_at)
                 VALUES ('local', '{key}', '{log}', 7, 2, 5);"
            ),
            format!(
                "INSERT INTO sessions (tenant_id, id, workspace_id, agent_id, session_key, state, head_seq, head_entry,
                   created_at, updated_at)
                 VALUES ('local', '{log}', 'default', 'main', '{key}', 'current', 1, '{}', 5, 5);",
                line.id
            ),
            format!(
                "INSERT INTO entries (tenant_id, session_id, seq, id, run_id, kind, body, created_at)
                 VALUES ('local', '{log}', 1, '{}', '{}', '{}', {}, 5);",
                line.id,
                accept.run.id,
                kind.as_str(),
                quoted(Ok(body))
            ),
            insert_run(&accept, "completed", 1),
        ];
        store.execute(&sql.concat()).await;

        let tenant = make.tenant();
        let reader = store.location().open_for_reading().await.unwrap();
        let row = reader.session(&key).await.unwrap().unwrap();
        assert_eq!((row.id, row.title.as_deref(), row.parent, row.compactions), (log, None, None, 0));
        assert_eq!((row.usage, row.settings.clone()), (Usage::default(), SessionSettings::default()));
        let all = SessionFilter { all: true, limit: 9, ..SessionFilter::default() };
        assert_eq!(reader.sessions(tenant, all).await.unwrap(), [row]);
        let entries = reader.entries(tenant, log, 0, 9).await.unwrap();
        assert_eq!(entries.len(), 1);
        let runs = reader.runs(tenant, RunFilter { limit: 9, ..RunFilter::default() }).await.unwrap();
        assert_eq!((runs[0].join, runs[0].joined, runs[0].parent), (None, None, None));
        let started = RunFilter { parent: Some(accept.run.id), limit: 9, ..RunFilter::default() };
        assert_eq!(reader.runs(tenant, started).await.unwrap(), []);
        assert_eq!(reader.descendants(tenant, accept.run.id).await.unwrap(), []);
        assert_eq!(reader.calls_of(tenant, accept.run.id).await.unwrap(), []);
        assert_eq!(reader.session_settings(&key).await.unwrap(), SessionSettings::default());
        for session in [None, Some(log)] {
            let search = Search { words: "OLD".to_owned(), session, agent: None, limit: 9 };
            assert_eq!(reader.search(tenant, search).await.unwrap(), entries);
        }
        assert_eq!(reader.mirror_backlog(tenant, 9).await.unwrap()[0].parent, None);
        reader.close().await;

        store.open().await;
        let owner = enlist(store, &make).await;
        let forked = store.fork(&make.principal(), make.fork(log, 1, &key)).await.unwrap();
        let lease = converse(store, &make, &key, owner).await;
        assert_eq!(lease.session, forked.session);
        assert_eq!(store.entries(tenant, lease.session, 0, 9).await.unwrap()[..1], entries);
    })
    .await;
}
