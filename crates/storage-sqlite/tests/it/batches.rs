//! Group commit and the write-ahead log.

use futures_util::future::join_all;
use tidegate_storage::{
    Admission, Idempotency, Instances as _, Library as _, RunFilter, RunLookup, Runs as _, StoreError,
};
use tidegate_storage_sqlite::{Mode, SqliteOptions, SqliteStore};
use tidegate_testkit::requests::Requests;

use crate::{enlisted, integrity, open};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_that_wait_together_are_committed_together() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::ReadWrite).unwrap();
    let requests = enlisted(&store, 1).await;
    let (commits, verbs) = store.commits_and_verbs();
    let accepts = (0..200).map(|at| store.accept(requests.accept(&requests.key(&format!("s{at}")))));
    for accepted in join_all(accepts).await {
        accepted.unwrap();
    }
    let (commits, verbs) = (store.commits_and_verbs().0 - commits, store.commits_and_verbs().1 - verbs);
    assert_eq!(verbs, 200);
    assert!(commits <= 100, "{commits} commits for {verbs} verbs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verb_that_fails_takes_nothing_of_its_batch_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::ReadWrite).unwrap();
    let requests = enlisted(&store, 2).await;
    let key = requests.key("main");
    let mut first = requests.accept(&key);
    first.idempotency = Some(Idempotency::new("k", b"one", i64::MAX));
    store.accept(first).await.unwrap();
    let jobs = (0..100).map(|at| {
        let mut accept = requests.accept(&key);
        if at % 3 == 0 {
            accept.idempotency = Some(Idempotency::new("k", b"another", i64::MAX));
        }
        store.accept(accept)
    });
    let results = join_all(jobs).await;
    let (kept, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!((kept.len(), refused.len()), (66, 34));
    assert!(refused.iter().all(|error| *error == Err(StoreError::IdempotencyConflict)));
    let filter = RunFilter { limit: 1000, ..RunFilter::default() };
    assert_eq!(store.runs(requests.tenant(), filter).await.unwrap().len(), 67);
}

#[tokio::test]
async fn dropping_the_store_folds_the_log_into_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::ReadWrite).unwrap();
    let requests = enlisted(&store, 3).await;
    store.accept(requests.accept(&requests.key("main"))).await.unwrap();
    assert_eq!(
        store.runs(requests.tenant(), RunFilter { limit: 9, ..RunFilter::default() }).await.unwrap().len(),
        1
    );
    drop(store);
    assert!(!folder.path().join("tidegate.db-wal").exists());
    assert_eq!(integrity(folder.path()), "ok");
}

/// Waits until the log has the room of a warm one.
async fn grown(wal: &std::path::Path) {
    let size = || std::fs::metadata(wal).unwrap().len();
    for _ in 0..200 {
        if size() >= 4 << 20 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the log is not grown: {}", size());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_committed_into_a_warm_log_is_there_after_a_crash() {
    let (folder, crashed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut options = SqliteOptions::new(folder.path().join("tidegate.db"), Mode::ReadWrite);
    options.warm_wal = true;
    let store = SqliteStore::open(&options).unwrap();
    let requests = Requests::new("local", 4);
    let owner = store.enlist(requests.id(), 0).await.unwrap();
    grown(&folder.path().join("tidegate.db-wal")).await;
    let mut before = requests.accept(&requests.key("after the log was grown"));
    (before.owner, before.claim) = (owner, true);
    let accepted = store.accept(before).await.unwrap().run;
    // What a crash leaves: the files as they are, nothing folded, and no memory that somebody shares.
    for file in ["tidegate.db", "tidegate.db-wal"] {
        std::fs::copy(folder.path().join(file), crashed.path().join(file)).unwrap();
    }
    let again =
        SqliteStore::open(&SqliteOptions::new(crashed.path().join("tidegate.db"), Mode::ReadWrite)).unwrap();
    let tenant = requests.key("x").scope.tenant;
    assert!(again.run(&tenant, &RunLookup::Id(accepted)).await.unwrap().is_some());
    drop(again);
    assert_eq!(integrity(crashed.path()), "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_write_ahead_log_stays_bounded_and_a_warm_one_is_reused() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = SqliteOptions::new(folder.path().join("tidegate.db"), Mode::ReadWrite);
    options.warm_wal = true;
    let store = SqliteStore::open(&options).unwrap();
    let wal = folder.path().join("tidegate.db-wal");
    grown(&wal).await;
    let requests = Requests::new("local", 4);
    let owner = store.enlist(requests.id(), 0).await.unwrap();
    // About 60 MB of pages go through a log that may hold 32.
    for round in 0..60 {
        let turns = (0..64).map(|at| {
            let mut accept = requests.accept(&requests.key(&format!("s{round}-{at}")));
            (accept.owner, accept.claim) = (owner, true);
            let (store, requests) = (&store, &requests);
            async move {
                let Admission::Claimed(lease) = store.accept(accept).await.unwrap().admission else {
                    panic!()
                };
                let mut finish = requests.completed();
                finish.entries[0] = requests.user(&"x".repeat(8_000));
                store.finish(&lease, finish).await.unwrap();
            }
        });
        join_all(turns).await;
    }
    let largest = std::fs::metadata(&wal).unwrap().len();
    assert!(largest <= 48 << 20, "{largest}");
}
