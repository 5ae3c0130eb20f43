//! What a run reads of its log.

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tidegate_protocol::{Entry, SessionId};
use tidegate_storage::{Context, ContextLimits, ContextReader, Lease};

use crate::chain::{Segment, entry, segments};
use crate::error::TxResult;
use crate::rows::{column, parsed, parsed_or_none, unsigned};

/// Lines that are read at once when only some turns are wanted. Few turns are longer than that.
const LINES_A_TURN: u64 = 8;

pub(crate) async fn context(
    transaction: &mut PgConnection,
    lease: &Lease,
    limits: ContextLimits,
) -> TxResult<Context> {
    let (tenant, session) = (lease.tenant().as_str(), lease.session);
    let log = sqlx::query(
        "SELECT s.floor_seq, s.compactions, s.parent_id,
           s.flushed_compactions IS NOT DISTINCT FROM s.compactions AS flushed,
           coalesce(r.first_seq - 1, s.head_seq) AS before_run,
           EXISTS (SELECT 1 FROM entries e WHERE e.tenant_id = $1 AND e.session_id = $2 AND e.seq >= r.first_seq
             AND e.run_id = $3 AND e.kind <> 'compaction') AS begun
         FROM sessions s LEFT JOIN runs r ON r.tenant_id = $1 AND r.id = $3
         WHERE s.tenant_id = $1 AND s.id = $2",
    )
    .bind(tenant)
    .bind(session.to_string())
    .bind(lease.run.to_string())
    .fetch_optional(&mut *transaction)
    .await?;
    let Some(log) = log else { return Ok(Context::default()) };
    let chain = match parsed_or_none::<SessionId>(&log, "parent_id")? {
        Some(_) => segments(transaction, tenant, session, 0).await?,
        None => vec![Segment { session, after: 0, upto: i64::MAX }],
    };
    let (entries, cut) = newest(transaction, lease, &chain, column(&log, "floor_seq")?, limits).await?;
    let compactions = unsigned(&log, "compactions")?;
    let summary = if compactions == 0 { None } else { summary(transaction, tenant, &chain).await? };
    let touched_at = written_at(transaction, tenant, &chain, column(&log, "before_run")?).await?;
    let (flushed, begun) = (column(&log, "flushed")?, column(&log, "begun")?);
    let summed_up = if begun { summed_up(transaction, lease, &log).await? } else { Vec::new() };
    Ok(Context { summary, entries, cut, compactions, flushed, touched_at, begun, summed_up })
}

/// What the run said before the floor.
async fn summed_up(transaction: &mut PgConnection, lease: &Lease, log: &PgRow) -> TxResult<Vec<Entry>> {
    let (after, upto) = (column::<i64>(log, "before_run")?, column::<i64>(log, "floor_seq")?);
    if after >= upto {
        return Ok(Vec::new());
    }
    let below = Segment { session: lease.session, after, upto };
    let rows = below.newest(transaction, lease, i64::from(u32::MAX), i64::MAX).await?;
    let mut own = rows.iter().map(entry).collect::<Result<Vec<Entry>, _>>()?;
    own.retain(|entry| entry.run_id == lease.run);
    own.reverse();
    Ok(own)
}

/// The newest lines after the floor that fit, oldest first, and whether there were more.
async fn newest(
    transaction: &mut PgConnection,
    lease: &Lease,
    chain: &[Segment],
    floor: i64,
    limits: ContextLimits,
) -> TxResult<(Vec<Entry>, bool)> {
    let page = u64::from(limits.turns).saturating_mul(LINES_A_TURN);
    let mut reader = ContextReader::new(lease, limits);
    for segment in chain.iter().filter(|segment| segment.upto > floor) {
        let mut segment = Segment { after: segment.after.max(floor), ..*segment };
        loop {
            let (lines, bytes) = reader.left();
            let most = saturated(lines.saturating_add(1).min(page.max(2)));
            let rows = segment.newest(transaction, lease, most, saturated(bytes)).await?;
            for row in &rows {
                if !reader.wants(column::<i64>(row, "bytes")?.unsigned_abs(), parsed(row, "run_id")?) {
                    return Ok((reader.into_entries(), true));
                }
                segment.upto = column::<i64>(row, "seq")? - 1;
                reader.take(entry(row)?);
            }
            if i64::try_from(rows.len()).unwrap_or(i64::MAX) < most {
                break;
            }
        }
    }
    Ok((reader.into_entries(), false))
}

fn saturated(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The newest summary of the conversation.
pub(crate) async fn summary(
    transaction: &mut PgConnection,
    tenant: &str,
    chain: &[Segment],
) -> TxResult<Option<Entry>> {
    for segment in chain {
        if let Some(summary) = segment.summary(transaction, tenant).await? {
            return Ok(Some(summary));
        }
    }
    Ok(None)
}

/// When the line was written.
async fn written_at(
    transaction: &mut PgConnection,
    tenant: &str,
    chain: &[Segment],
    seq: i64,
) -> TxResult<Option<i64>> {
    let holder = chain.iter().find(|segment| segment.after < seq && seq <= segment.upto);
    let Some(Segment { session, .. }) = holder else { return Ok(None) };
    let written = sqlx::query_scalar(
        "SELECT created_at FROM entries WHERE tenant_id = $1 AND session_id = $2 AND seq = $3",
    )
    .bind(tenant)
    .bind(session.to_string())
    .bind(seq)
    .fetch_optional(transaction)
    .await?;
    Ok(written)
}
