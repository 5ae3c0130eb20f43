//! What a run reads of its log.

use rusqlite::{Connection, Row, params};
use tidegate_protocol::{Entry, SessionId};
use tidegate_storage::{Context, ContextLimits, ContextReader, Lease, Result};

use crate::chain::{Segment, Taken, entry, run_of, segments};
use crate::rows::{column, first, unsigned};

/// A log as far as its context depends on it.
struct Log {
    floor: i64,
    compactions: u32,
    flushed: bool,
    /// The last line that is not of this run.
    before_run: i64,
    begun: bool,
}

pub(crate) fn context(connection: &Connection, lease: &Lease, limits: ContextLimits) -> Result<Context> {
    let (tenant, session) = (lease.tenant().as_str(), lease.session);
    let log = first(
        connection,
        "SELECT s.floor_seq, s.compactions, s.flushed_compactions IS s.compactions AS flushed,
           coalesce(r.first_seq - 1, s.head_seq) AS before_run,
           EXISTS (SELECT 1 FROM entries e WHERE e.tenant_id = ?1 AND e.session_id = ?2 AND e.seq >= r.first_seq
             AND e.run_id = ?3 AND e.kind <> 'compaction') AS begun
         FROM sessions s LEFT JOIN runs r ON r.tenant_id = ?1 AND r.id = ?3
         WHERE s.tenant_id = ?1 AND s.id = ?2",
        params![tenant, session.to_string(), lease.run.to_string()],
        |row| {
            Ok(Log {
                floor: column(row, "floor_seq")?,
                compactions: unsigned(row, "compactions")?,
                flushed: column(row, "flushed")?,
                before_run: column(row, "before_run")?,
                begun: column(row, "begun")?,
            })
        },
    )?;
    let Some(log) = log else { return Ok(Context::default()) };
    let chain = segments(connection, tenant, session, 0)?;
    let (entries, cut) = newest(connection, lease, &chain, log.floor, limits)?;
    let summary = if log.compactions == 0 { None } else { summary(connection, tenant, &chain)? };
    Ok(Context {
        summary,
        entries,
        cut,
        compactions: log.compactions,
        flushed: log.flushed,
        touched_at: written_at(connection, tenant, &chain, log.before_run)?,
        begun: log.begun,
        summed_up: summed_up(connection, lease, &log)?,
    })
}

/// What the run said before the floor.
fn summed_up(connection: &Connection, lease: &Lease, log: &Log) -> Result<Vec<Entry>> {
    let mut own = Vec::new();
    if log.begun && log.before_run < log.floor {
        let below = Segment { session: lease.session, after: log.before_run, upto: log.floor };
        below.newest(connection, lease.tenant().as_str(), |row: &Row<'_>| {
            own.push(entry(row)?);
            Ok(Taken::More)
        })?;
    }
    own.retain(|entry: &Entry| entry.run_id == lease.run);
    own.reverse();
    Ok(own)
}

/// The newest lines after the floor that fit, oldest first, and whether there were more.
fn newest(
    connection: &Connection,
    lease: &Lease,
    chain: &[Segment],
    floor: i64,
    limits: ContextLimits,
) -> Result<(Vec<Entry>, bool)> {
    let tenant = lease.tenant().as_str();
    let mut reader = ContextReader::new(lease, limits);
    let mut take = |row: &Row<'_>| -> Result<Taken> {
        if !reader.wants(column::<i64>(row, "bytes")?.unsigned_abs(), run_of(row)?) {
            return Ok(Taken::Enough);
        }
        reader.take(entry(row)?);
        Ok(Taken::More)
    };
    let mut cut = false;
    for segment in chain.iter().filter(|segment| segment.upto > floor) {
        let after = segment.after.max(floor);
        if (Segment { after, ..*segment }).newest(connection, tenant, &mut take)? == Taken::Enough {
            cut = true;
            break;
        }
    }
    Ok((reader.into_entries(), cut))
}

/// The newest summary of the conversation.
pub(crate) fn summary(connection: &Connection, tenant: &str, chain: &[Segment]) -> Result<Option<Entry>> {
    for segment in chain {
        if let Some(summary) = segment.summary(connection, tenant)? {
            return Ok(Some(summary));
        }
    }
    Ok(None)
}

/// When the line was written.
fn written_at(connection: &Connection, tenant: &str, chain: &[Segment], seq: i64) -> Result<Option<i64>> {
    let holder = chain.iter().find(|segment| segment.after < seq && seq <= segment.upto);
    let Some(Segment { session, .. }) = holder else { return Ok(None) };
    line(connection, tenant, *session, seq, |row| column(row, "created_at"))
}

/// One line of a log itself.
pub(crate) fn line<T>(
    connection: &Connection,
    tenant: &str,
    session: SessionId,
    seq: i64,
    read: impl Fn(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    first(
        connection,
        "SELECT id, created_at FROM entries WHERE tenant_id = ?1 AND session_id = ?2 AND seq = ?3",
        params![tenant, session.to_string(), seq],
        read,
    )
}
