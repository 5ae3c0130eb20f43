//! Reading stored columns back into their types.

use std::str::FromStr;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::postgres::{PgRow, Postgres};
use sqlx::{Decode, Row as _, Type};
use tidegate_protocol::{Cost, ErrorBody, ErrorCode, Usage};
use tidegate_storage::{Result, StoreError};

use crate::error::unreadable;
use crate::text::restore;

/// A column that the driver can read by itself.
pub(crate) fn column<'r, T: Decode<'r, Postgres> + Type<Postgres>>(row: &'r PgRow, name: &str) -> Result<T> {
    row.try_get(name).map_err(|error| unreadable(name, error))
}

/// Text from outside.
pub(crate) fn text(row: &PgRow, name: &str) -> Result<String> {
    column(row, name).map(restore)
}

pub(crate) fn text_or_none(row: &PgRow, name: &str) -> Result<Option<String>> {
    Ok(column::<Option<String>>(row, name)?.map(restore))
}

/// A text column that one of our types reads.
pub(crate) fn parsed<T: FromStr>(row: &PgRow, name: &str) -> Result<T>
where
    T::Err: std::fmt::Display,
{
    column::<&str>(row, name)?.parse().map_err(|error| unreadable(name, error))
}

pub(crate) fn parsed_or_none<T: FromStr>(row: &PgRow, name: &str) -> Result<Option<T>>
where
    T::Err: std::fmt::Display,
{
    let text: Option<&str> = column(row, name)?;
    text.map(|text| text.parse().map_err(|error| unreadable(name, error))).transpose()
}

pub(crate) fn json<T: DeserializeOwned>(row: &PgRow, name: &str) -> Result<T> {
    serde_json::from_str(column(row, name)?).map_err(|error| unreadable(name, error))
}

pub(crate) fn json_or_none<T: DeserializeOwned>(row: &PgRow, name: &str) -> Result<Option<T>> {
    let text: Option<&str> = column(row, name)?;
    text.map(|text| serde_json::from_str(text).map_err(|error| unreadable(name, error))).transpose()
}

/// A stored error. A newer release may have written a code that this one does not know.
pub(crate) fn error_or_none(row: &PgRow, name: &str) -> Result<Option<ErrorBody>> {
    let Some(mut stored) = json_or_none::<Value>(row, name)? else { return Ok(None) };
    let code = ErrorCode::parse(stored.get("code").and_then(Value::as_str).unwrap_or(""));
    if let Some(field) = stored.get_mut("code") {
        *field = code.as_str().into();
    }
    serde_json::from_value(stored).map(Some).map_err(|error| unreadable(name, error))
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Internal(error.to_string()))
}

/// Counts and token numbers are never negative; a damaged row could say otherwise.
pub(crate) fn unsigned<T: TryFrom<i64>>(row: &PgRow, name: &str) -> Result<T> {
    let value: i64 = column(row, name)?;
    T::try_from(value).map_err(|_| unreadable(name, value))
}

/// What was used, as the four counts and the cost are named everywhere.
pub(crate) fn usage(row: &PgRow) -> Result<Usage> {
    Ok(Usage {
        input: unsigned(row, "token_input")?,
        output: unsigned(row, "token_output")?,
        cache_read: unsigned(row, "token_cache_read")?,
        cache_write: unsigned(row, "token_cache_write")?,
        cost: Cost(unsigned(row, "cost")?),
    })
}

/// Reads all rows with `read`.
pub(crate) fn collect<T>(rows: &[PgRow], read: impl Fn(&PgRow) -> Result<T>) -> Result<Vec<T>> {
    rows.iter().map(read).collect()
}
