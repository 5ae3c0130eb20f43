//! A whole tenant as plain values, so that "nothing changed" and "everything is there" are one comparison.
//!
//! Two views: what the [`Library`](tidegate_storage::Library) shows, and every row of every table that has a tenant,
//! read past the backend. What a backend makes up by itself (ids of audit rows and their seals, the outbox's running
//! number, the database's clock) is left out.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tidegate_protocol::{Entry, TenantId};
use tidegate_storage::{
    AuditRow, OutboxRow, RunFilter, RunRow, SessionFilter, SessionRow, Store, StoreStatus, ToolRunRow,
};

/// More rows than any test makes.
pub const ALL: u32 = 10_000;

/// Rows by table, in an order that does not depend on the backend.
pub type Tables = BTreeMap<String, Vec<Value>>;

#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    pub library: LibraryView,
    pub tables: Tables,
}

impl Snapshot {
    /// Panics with what differs, and only that.
    #[track_caller]
    pub fn assert_same(&self, now: &Self) {
        assert_same(&format!("{self:#?}"), &format!("{now:#?}"));
    }
}

/// Compares two long texts and panics with the lines that only one of them has.
#[track_caller]
pub fn assert_same(expected: &str, found: &str) {
    if expected == found {
        return;
    }
    let only = |sign: char, text: &str, other: &str| {
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        for line in other.lines() {
            *known.entry(line).or_default() += 1;
        }
        let mut lines = String::new();
        for line in text.lines() {
            match known.get_mut(line) {
                Some(count) if *count > 0 => *count -= 1,
                _ => lines.extend([sign.to_string().as_str(), line, "\n"]),
            }
        }
        lines
    };
    panic!(
        "expected (-) and found (+) differ:\n{}{}",
        only('-', expected, found),
        only('+', found, expected)
    );
}

/// Everything the library's reads say about a tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct LibraryView {
    pub sessions: Vec<SessionRow>,
    pub entries: Vec<Entry>,
    pub runs: Vec<RunRow>,
    pub tool_runs: Vec<ToolRunRow>,
    pub outbox: Vec<OutboxRow>,
    pub audit: Vec<AuditRow>,
    pub status: StoreStatus,
}

pub async fn library(store: &dyn Store, tenant: &TenantId) -> LibraryView {
    const READS: &str = "a read works at any time";
    let runs = store.runs(tenant, RunFilter { limit: ALL, ..RunFilter::default() }).await.expect(READS);
    let mut logs: Vec<_> = runs.iter().filter_map(|run| run.session).collect();
    logs.sort_unstable();
    logs.dedup();
    let (mut entries, mut tool_runs, mut outbox) = (Vec::new(), Vec::new(), Vec::new());
    for log in logs {
        entries.extend(store.entries(tenant, log, 0, ALL).await.expect(READS));
    }
    for run in &runs {
        tool_runs.extend(store.tool_runs(tenant, run.id).await.expect(READS));
        outbox.extend(store.outbox_of(tenant, run.id).await.expect(READS));
    }
    LibraryView {
        sessions: store
            .sessions(tenant, SessionFilter { agent: None, all: true, limit: ALL })
            .await
            .expect(READS),
        entries,
        runs,
        tool_runs,
        outbox,
        audit: store.audit(tenant, ALL).await.expect(READS),
        status: StoreStatus { bytes: None, ..store.status(tenant).await.expect(READS) },
    }
}

/// Columns that the backend fills from its own clock, counter or randomness.
const OWN_COLUMNS: &[(&str, &str)] = &[
    ("audit_logs", "id"),
    ("audit_logs", "ord"),
    ("audit_logs", "salt"),
    ("audit_logs", "digest"),
    ("audit_seals", "chain"),
    ("outbox", "ord"),
];

/// Takes out what is the backend's own and brings the rows into one order.
pub(crate) fn canonical(table: &str, mut rows: Vec<Map<String, Value>>) -> Vec<Value> {
    // The running number itself is nobody's business, the order it gives is.
    rows.sort_by_key(|row| row.get("ord").and_then(Value::as_i64));
    for row in &mut rows {
        row.retain(|column, _| !OWN_COLUMNS.contains(&(table, column.as_str())));
        row.sort_keys();
    }
    let mut rows: Vec<Value> = rows.into_iter().map(Value::Object).collect();
    if table != "outbox" {
        rows.sort_by_cached_key(Value::to_string);
    }
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_told_without_what_is_the_same() {
        let panic = std::panic::catch_unwind(|| assert_same("a\nb\nc\nc", "a\nc\nd")).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert_eq!(message, "expected (-) and found (+) differ:\n-b\n-c\n+d\n");
    }

    #[test]
    fn rows_are_ordered_by_what_they_say_and_parts_by_their_commit() {
        let rows =
            |values: &[Value]| values.iter().map(|row| row.as_object().unwrap().clone()).collect::<Vec<_>>();
        let parts = rows(&[json!({"ord": 9, "id": "a"}), json!({"id": "b", "ord": 3})]);
        assert_eq!(canonical("outbox", parts), [json!({"id": "b"}), json!({"id": "a"})]);
        let audit = rows(&[json!({"id": "1", "action": "z"}), json!({"id": "2", "action": "a"})]);
        assert_eq!(canonical("audit_logs", audit), [json!({"action": "a"}), json!({"action": "z"})]);
    }
}
