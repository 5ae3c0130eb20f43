//! The audit trail's chain: rows join the write they tell about, and are sealed soon after.
//!
//! A seal covers the rows of its tenant that no seal covered before. Each row gets a salt and a salted digest of its
//! content, so that the content can be erased later and the chain still holds; the seal's chain value covers the one
//! before it and the digests in order. Changing, removing or inserting a sealed row breaks the chain.

use std::fmt::Write as _;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use tidegate_protocol::TenantId;

use crate::error::{Result, StoreError};

#[async_trait]
pub trait AuditTrail: Send + Sync {
    /// Seals at most `limit` rows, in the order they were written; `None` when every row is sealed.
    async fn seal(&self, tenant: &TenantId, limit: u32, now: i64) -> Result<Option<Seal>>;

    /// Seals after the one of this number, oldest first.
    async fn seals(&self, tenant: &TenantId, after: i64, limit: u32) -> Result<Vec<Seal>>;

    /// The rows of a seal, in order.
    async fn sealed_rows(&self, tenant: &TenantId, seal: i64) -> Result<Vec<SealedRow>>;

    /// How many rows no seal covers yet.
    async fn unsealed(&self, tenant: &TenantId) -> Result<u64>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// From 1, without a gap, a tenant.
    pub number: i64,
    pub rows: i64,
    pub chain: String,
    pub sealed_at: i64,
}

impl Seal {
    /// The seal that follows `before` and covers these digests.
    pub fn after(before: Option<&Self>, digests: &[String], now: i64) -> Self {
        let number = before.map_or(1, |before| before.number + 1);
        let previous = before.map_or("", |before| before.chain.as_str());
        Self {
            number,
            rows: i64::try_from(digests.len()).unwrap_or(i64::MAX),
            chain: chain(previous, number, digests.iter().map(String::as_str)),
            sealed_at: now,
        }
    }
}

/// For one row. Without it a digest of few possible contents could be guessed after the content was erased.
pub fn new_salt() -> Result<String> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|error| StoreError::Internal(error.to_string()))?;
    Ok(hex(&random))
}

/// A row as it is stored, with what its seal noted about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedRow {
    pub content: AuditContent,
    pub salt: String,
    pub digest: String,
}

/// What a row says, byte for byte as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditContent {
    pub id: String,
    pub actor: String,
    pub action: String,
    pub resource_type: String,
    pub resource_id: String,
    pub metadata_json: String,
    pub created_at: i64,
}

impl AuditContent {
    /// Every field with its length before it: no two contents share their bytes.
    pub fn digest(&self, salt: &str) -> String {
        let created_at = self.created_at.to_string();
        let mut hash = Sha256::new();
        for field in [
            salt,
            &self.id,
            &self.actor,
            &self.action,
            &self.resource_type,
            &self.resource_id,
            &self.metadata_json,
            &created_at,
        ] {
            hash.update((field.len() as u64).to_be_bytes());
            hash.update(field.as_bytes());
        }
        hex(&hash.finalize())
    }
}

/// The chain value of a seal over these digests, after the chain value before it (empty for the first).
fn chain<'a>(before: &str, number: i64, digests: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    hash.update((before.len() as u64).to_be_bytes());
    hash.update(before.as_bytes());
    hash.update(number.to_be_bytes());
    for digest in digests {
        hash.update((digest.len() as u64).to_be_bytes());
        hash.update(digest.as_bytes());
    }
    hex(&hash.finalize())
}

/// Where the trail no longer is what was sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Break {
    /// A seal is missing: its number should come next.
    MissingSeal { number: i64 },
    /// The seal does not follow from the one before it and its rows' digests.
    Chain { number: i64 },
    /// The seal covers another number of rows than are there.
    Rows { number: i64, noted: i64, found: i64 },
    /// The row is not what was sealed.
    Content { number: i64, row: String },
}

/// Checks one seal with its rows against the one before it.
pub fn check(before: Option<&Seal>, seal: &Seal, rows: &[SealedRow]) -> Vec<Break> {
    let number = seal.number;
    let expected = before.map_or(1, |before| before.number + 1);
    if number != expected {
        return vec![Break::MissingSeal { number: expected }];
    }
    let mut breaks: Vec<Break> = rows
        .iter()
        .filter(|row| row.content.digest(&row.salt) != row.digest)
        .map(|row| Break::Content { number, row: row.content.id.clone() })
        .collect();
    let found = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    if found != seal.rows {
        breaks.push(Break::Rows { number, noted: seal.rows, found });
    }
    let previous = before.map_or("", |before| before.chain.as_str());
    if chain(previous, number, rows.iter().map(|row| row.digest.as_str())) != seal.chain {
        breaks.push(Break::Chain { number });
    }
    breaks
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str) -> SealedRow {
        let content = AuditContent {
            id: id.to_owned(),
            actor: "local:owner".to_owned(),
            action: "agent.run.completed".to_owned(),
            resource_type: "run".to_owned(),
            resource_id: "r".to_owned(),
            metadata_json: "{}".to_owned(),
            created_at: 5,
        };
        let digest = content.digest("salt");
        SealedRow { content, salt: "salt".to_owned(), digest }
    }

    fn seal(before: Option<&Seal>, rows: &[SealedRow]) -> Seal {
        let digests: Vec<_> = rows.iter().map(|row| row.digest.clone()).collect();
        Seal::after(before, &digests, 9)
    }

    #[test]
    fn an_untouched_trail_has_no_break() {
        let (one, two) = ([row("a"), row("b")], [row("c")]);
        let first = seal(None, &one);
        let second = seal(Some(&first), &two);
        assert_eq!(check(None, &first, &one), []);
        assert_eq!(check(Some(&first), &second, &two), []);
    }

    #[test]
    fn a_changed_row_is_named_even_if_its_digest_was_made_anew() {
        let rows = [row("a"), row("b")];
        let sealed = seal(None, &rows);
        let mut changed = rows.clone();
        changed[1].content.actor = "somebody".to_owned();
        assert_eq!(check(None, &sealed, &changed), [Break::Content { number: 1, row: "b".to_owned() }]);
        changed[1].digest = changed[1].content.digest("salt");
        assert_eq!(check(None, &sealed, &changed), [Break::Chain { number: 1 }]);
    }

    #[test]
    fn a_removed_row_a_removed_seal_and_a_swap_are_noticed() {
        let rows = [row("a"), row("b")];
        let first = seal(None, &rows);
        let second = seal(Some(&first), &rows);
        assert_eq!(
            check(None, &first, &rows[..1]),
            [Break::Rows { number: 1, noted: 2, found: 1 }, Break::Chain { number: 1 }]
        );
        assert_eq!(check(None, &second, &rows), [Break::MissingSeal { number: 1 }]);
        let swapped = [rows[1].clone(), rows[0].clone()];
        assert_eq!(check(None, &first, &swapped), [Break::Chain { number: 1 }]);
    }

    #[test]
    fn fields_that_flow_into_each_other_have_other_digests() {
        let mut one = row("a").content;
        let mut two = one.clone();
        (one.actor, one.action) = ("ab".to_owned(), "c".to_owned());
        (two.actor, two.action) = ("a".to_owned(), "bc".to_owned());
        assert_ne!(one.digest("s"), two.digest("s"));
    }
}
