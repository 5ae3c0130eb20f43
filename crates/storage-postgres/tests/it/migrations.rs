//! Migrations on a server that many processes share and that may lose any of them at any moment.

use std::process::Command;
use std::str::FromStr as _;

use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use tidegate_protocol::SendOutcome;
use tidegate_runtime::spawn;
use tidegate_storage::{
    Journal as _, Library as _, Outbox as _, Owner, RunFilter, Runs as _, SCHEMA, StoreError,
};
use tidegate_storage_postgres::{Mode, PostgresStore};

use crate::scratch::{
    NOW, Scratch, accept, begin, enlisted, finish, id, key, newest, part, principal, random_name, send,
    tenant, with_schema,
};

#[tokio::test]
async fn many_processes_may_start_at_once() {
    with_schema(|scratch| async move {
        let starts: Vec<_> = (0..8)
            .map(|_| {
                let options = scratch.options(Mode::ReadWrite);
                spawn("start", async move { PostgresStore::open(options).await })
            })
            .collect();
        for start in starts {
            let store = start.join().await.unwrap().unwrap();
            assert_eq!(store.status(&tenant("acme")).await.unwrap().schema, SCHEMA);
            store.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_reader_never_migrates() {
    with_schema(|scratch| async move {
        let empty = PostgresStore::open(scratch.options(Mode::ReadOnly)).await.unwrap_err();
        assert_eq!(empty, StoreError::Empty);
        PostgresStore::migrate_to(&scratch.options(Mode::ReadWrite), 1).await.unwrap();
        let reader = PostgresStore::open(scratch.options(Mode::ReadOnly)).await.unwrap();
        let status = reader.status(&tenant("acme")).await.unwrap();
        assert_eq!((status.schema, status.outbox), (1, vec![]));
        assert_eq!(reader.outbox_of(&tenant("acme"), id()).await, Ok(vec![]));
        let written = reader
            .accept(accept(&key("acme", "a"), Owner { instance: id(), incarnation: 1 }))
            .await
            .unwrap_err();
        assert!(matches!(written, StoreError::ReadOnly(_)), "{written:?}");
    })
    .await;
}

#[tokio::test]
async fn a_writer_brings_the_data_of_the_previous_release_along() {
    with_schema(|scratch| async move {
        PostgresStore::migrate_to(&scratch.options(Mode::ReadWrite), 1).await.unwrap();
        let old = "INSERT INTO session_keys (tenant_id, session_key, fence, next_queue, updated_at)
                   VALUES ('acme', 'tenant:acme/workspace:default/agent:main/main', 7, 3, 0)";
        scratch.admin(&format!("SET tidegate.tenant = 'acme'; {old}")).await;
        let store = scratch.open().await;
        let lease = begin(&store, &key("acme", "main"), enlisted(&store).await).await;
        assert_eq!(lease.fence.0, 8);
        assert_eq!(store.status(lease.tenant()).await.unwrap().schema, SCHEMA);
    })
    .await;
}

/// Row-level security binds the owner of the tables too, and yet every tenant's parts learn their channel.
#[tokio::test]
async fn a_plain_owner_brings_the_parts_of_every_tenant_along() {
    with_schema(|scratch| async move {
        let owner = format!("tg_owner_{}", random_name());
        let url = PgConnectOptions::from_str(&scratch.url).unwrap();
        let database = url.get_database().unwrap().to_owned();
        scratch
            .admin(&format!(
                "CREATE ROLE {owner} LOGIN CREATEROLE PASSWORD 'x'; GRANT CREATE ON DATABASE \"{database}\" TO {owner}"
            ))
            .await;
        let mut options = scratch.options(Mode::ReadWrite);
        options.migrate_url = Some(url.username(&owner).password("x").to_url_lossy().to_string());
        PostgresStore::migrate_to(&options, 2).await.unwrap();
        for (name, reply) in [
            ("acme", r#"{"to":"channel","channel":"local","accountId":"a","target":{"peerId":"p"}}"#),
            ("beta", r#"{"to":"channel","channel":"slack","accountId":"b","target":{"peerId":"p\u0000"}}"#),
            ("gone", "not json"),
        ] {
            scratch
                .admin(&format!(
                    "INSERT INTO runs (tenant_id, id, session_key, new_session_id, fresh, state, queue, attempt, actor,
                       spec_json, input_json, reply_json, created_at)
                     VALUES ('{name}', 'r', 'k', 's', false, 'completed', 1, 1, 'x', '{{}}', '{{}}', '{reply}', 0);
                     INSERT INTO outbox (tenant_id, id, run_id, part, lane, body, state, attempt, retry_at, created_at,
                       updated_at)
                     VALUES ('{name}', 'o', 'r', 1, 'l', 'b', 'pending', 0, 0, 0, 0)"
                ))
                .await;
        }
        let store = PostgresStore::open(options).await.unwrap();
        let mut admin = scratch.superuser().await;
        let sql = "SELECT tenant_id, channel, account_id FROM outbox ORDER BY tenant_id";
        let parts: Vec<(String, String, String)> = sqlx::query_as(sql).fetch_all(&mut admin).await.unwrap();
        // The one that nobody knows a channel of is not sent.
        let told: Vec<_> = parts.iter().map(|(tenant, channel, _)| (tenant.as_str(), channel.as_str())).collect();
        assert_eq!(told, [("acme", "local"), ("beta", "slack"), ("gone", "")]);
        assert_eq!((parts[0].2.as_str(), parts[1].2.as_str()), ("a", "b"));
        for (name, lanes) in [("acme", 1), ("beta", 1), ("gone", 0)] {
            assert_eq!(store.lanes(&tenant(name), 9).await.unwrap().len(), lanes, "{name}");
        }
        store.close().await;
        drop(admin);
        scratch.admin(&format!("DROP OWNED BY {owner} CASCADE; DROP ROLE {owner}")).await;
    })
    .await;
}

#[tokio::test]
async fn data_of_a_newer_release_is_used_only_as_far_as_it_allows() {
    with_schema(|scratch| async move {
        scratch.open().await.close().await;
        let open = |mode| PostgresStore::open(scratch.options(mode));
        scratch.admin("UPDATE meta SET schema = 99, min_reader = 1, min_writer = 1").await;
        open(Mode::ReadWrite).await.unwrap().close().await;
        scratch.admin("UPDATE meta SET min_writer = 90").await;
        let refused = open(Mode::ReadWrite).await.unwrap_err();
        assert_eq!(refused, StoreError::Newer { found: 99, needed: 90, known: SCHEMA });
        open(Mode::ReadOnly).await.unwrap().close().await;
        scratch.admin("UPDATE meta SET min_reader = 90").await;
        let refused = open(Mode::ReadOnly).await.unwrap_err();
        assert_eq!(refused, StoreError::Newer { found: 99, needed: 90, known: SCHEMA });
    })
    .await;
}

#[tokio::test]
async fn what_a_newer_release_adds_disturbs_nobody_who_is_running() {
    with_schema(|scratch| async move {
        let store = scratch.open().await;
        let owner = enlisted(&store).await;
        let key = key("acme", "a");
        for round in 0..3 {
            let lease = begin(&store, &key, owner).await;
            store.context(&lease, newest(9)).await.unwrap();
            store.finish(&lease, finish(&lease, &["x"], vec![part("l", "1")])).await.unwrap();
            let sending = send(&store, lease.tenant(), &owner, "l").await;
            store.settle_send(&sending, SendOutcome::Sent { id: "r".into() }, NOW).await.unwrap();
            let runs =
                store.runs(lease.tenant(), RunFilter { limit: 9, ..RunFilter::default() }).await.unwrap();
            assert_eq!(runs.len(), round + 1);
            assert_eq!(store.entries(lease.tenant(), lease.session, 0, 9).await.unwrap().len(), round + 1);
            assert!(store.session(&key).await.unwrap().is_some());
            assert_eq!(store.outbox_of(lease.tenant(), lease.run).await.unwrap().len(), 1);
            store.audit(lease.tenant(), 9).await.unwrap();
            for table in ["session_keys", "sessions", "entries", "runs", "tool_runs", "audit_logs", "outbox"]
            {
                scratch.admin(&format!("ALTER TABLE {table} ADD COLUMN new_{round} TEXT")).await;
            }
        }
    })
    .await;
}

/// The process that dies in the test below. Does nothing by itself.
#[tokio::test]
async fn a_process_that_the_next_test_kills() {
    let Ok(schema) = std::env::var("TIDEGATE_TEST_VICTIM") else { return };
    let url = std::env::var("TIDEGATE_TEST_POSTGRES").unwrap();
    let _ = PostgresStore::open(Scratch { url, schema }.options(Mode::ReadWrite)).await;
}

#[cfg(debug_assertions)]
#[tokio::test]
async fn a_migration_that_is_killed_goes_on_at_the_next_start() {
    for (point, left) in [
        ("storage.migrate.before_commit=kill@1", None),
        ("storage.migrate.after_commit=kill@1", Some(1)),
        ("storage.migrate.before_commit=kill@2", Some(1)),
        ("storage.migrate.after_commit=kill@2", Some(2)),
        ("storage.migrate.before_commit=kill@3", Some(2)),
        ("storage.migrate.after_commit=kill@3", Some(3)),
    ] {
        with_schema(move |scratch| async move {
            let killed = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "migrations::a_process_that_the_next_test_kills"])
                .env("TIDEGATE_TEST_VICTIM", &scratch.schema)
                .env("TIDEGATE_FAULT", point)
                .output()
                .unwrap();
            assert!(!killed.status.success(), "{point} killed nobody");
            let found = match PostgresStore::open(scratch.options(Mode::ReadOnly)).await {
                Ok(reader) => Some(reader.status(&tenant("acme")).await.unwrap().schema),
                Err(StoreError::Empty) => None,
                Err(other) => panic!("{point}: {other}"),
            };
            assert_eq!(found, left, "{point}");
            let store = scratch.open().await;
            let lease = begin(&store, &key("acme", "a"), enlisted(&store).await).await;
            store.finish(&lease, finish(&lease, &["x"], vec![])).await.unwrap();
            let runs =
                store.runs(lease.tenant(), RunFilter { limit: 9, ..RunFilter::default() }).await.unwrap();
            assert_eq!(runs.len(), 1);
            store.delete_session(&principal(&lease.key), &lease.key, NOW).await.unwrap();
        })
        .await;
    }
}
