//! The audit trail's seals: every row once, in order, and no change goes unnoticed.

use tidegate_storage::{Break, Seal, check};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::{Backend, ScratchStore};

use crate::scene::{converse, enlist};

on_both_backends! {
    every_row_is_sealed_once_and_in_order,
    a_seal_is_bounded_and_the_rest_follows,
    rows_that_were_written_late_are_in_the_next_seal,
    seals_are_read_in_pages,
    a_changed_row_is_named,
    a_row_changed_with_its_digest_breaks_the_chain,
    a_removed_row_and_a_removed_seal_are_noticed,
    an_inserted_row_is_noticed,
    each_tenant_has_a_trail_of_its_own,
}

/// Everything that is wrong with the trail, as whoever verifies it finds out.
pub(super) async fn verify(store: &ScratchStore, make: &Requests) -> Vec<Break> {
    let mut breaks = Vec::new();
    let mut before: Option<Seal> = None;
    for seal in store.seals(make.tenant(), 0, 1_000).await.unwrap() {
        let rows = store.sealed_rows(make.tenant(), seal.number).await.unwrap();
        breaks.extend(check(before.as_ref(), &seal, &rows));
        before = Some(seal);
    }
    breaks
}

/// A trail with these many rows.
async fn write(store: &ScratchStore, make: &Requests, rows: u32) {
    let owner = match make.owner() {
        Some(owner) => owner,
        None => enlist(store, make).await,
    };
    for _ in 0..rows {
        converse(store, make, &make.key("work"), owner).await;
    }
}

async fn seal(store: &ScratchStore, make: &Requests, limit: u32) -> Option<Seal> {
    store.seal(make.tenant(), limit, make.now()).await.unwrap()
}

/// Two seals of two rows, and their rows' ids.
async fn sealed_trail(store: &ScratchStore, make: &Requests) -> Vec<String> {
    write(store, make, 4).await;
    seal(store, make, 2).await.unwrap();
    seal(store, make, 2).await.unwrap();
    assert_eq!(verify(store, make).await, []);
    let mut ids = Vec::new();
    for number in [1, 2] {
        let rows = store.sealed_rows(make.tenant(), number).await.unwrap();
        ids.extend(rows.into_iter().map(|row| row.content.id));
    }
    ids
}

async fn every_row_is_sealed_once_and_in_order(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    assert_eq!(seal(store, &make, 10).await, None);
    write(store, &make, 3).await;
    assert_eq!(store.unsealed(make.tenant()).await.unwrap(), 3);
    let now = make.now();
    let first = store.seal(make.tenant(), 10, now).await.unwrap().unwrap();
    assert_eq!((first.number, first.rows, first.sealed_at), (1, 3, now));
    assert_eq!(store.unsealed(make.tenant()).await.unwrap(), 0);
    assert_eq!(seal(store, &make, 10).await, None);
    let rows = store.sealed_rows(make.tenant(), 1).await.unwrap();
    let mut trail = store.audit(make.tenant(), 10).await.unwrap();
    trail.reverse();
    assert_eq!(
        rows.iter().map(|row| row.content.id.clone()).collect::<Vec<_>>(),
        trail.iter().map(|row| row.id.to_string()).collect::<Vec<_>>()
    );
    for row in &rows {
        assert_eq!((row.salt.len(), row.digest.len()), (32, 64));
    }
    assert_ne!(rows[0].salt, rows[1].salt);
    write(store, &make, 1).await;
    let second = seal(store, &make, 10).await.unwrap();
    assert_eq!((second.number, second.rows), (2, 1));
    assert_eq!(store.seals(make.tenant(), 0, 10).await.unwrap(), [first, second]);
    assert_eq!(verify(store, &make).await, []);
}

async fn a_seal_is_bounded_and_the_rest_follows(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    write(store, &make, 5).await;
    for expected in [2, 2, 1] {
        assert_eq!(seal(store, &make, 2).await.unwrap().rows, expected);
    }
    assert_eq!(seal(store, &make, 2).await, None);
    assert_eq!(verify(store, &make).await, []);
}

async fn rows_that_were_written_late_are_in_the_next_seal(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    write(store, &make, 2).await;
    seal(store, &make, 10).await.unwrap();
    write(store, &make, 2).await;
    // As if this one had got its number before all others and committed after them.
    let late = store.audit(make.tenant(), 1).await.unwrap()[0].id;
    let sql = match store.backend() {
        Backend::Sqlite => format!("UPDATE audit_logs SET ord = -1 WHERE id = '{late}'"),
        Backend::Postgres => format!(
            "INSERT INTO audit_logs (ord, tenant_id, id, actor, action, resource_type, resource_id, metadata_json,
               created_at) OVERRIDING SYSTEM VALUE
             SELECT -1, tenant_id, id, actor, action, resource_type, resource_id, metadata_json, created_at
             FROM audit_logs WHERE id = '{late}';
             DELETE FROM audit_logs WHERE id = '{late}' AND ord > 0"
        ),
    };
    store.execute(&sql).await;
    assert_eq!(store.unsealed(make.tenant()).await.unwrap(), 2);
    assert_eq!(seal(store, &make, 10).await.unwrap().rows, 2);
    let rows = store.sealed_rows(make.tenant(), 2).await.unwrap();
    assert_eq!(rows[0].content.id, late.to_string());
    assert_eq!(verify(store, &make).await, []);
}

async fn seals_are_read_in_pages(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    write(store, &make, 4).await;
    for _ in 0..4 {
        seal(store, &make, 1).await.unwrap();
    }
    let numbers = async |after: i64, limit: u32| {
        let seals = store.seals(make.tenant(), after, limit).await.unwrap();
        seals.into_iter().map(|seal| seal.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(0, 3).await, [1, 2, 3]);
    assert_eq!(numbers(3, 3).await, [4]);
    assert_eq!(numbers(4, 3).await, Vec::<i64>::new());
    assert_eq!(store.sealed_rows(make.tenant(), 5).await.unwrap(), []);
}

async fn a_changed_row_is_named(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let ids = sealed_trail(store, &make).await;
    for (column, value) in [
        ("actor", "'somebody'"),
        ("action", "'nothing.happened'"),
        ("resource_type", "'x'"),
        ("resource_id", "'x'"),
        ("metadata_json", "'{}'"),
        ("created_at", "created_at + 1"),
    ] {
        store
            .execute(&format!("CREATE TABLE kept AS SELECT * FROM audit_logs WHERE id = '{}'", ids[2]))
            .await;
        store.execute(&format!("UPDATE audit_logs SET {column} = {value} WHERE id = '{}'", ids[2])).await;
        let row = ids[2].clone();
        assert_eq!(verify(store, &make).await, [Break::Content { number: 2, row }], "{column}");
        let back =
            format!("UPDATE audit_logs SET {column} = (SELECT {column} FROM kept) WHERE id = '{}'", ids[2]);
        store.execute(&format!("{back}; DROP TABLE kept")).await;
        assert_eq!(verify(store, &make).await, []);
    }
}

async fn a_row_changed_with_its_digest_breaks_the_chain(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let ids = sealed_trail(store, &make).await;
    let mut row = store.sealed_rows(make.tenant(), 1).await.unwrap().remove(0);
    row.content.actor = "somebody".to_owned();
    let digest = row.content.digest(&row.salt);
    let sql =
        format!("UPDATE audit_logs SET actor = 'somebody', digest = '{digest}' WHERE id = '{}'", ids[0]);
    store.execute(&sql).await;
    assert_eq!(verify(store, &make).await, [Break::Chain { number: 1 }]);
}

async fn a_removed_row_and_a_removed_seal_are_noticed(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let ids = sealed_trail(store, &make).await;
    store.execute(&format!("DELETE FROM audit_logs WHERE id = '{}'", ids[3])).await;
    let rows = Break::Rows { number: 2, noted: 2, found: 1 };
    assert_eq!(verify(store, &make).await, [rows, Break::Chain { number: 2 }]);
    store.execute("DELETE FROM audit_seals WHERE number = 1").await;
    assert_eq!(verify(store, &make).await, [Break::MissingSeal { number: 1 }]);
}

async fn an_inserted_row_is_noticed(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let ids = sealed_trail(store, &make).await;
    let forged = |seal: i64| {
        format!(
            "INSERT INTO audit_logs (tenant_id, id, actor, action, resource_type, resource_id, metadata_json,
               created_at, seal, salt, digest)
             SELECT tenant_id, 'forged-{seal}', actor, action, resource_type, resource_id, metadata_json, created_at,
               {seal}, salt, digest FROM audit_logs WHERE id = '{}'",
            ids[0]
        )
    };
    // A seal that does not exist covers nothing.
    store.execute(&forged(9)).await;
    assert_eq!(verify(store, &make).await, []);
    assert_eq!(store.unsealed(make.tenant()).await.unwrap(), 1);
    store.execute(&forged(2)).await;
    let row = "forged-2".to_owned();
    assert_eq!(
        verify(store, &make).await,
        [
            Break::Content { number: 2, row },
            Break::Rows { number: 2, noted: 2, found: 3 },
            Break::Chain { number: 2 }
        ]
    );
}

async fn each_tenant_has_a_trail_of_its_own(store: &ScratchStore) {
    let (one, two) = (Requests::new("one", 1), Requests::new("two", 2));
    write(store, &one, 2).await;
    write(store, &two, 1).await;
    assert_eq!(seal(store, &one, 10).await.map(|seal| (seal.number, seal.rows)), Some((1, 2)));
    assert_eq!(store.unsealed(two.tenant()).await.unwrap(), 1);
    assert_eq!(store.seals(two.tenant(), 0, 10).await.unwrap(), []);
    assert_eq!(store.sealed_rows(two.tenant(), 1).await.unwrap(), []);
    assert_eq!(seal(store, &two, 10).await.map(|seal| (seal.number, seal.rows)), Some((1, 1)));
    assert_eq!((verify(store, &one).await, verify(store, &two).await), (vec![], vec![]));
}
