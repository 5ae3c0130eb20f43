//! Looking through the lines. A scan: what can match is found by Postgres, what does match here.

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::{AgentId, Entry, TenantId};
use tidegate_storage::{Result, Search};

use crate::chain::{Segment, entry, entry_columns, segments};
use crate::error::TxResult;
use crate::open::{AGENT, PostgresStore};
use crate::transaction::Open;

/// Lines of one log that are read at once.
const PAGE: i64 = 200;

pub(crate) async fn search(
    postgres: &PostgresStore,
    tenant: &TenantId,
    wanted: &Search,
) -> Result<Vec<Entry>> {
    let forks = postgres.version() >= AGENT;
    postgres
        .read(tenant, |Open { transaction, .. }| Box::pin(look(transaction, tenant.as_str(), wanted, forks)))
        .await
}

async fn look(
    transaction: &mut PgConnection,
    tenant: &str,
    wanted: &Search,
    forks: bool,
) -> TxResult<Vec<Entry>> {
    let mut found = Vec::new();
    let Some(session) = wanted.session else {
        open_cursor(transaction, tenant, wanted).await?;
        loop {
            let rows = sqlx::query("FETCH 200 FROM lines").fetch_all(&mut *transaction).await?;
            if keep(&rows, wanted, &mut found)?.is_none() {
                return Ok(found);
            }
        }
    };
    let chain = if forks {
        segments(transaction, tenant, session, 0).await?
    } else {
        vec![Segment { session, after: 0, upto: i64::MAX }]
    };
    for mut segment in chain {
        loop {
            let rows = newest_of(transaction, tenant, wanted, segment).await?;
            let Some(last) = keep(&rows, wanted, &mut found)? else { break };
            segment.upto = last.seq - 1;
        }
    }
    Ok(found)
}

/// Keeps the rows that match. Answers the last one read if more are wanted and there may be more.
fn keep(rows: &[PgRow], wanted: &Search, found: &mut Vec<Entry>) -> Result<Option<Entry>> {
    let mut last = None;
    for row in rows {
        if found.len() >= wanted.limit as usize {
            return Ok(None);
        }
        let entry = entry(row)?;
        if wanted.finds(&entry.body) {
            found.push(entry.clone());
        }
        last = Some(entry);
    }
    Ok(last)
}

/// All lines of the tenant that may match, the newest first. A cursor: they are sorted once, and read as far as needed.
async fn open_cursor(transaction: &mut PgConnection, tenant: &str, wanted: &Search) -> TxResult<()> {
    sqlx::query(concat!(
        "DECLARE lines NO SCROLL CURSOR FOR SELECT ",
        entry_columns!(),
        " FROM entries WHERE tenant_id = $1 AND position($2 IN lower(body COLLATE \"C\")) > 0
           AND ($3::text IS NULL OR EXISTS (SELECT 1 FROM sessions s
             WHERE s.tenant_id = $1 AND s.id = entries.session_id AND s.agent_id = $3))
         ORDER BY created_at DESC, seq DESC, id DESC"
    ))
    .bind(tenant)
    .bind(wanted.needle())
    .bind(wanted.agent.as_ref().map(AgentId::as_str))
    .execute(transaction)
    .await?;
    Ok(())
}

/// A page of lines of a segment that may match.
async fn newest_of(
    transaction: &mut PgConnection,
    tenant: &str,
    wanted: &Search,
    segment: Segment,
) -> TxResult<Vec<PgRow>> {
    let rows = sqlx::query(concat!(
        "SELECT ",
        entry_columns!(),
        " FROM entries
         WHERE tenant_id = $1 AND position($2 IN lower(body COLLATE \"C\")) > 0
           AND session_id = $3 AND seq > $4 AND seq <= $5
         ORDER BY seq DESC LIMIT $6"
    ))
    .bind(tenant)
    .bind(wanted.needle())
    .bind(segment.session.to_string())
    .bind(segment.after)
    .bind(segment.upto)
    .bind(PAGE)
    .fetch_all(transaction)
    .await?;
    Ok(rows)
}
