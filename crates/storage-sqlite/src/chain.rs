//! A log and the logs it was forked from, read as one.

use std::fmt::Display;
use std::str::FromStr;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use tidegate_protocol::{Entry, EntryBody, RunId, SessionId};
use tidegate_storage::{PICTURE_BYTES, Result, countable};

use crate::error::{store_error, unreadable};
use crate::migrate::has_schema;
use crate::rows::{collect, column, first, parsed_or_none, unsigned};

/// The schema that brought forks.
const FORKS: u32 = 6;

/// Lines of one log that belong to a conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) session: SessionId,
    /// The lines after this one…
    pub(crate) after: i64,
    /// …up to this one.
    pub(crate) upto: i64,
}

/// Where the lines of a log after `after` are, the newest first. As many steps as there are forks in that part.
pub(crate) fn segments(
    connection: &Connection,
    tenant: &str,
    session: SessionId,
    after: i64,
) -> Result<Vec<Segment>> {
    if !has_schema(connection, FORKS)? {
        return Ok(vec![Segment { session, after, upto: i64::MAX }]);
    }
    let mut segments = Vec::new();
    let mut next = Some((session, i64::MAX));
    while let Some((session, upto)) = next {
        let fork = first(
            connection,
            "SELECT parent_id, fork_seq FROM sessions WHERE tenant_id = ?1 AND id = ?2",
            params![tenant, session.to_string()],
            |row| Ok((parsed_or_none::<SessionId>(row, "parent_id")?, column::<i64>(row, "fork_seq")?)),
        )?;
        let (parent, fork_seq) = fork.unwrap_or((None, 0));
        segments.push(Segment { session, after: fork_seq.max(after), upto });
        next = parent.filter(|_| fork_seq > after).map(|parent| (parent, fork_seq.min(upto)));
    }
    Ok(segments)
}

impl Segment {
    /// The oldest lines of the segment.
    pub(crate) fn oldest(&self, connection: &Connection, tenant: &str, limit: u32) -> Result<Vec<Entry>> {
        collect(
            connection,
            "SELECT * FROM entries WHERE tenant_id = ?1 AND session_id = ?2 AND seq > ?3 AND seq <= ?4
             ORDER BY seq LIMIT ?5",
            params![tenant, self.session.to_string(), self.after, self.upto, limit],
            entry,
        )
    }

    /// Hands its lines to `take`, the newest first, until that has enough. Summaries are no lines of the conversation.
    pub(crate) fn newest(
        &self,
        connection: &Connection,
        tenant: &str,
        mut take: impl FnMut(&Row<'_>) -> Result<Taken>,
    ) -> Result<Taken> {
        let mut statement = connection
            .prepare_cached(
                "SELECT *, CASE WHEN instr(body, '\"type\":\"image\"') > 0 THEN min(octet_length(body), ?5)
                   ELSE octet_length(body) END AS bytes FROM entries
                 WHERE tenant_id = ?1 AND session_id = ?2 AND seq > ?3 AND seq <= ?4 AND kind <> 'compaction'
                 ORDER BY seq DESC",
            )
            .map_err(store_error)?;
        let mut rows = statement
            .query(params![tenant, self.session.to_string(), self.after, self.upto, countable(PICTURE_BYTES)])
            .map_err(store_error)?;
        while let Some(row) = rows.next().map_err(store_error)? {
            if take(row)? == Taken::Enough {
                return Ok(Taken::Enough);
            }
        }
        Ok(Taken::More)
    }

    /// The newest summary among its lines.
    pub(crate) fn summary(&self, connection: &Connection, tenant: &str) -> Result<Option<Entry>> {
        first(
            connection,
            "SELECT * FROM entries INDEXED BY entries_compactions
             WHERE tenant_id = ?1 AND session_id = ?2 AND seq > ?3 AND seq <= ?4 AND kind = 'compaction'
             ORDER BY seq DESC LIMIT 1",
            params![tenant, self.session.to_string(), self.after, self.upto],
            entry,
        )
    }

    /// How many summaries are among its lines.
    pub(crate) fn summaries(&self, connection: &Connection, tenant: &str) -> Result<u32> {
        let count = first(
            connection,
            "SELECT count(*) AS n FROM entries INDEXED BY entries_compactions
             WHERE tenant_id = ?1 AND session_id = ?2 AND seq > ?3 AND seq <= ?4 AND kind = 'compaction'",
            params![tenant, self.session.to_string(), self.after, self.upto],
            |row| unsigned(row, "n"),
        )?;
        Ok(count.unwrap_or(0))
    }
}

/// Whether a reader wants to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    More,
    Enough,
}

/// A line of the log, from a row that begins with all columns of `entries`. Whole conversations are read at every turn, so
/// they are found by their places, which migrations never change, and nothing is copied on the way.
pub(crate) fn entry(row: &Row<'_>) -> Result<Entry> {
    let body = EntryBody::from_stored(text_at(row, 6, "kind")?, text_at(row, 7, "body")?);
    Ok(Entry {
        session_id: id_at(row, 1, "session_id")?,
        seq: row.get(2).map_err(|error| unreadable("seq", error))?,
        id: id_at(row, 3, "id")?,
        parent_id: match row.get_ref(4) {
            Ok(ValueRef::Null) => None,
            _ => Some(id_at(row, 4, "parent_id")?),
        },
        run_id: run_of(row)?,
        created_at: row.get(8).map_err(|error| unreadable("created_at", error))?,
        body: body.map_err(|error| unreadable("body", error))?,
    })
}

/// Whose line it is.
pub(crate) fn run_of(row: &Row<'_>) -> Result<RunId> {
    id_at(row, 5, "run_id")
}

fn id_at<T: FromStr<Err: Display>>(row: &Row<'_>, place: usize, name: &str) -> Result<T> {
    text_at(row, place, name)?.parse().map_err(|error| unreadable(name, error))
}

fn text_at<'row>(row: &'row Row<'_>, place: usize, name: &str) -> Result<&'row str> {
    let value = row.get_ref(place).map_err(|error| unreadable(name, error))?;
    value.as_str().map_err(|error| unreadable(name, error))
}
