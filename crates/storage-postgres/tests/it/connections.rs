//! Servers that do not answer, answer no, or go away in between.

use std::time::{Duration, Instant};

use tidegate_storage::{Accept, Instances as _, Library as _, RunFilter, Runs as _, StoreError};
use tidegate_storage_postgres::{Mode, PostgresOptions, PostgresStore};

use crate::scratch::{NOW, accept, begin, enlisted, finish, id, key, random_name, tenant, with_schema};

fn options(url: &str) -> PostgresOptions {
    PostgresOptions {
        url: url.to_owned(),
        migrate_url: None,
        schema: "tidegate".to_owned(),
        max_connections: 2,
        mode: Mode::ReadWrite,
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_the_password() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://somebody:hunter2@127.0.0.1:{port}/x");
    for mode in [Mode::ReadWrite, Mode::ReadOnly] {
        let error = PostgresStore::open(PostgresOptions { mode, ..options(&url) }).await.unwrap_err();
        let StoreError::Unavailable(text) = &error else { panic!("{error:?}") };
        assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_in_five_seconds() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://somebody:hunter2@{}/x", silent.local_addr().unwrap());
    let began = Instant::now();
    let error = PostgresStore::open(options(&url)).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_refused_login_never_shows_the_password() {
    with_schema(|scratch| async move {
        let base = sqlx::postgres::PgConnectOptions::clone(&scratch.url.parse().unwrap());
        let nobody = base.username(&format!("tg_nobody_{}", random_name())).password("hunter2");
        let url = sqlx::ConnectOptions::to_url_lossy(&nobody).to_string();
        let error = PostgresStore::open(options(&url)).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_lost_connection_is_replaced_before_the_next_verb() {
    with_schema(|scratch| async move {
        let name = format!("tg_{}", random_name());
        let mut options = scratch.options(Mode::ReadWrite);
        let mark = if options.url.contains('?') { '&' } else { '?' };
        options.url = format!("{}{mark}application_name={name}", options.url);
        let store = PostgresStore::open(options).await.unwrap();
        let owner = enlisted(&store).await;
        let lease = begin(&store, &key("acme", "a"), owner).await;
        let killed = format!(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = '{name}'"
        );
        for round in 0..3 {
            scratch.admin(&killed).await;
            store.heartbeat(&owner, NOW).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
        scratch.admin(&killed).await;
        store.finish(&lease, finish(&lease, &["x"], vec![])).await.unwrap();
        assert_eq!(store.status(&tenant("acme")).await.unwrap().sessions, 1);
    })
    .await;
}

#[tokio::test]
async fn a_closed_store_says_so() {
    with_schema(|scratch| async move {
        let store = scratch.open().await;
        store.close().await;
        let error = store.enlist(id(), NOW).await.unwrap_err();
        assert!(error.to_string().contains("the store was closed"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_walks_away_leaves_nothing_half_done() {
    with_schema(|scratch| async move {
        let options = PostgresOptions { max_connections: 1, ..scratch.options(Mode::ReadWrite) };
        let store = PostgresStore::open(options).await.unwrap();
        let owner = enlisted(&store).await;
        let key = key("acme", "a");
        let request = || Accept { claim: false, ..accept(&key, owner) };
        for patience in 0..60 {
            let _ =
                tokio::time::timeout(Duration::from_micros(patience * 150), store.accept(request())).await;
        }
        let runs =
            store.runs(&tenant("acme"), RunFilter { limit: 100, ..RunFilter::default() }).await.unwrap();
        let places: i64 =
            sqlx::query_scalar("SELECT coalesce(sum(next_queue - 1), 0)::bigint FROM session_keys")
                .fetch_one(&mut scratch.superuser().await)
                .await
                .unwrap();
        assert_eq!(i64::try_from(runs.len()).unwrap(), places, "every place in the queue has its run");
        store.accept(request()).await.unwrap();
    })
    .await;
}
