//! One tenant never sees another, even with hand-written SQL.

use std::str::FromStr as _;

use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use tidegate_protocol::{ReplyTarget, RunState};
use tidegate_storage::{Instances as _, Library as _, RunFilter, RunLookup, Runs as _, StoreError};
use tidegate_storage_postgres::{Mode, PostgresStore};

use crate::scratch::{
    NOW, Scratch, accept, begin, code, enlisted, finish, key, part, principal, random_name, run, tenant,
    with_schema,
};

const TENANT_TABLES: [&str; 14] = [
    "session_keys",
    "sessions",
    "entries",
    "runs",
    "tool_runs",
    "idempotency",
    "audit_logs",
    "inbox",
    "outbox",
    "cursors",
    "audit_seals",
    "model_calls",
    "budget_usage",
    "model_standings",
];

async fn two_tenants(scratch: &Scratch) -> PostgresStore {
    let store = scratch.open().await;
    let owner = enlisted(&store).await;
    for name in ["acme", "beta"] {
        let lease = begin(&store, &key(name, "a"), owner).await;
        store.finish(&lease, finish(&lease, &["secret"], vec![part("l", "secret")])).await.unwrap();
    }
    store
}

#[tokio::test]
async fn a_tenant_sees_and_changes_its_own_rows_only() {
    with_schema(|scratch| async move {
        let _store = two_tenants(&scratch).await;
        let mut app = scratch.app_role().await;
        run(&mut app, "SET tidegate.tenant = 'acme'").await.unwrap();
        for table in ["session_keys", "sessions", "entries", "runs", "audit_logs", "outbox"] {
            let sql = format!("SELECT DISTINCT tenant_id FROM {table}");
            let seen: Vec<String> =
                sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_all(&mut app).await.unwrap();
            assert_eq!(seen, ["acme"], "{table}");
        }
        let changed =
            run(&mut app, "UPDATE runs SET state = 'queued' WHERE tenant_id = 'beta'").await.unwrap();
        assert_eq!(changed, 0);
        assert_eq!(run(&mut app, "DELETE FROM entries WHERE tenant_id = 'beta'").await.unwrap(), 0);
        let smuggled = run(&mut app, "UPDATE session_keys SET tenant_id = 'beta'").await.unwrap_err();
        assert_eq!(code(&smuggled), "42501");
        let planted = "INSERT INTO session_keys (tenant_id, session_key, fence, next_queue, updated_at)
                       VALUES ('beta', 'k', 0, 1, 0)";
        assert_eq!(code(&run(&mut app, planted).await.unwrap_err()), "42501");
        assert_eq!(
            code(&run(&mut app, "SET row_security = off; SELECT * FROM runs").await.unwrap_err()),
            "42501"
        );
    })
    .await;
}

#[tokio::test]
async fn a_statement_that_forgot_its_tenant_is_an_error() {
    with_schema(|scratch| async move {
        let _store = two_tenants(&scratch).await;
        let mut app = scratch.app_role().await;
        for table in TENANT_TABLES {
            let error = run(&mut app, &format!("SELECT count(*) FROM {table}")).await.unwrap_err();
            assert!(error.to_string().contains("tidegate.tenant is not set"), "{table}: {error}");
        }
        let empty = run(&mut app, "SET tidegate.tenant = ''; SELECT * FROM runs").await.unwrap_err();
        assert!(empty.to_string().contains("tidegate.tenant is not set"), "{empty}");
        // What one transaction said is gone with it: the next user of a pooled connection starts from nothing.
        let earlier = "RESET ALL; SET search_path TO x";
        run(&mut app, &earlier.replace('x', &scratch.schema)).await.unwrap();
        run(&mut app, "BEGIN; SELECT set_config('tidegate.tenant', 'acme', true); COMMIT").await.unwrap();
        assert!(run(&mut app, "SELECT * FROM runs").await.is_err());
    })
    .await;
}

#[tokio::test]
async fn the_app_role_cannot_lift_its_own_limits() {
    with_schema(|scratch| async move {
        let _store = two_tenants(&scratch).await;
        let mut app = scratch.app_role().await;
        run(&mut app, "SET tidegate.tenant = 'acme'").await.unwrap();
        for sql in [
            "ALTER TABLE runs DISABLE ROW LEVEL SECURITY",
            "ALTER TABLE runs NO FORCE ROW LEVEL SECURITY",
            "DROP POLICY tenant ON runs",
            "CREATE POLICY all_of_it ON runs USING (true)",
            "CREATE TABLE mine (x INT)",
            "CREATE FUNCTION tidegate_tenant(x INT) RETURNS INT LANGUAGE sql AS 'SELECT 1'",
            "TRUNCATE runs",
            "UPDATE entries SET body = '{}'",
            "UPDATE audit_logs SET actor = 'nobody'",
            "UPDATE audit_logs SET metadata_json = '{}'",
            "DELETE FROM audit_logs",
            "UPDATE audit_seals SET chain = 'x'",
            "DELETE FROM audit_seals",
            "DELETE FROM cursors",
            "UPDATE model_calls SET cost = 0",
            "UPDATE meta SET schema = 9",
        ] {
            assert_eq!(code(&run(&mut app, sql).await.unwrap_err()), "42501", "{sql}");
        }
    })
    .await;
}

#[tokio::test]
async fn only_ids_cross_tenants_and_a_temporary_table_cannot_stand_in() {
    with_schema(|scratch| async move {
        let store = scratch.open().await;
        let owner = enlisted(&store).await;
        begin(&store, &key("acme", "a"), owner).await;
        let mut app = scratch.app_role().await;
        let trap = "CREATE TEMPORARY TABLE session_keys AS SELECT 'x' AS tenant_id, 'x' AS session_key,
                      'x' AS active_run, 'x' AS owner_instance, 0::bigint AS owner_incarnation";
        run(&mut app, trap).await.unwrap();
        let sql = format!("SELECT tenant_id FROM {}.tidegate_held($1, 99)", scratch.schema);
        let crossed: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
            .bind(owner.instance.to_string())
            .fetch_all(&mut app)
            .await
            .unwrap();
        assert_eq!(crossed, ["acme"]);
    })
    .await;
}

#[tokio::test]
async fn a_principal_reaches_nothing_of_another_tenant() {
    with_schema(|scratch| async move {
        let store = two_tenants(&scratch).await;
        let stranger = principal(&key("beta", "a"));
        let runs = store.runs(&tenant("acme"), RunFilter { limit: 9, ..RunFilter::default() }).await.unwrap();
        let theirs = runs[0].id;
        assert_eq!(store.run(&tenant("beta"), &RunLookup::Id(theirs)).await, Ok(None));
        let aborted = store.abort(&stranger, theirs, NOW).await;
        assert_eq!(aborted, Ok(tidegate_storage::AbortOutcome::NotFound));
        let deleted = store.delete_session(&stranger, &key("acme", "a"), NOW).await;
        assert!(matches!(deleted, Err(StoreError::NotFound(_))));
        assert_eq!(store.status(&tenant("nobody")).await.unwrap().runs, vec![]);
    })
    .await;
}

#[tokio::test]
async fn a_store_whose_guards_are_down_is_refused() {
    with_schema(|scratch| async move {
        scratch.open().await.close().await;
        scratch.admin("ALTER TABLE runs NO FORCE ROW LEVEL SECURITY").await;
        let error = PostgresStore::open(scratch.options(Mode::ReadOnly)).await.unwrap_err();
        assert!(error.to_string().contains("row-level security is off for runs"), "{error}");
        scratch
            .admin("ALTER TABLE runs FORCE ROW LEVEL SECURITY; ALTER TABLE entries OWNER TO tidegate_app")
            .await;
        let error = PostgresStore::open(scratch.options(Mode::ReadWrite)).await.unwrap_err();
        assert!(error.to_string().contains("owns tables of the store (entries)"), "{error}");
    })
    .await;
}

/// A company's set-up: an owner without superuser rights migrates, a user without any rights runs the gateway.
#[tokio::test]
async fn an_owner_and_a_plain_user_are_enough() {
    with_schema(|scratch| async move {
        let (owner, user) = (format!("tg_owner_{}", random_name()), format!("tg_user_{}", random_name()));
        let database = PgConnectOptions::from_str(&scratch.url).unwrap().get_database().unwrap().to_owned();
        scratch
            .admin(&format!(
                "CREATE ROLE {owner} LOGIN CREATEROLE PASSWORD 'x'; CREATE ROLE {user} LOGIN PASSWORD 'x';
                 GRANT CREATE ON DATABASE \"{database}\" TO {owner}"
            ))
            .await;
        let as_user = |name: &str| {
            PgConnectOptions::from_str(&scratch.url)
                .unwrap()
                .username(name)
                .password("x")
                .to_url_lossy()
                .to_string()
        };
        let mut options = scratch.options(Mode::ReadWrite);
        options.url = as_user(&user);
        let error = PostgresStore::open(options.clone()).await.unwrap_err();
        assert!(error.to_string().contains(&user), "says who lacks the right: {error}");
        options.migrate_url = Some(as_user(&owner));
        let store = PostgresStore::open(options.clone()).await.unwrap();
        let dead = enlisted(&store).await;
        let held =
            [begin(&store, &key("acme", "a"), dead).await, begin(&store, &key("beta", "a"), dead).await];
        let mut waits = accept(&key("beta", "a"), dead);
        waits.run.reply = ReplyTarget::Caller;
        let waits = store.accept(waits).await.unwrap().run;
        let alive = store.enlist(dead.instance, NOW).await.unwrap();
        let recovered = store.recover(&alive, NOW).await.unwrap();
        let mut expected: Vec<_> = held.iter().map(|lease| (lease.run, RunState::Queued)).collect();
        expected.push((waits, RunState::Interrupted));
        assert_eq!(
            recovered.runs.iter().map(|run| (run.run, run.state.clone())).collect::<Vec<_>>(),
            expected
        );
        store.close().await;
        // Once migrated, the plain user opens it alone; the owner, too, is bound by row-level security.
        options.migrate_url = None;
        PostgresStore::open(options).await.unwrap().close().await;
        let mut owning = PgConnectOptions::from_str(&as_user(&owner)).unwrap().connect().await.unwrap();
        let sql = format!("SELECT * FROM {}.runs", scratch.schema);
        assert!(run(&mut owning, &sql).await.unwrap_err().to_string().contains("tidegate.tenant is not set"));
        drop(owning);
        scratch
            .admin(&format!("DROP OWNED BY {owner} CASCADE; DROP OWNED BY {user}; DROP ROLE {owner}, {user}"))
            .await;
    })
    .await;
}
