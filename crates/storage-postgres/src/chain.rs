//! A log and the logs it was forked from, read as one.

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::{Entry, EntryBody, SessionId};
use tidegate_storage::{Lease, PICTURE_BYTES, Result, countable};

use crate::error::{TxResult, unreadable};
use crate::rows::{collect, column, parsed, parsed_or_none, unsigned};

/// What [`entry`] reads.
macro_rules! entry_columns {
    () => {
        "session_id, seq, id, parent_id, run_id, kind, body, created_at"
    };
}
pub(crate) use entry_columns;

/// Lines of one log that belong to a conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) session: SessionId,
    /// The lines after this one…
    pub(crate) after: i64,
    /// …up to this one.
    pub(crate) upto: i64,
}

/// Where the lines of a log after `after` are, the newest first. As many steps as there are forks in that part. None
/// when there is no such log.
pub(crate) async fn segments(
    transaction: &mut PgConnection,
    tenant: &str,
    session: SessionId,
    after: i64,
) -> TxResult<Vec<Segment>> {
    let rows = sqlx::query(
        "WITH RECURSIVE chain (id, parent_id, fork_seq, upto, place) AS (
           SELECT id, parent_id, fork_seq, 9223372036854775807, 1 FROM sessions WHERE tenant_id = $1 AND id = $2
           UNION ALL
           SELECT p.id, p.parent_id, p.fork_seq, least(c.fork_seq, c.upto), c.place + 1
           FROM chain c JOIN sessions p ON p.tenant_id = $1 AND p.id = c.parent_id WHERE c.fork_seq > $3)
         SELECT id, greatest(fork_seq, $3) AS after, upto FROM chain ORDER BY place",
    )
    .bind(tenant)
    .bind(session.to_string())
    .bind(after)
    .fetch_all(transaction)
    .await?;
    let read = |row: &PgRow| {
        Ok(Segment { session: parsed(row, "id")?, after: column(row, "after")?, upto: column(row, "upto")? })
    };
    Ok(collect(&rows, read)?)
}

impl Segment {
    /// The oldest lines of the segment.
    pub(crate) async fn oldest(
        &self,
        transaction: &mut PgConnection,
        tenant: &str,
        limit: u32,
    ) -> TxResult<Vec<Entry>> {
        let rows = sqlx::query(concat!(
            "SELECT ",
            entry_columns!(),
            " FROM entries WHERE tenant_id = $1 AND session_id = $2 AND seq > $3 AND seq <= $4 ORDER BY seq LIMIT $5"
        ))
        .bind(tenant)
        .bind(self.session.to_string())
        .bind(self.after)
        .bind(self.upto)
        .bind(i64::from(limit))
        .fetch_all(transaction)
        .await?;
        Ok(collect(&rows, entry)?)
    }

    /// Its newest lines with their sizes, the newest first: at most `limit`, and no more than one beyond those that fit
    /// into `bytes`, where the first always fits and so do the run's own. Summaries are no lines of the conversation.
    pub(crate) async fn newest(
        &self,
        transaction: &mut PgConnection,
        lease: &Lease,
        limit: i64,
        bytes: i64,
    ) -> TxResult<Vec<PgRow>> {
        let rows = sqlx::query(concat!(
            "SELECT ",
            entry_columns!(),
            ", bytes FROM (
               SELECT *, sum(CASE WHEN run_id = $7 THEN 0 ELSE bytes END) OVER newest_first AS sum, row_number() OVER newest_first AS place FROM (
                 SELECT ",
            entry_columns!(),
            ", CASE WHEN position('\"type\":\"image\"' in body) > 0 THEN least(octet_length(body)::bigint, $8)
                   ELSE octet_length(body)::bigint END AS bytes FROM entries
                 WHERE tenant_id = $1 AND session_id = $2 AND seq > $3 AND seq <= $4 AND kind <> 'compaction'
                 ORDER BY seq DESC LIMIT $5) AS newest
               WINDOW newest_first AS (ORDER BY seq DESC)) AS summed
             WHERE sum - bytes <= $6 OR place <= 2 OR run_id = $7 ORDER BY seq DESC"
        ))
        .bind(lease.tenant().as_str())
        .bind(self.session.to_string())
        .bind(self.after)
        .bind(self.upto)
        .bind(limit)
        .bind(bytes)
        .bind(lease.run.to_string())
        .bind(countable(PICTURE_BYTES))
        .fetch_all(transaction)
        .await?;
        Ok(rows)
    }

    /// The newest summary among its lines.
    pub(crate) async fn summary(
        &self,
        transaction: &mut PgConnection,
        tenant: &str,
    ) -> TxResult<Option<Entry>> {
        let row = sqlx::query(concat!(
            "SELECT ",
            entry_columns!(),
            " FROM entries
             WHERE tenant_id = $1 AND session_id = $2 AND seq > $3 AND seq <= $4 AND kind = 'compaction'
             ORDER BY seq DESC LIMIT 1"
        ))
        .bind(tenant)
        .bind(self.session.to_string())
        .bind(self.after)
        .bind(self.upto)
        .fetch_optional(transaction)
        .await?;
        Ok(row.as_ref().map(entry).transpose()?)
    }

    /// How many summaries are among its lines.
    pub(crate) async fn summaries(&self, transaction: &mut PgConnection, tenant: &str) -> TxResult<u32> {
        let row = sqlx::query(
            "SELECT count(*) AS n FROM entries
             WHERE tenant_id = $1 AND session_id = $2 AND seq > $3 AND seq <= $4 AND kind = 'compaction'",
        )
        .bind(tenant)
        .bind(self.session.to_string())
        .bind(self.after)
        .bind(self.upto)
        .fetch_one(transaction)
        .await?;
        Ok(unsigned(&row, "n")?)
    }
}

pub(crate) fn entry(row: &PgRow) -> Result<Entry> {
    let body = EntryBody::from_stored(column(row, "kind")?, column(row, "body")?);
    Ok(Entry {
        session_id: parsed(row, "session_id")?,
        seq: column(row, "seq")?,
        id: parsed(row, "id")?,
        parent_id: parsed_or_none(row, "parent_id")?,
        run_id: parsed(row, "run_id")?,
        created_at: column(row, "created_at")?,
        body: body.map_err(|error| unreadable("body", error))?,
    })
}
