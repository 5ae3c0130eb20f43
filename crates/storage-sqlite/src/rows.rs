//! Reading stored columns back into their types.

use rusqlite::{Error, Row, types::FromSql};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::str::FromStr;
use tidegate_protocol::{Cost, Usage};
use tidegate_storage::{Result, StoreError};

use crate::error::{store_error, unreadable};

/// A column that SQLite can read by itself.
pub(crate) fn column<T: FromSql>(row: &Row<'_>, name: &str) -> Result<T> {
    row.get(name).map_err(|error| match error {
        Error::SqliteFailure(..) => store_error(error),
        // We wrote it as that type, so somebody else wrote over it.
        other => unreadable(name, other),
    })
}

/// A text column that one of our types reads.
pub(crate) fn parsed<T: FromStr>(row: &Row<'_>, name: &str) -> Result<T>
where
    T::Err: std::fmt::Display,
{
    let text: String = column(row, name)?;
    text.parse().map_err(|error| unreadable(name, error))
}

pub(crate) fn parsed_or_none<T: FromStr>(row: &Row<'_>, name: &str) -> Result<Option<T>>
where
    T::Err: std::fmt::Display,
{
    let text: Option<String> = column(row, name)?;
    text.map(|text| text.parse().map_err(|error| unreadable(name, error))).transpose()
}

pub(crate) fn json<T: DeserializeOwned>(row: &Row<'_>, name: &str) -> Result<T> {
    let text: String = column(row, name)?;
    serde_json::from_str(&text).map_err(|error| unreadable(name, error))
}

pub(crate) fn json_or_none<T: DeserializeOwned>(row: &Row<'_>, name: &str) -> Result<Option<T>> {
    let text: Option<String> = column(row, name)?;
    text.map(|text| serde_json::from_str(&text).map_err(|error| unreadable(name, error))).transpose()
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Internal(error.to_string()))
}

/// Counts and token numbers are never negative; a damaged file could say otherwise.
pub(crate) fn unsigned<T: TryFrom<i64>>(row: &Row<'_>, name: &str) -> Result<T> {
    let value: i64 = column(row, name)?;
    T::try_from(value).map_err(|_| unreadable(name, value))
}

/// A column that data of an older release does not have: a reader may meet it.
pub(crate) fn later<T: FromSql>(row: &Row<'_>, name: &str) -> Result<Option<T>> {
    if row.as_ref().column_index(name).is_err() {
        return Ok(None);
    }
    column(row, name)
}

/// What was used, as the four counts and the cost are named everywhere.
pub(crate) fn usage(row: &Row<'_>) -> Result<Usage> {
    let count = |name: &str| {
        let value: i64 = later(row, name)?.unwrap_or(0);
        u64::try_from(value).map_err(|_| unreadable(name, value))
    };
    Ok(Usage {
        input: count("token_input")?,
        output: count("token_output")?,
        cache_read: count("token_cache_read")?,
        cache_write: count("token_cache_write")?,
        cost: Cost(count("cost")?),
    })
}

/// All rows of a query, each read by `read`.
pub(crate) fn collect<T>(
    connection: &rusqlite::Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl Fn(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params).map_err(store_error)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        all.push(read(row)?);
    }
    Ok(all)
}

/// The first row of a query, if there is one.
pub(crate) fn first<T>(
    connection: &rusqlite::Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl Fn(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params).map_err(store_error)?;
    rows.next().map_err(store_error)?.map(read).transpose()
}

/// Runs a write and says how many rows it touched.
pub(crate) fn execute(
    connection: &rusqlite::Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<usize> {
    connection.prepare_cached(sql).and_then(|mut statement| statement.execute(params)).map_err(store_error)
}
