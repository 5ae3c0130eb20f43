//! The query of an address. Pure.

use std::collections::BTreeMap;

use tidegate_protocol::ErrorCode;

use crate::answer::Refusal;

/// Every pair, decoded; the first of two that have the same name.
pub(crate) fn pairs(query: Option<&str>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        found.entry(decoded(name)).or_insert_with(|| decoded(value));
    }
    found
}

/// How many rows are wanted: `limit`, up to `most`.
pub(crate) fn limit(pairs: &BTreeMap<String, String>, usual: u32, most: u32) -> Result<u32, Refusal> {
    let Some(text) = pairs.get("limit") else { return Ok(usual) };
    let wrong = || Refusal::new(ErrorCode::BadRequest, format!("`limit` is a number from 1 to {most}"));
    text.parse().ok().filter(|limit| (1..=most).contains(limit)).ok_or_else(wrong)
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    while let Some((&byte, rest)) = left.split_first() {
        left = rest;
        let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match (byte, rest) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, rest @ ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                bytes.push(hex(*high).unwrap_or_default() << 4 | hex(*low).unwrap_or_default());
                left = rest;
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_and_the_first_counts() {
        let found = pairs(Some("a=1&b=x%20y+z&a=2&c&%zz=%e6%bd%ae"));
        let wanted = [("%zz", "潮"), ("a", "1"), ("b", "x y z"), ("c", "")];
        let wanted = wanted.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found, BTreeMap::from(wanted));
        assert!(
            limit(&pairs(Some("limit=0")), 5, 10).is_err()
                && limit(&pairs(None), 5, 10).is_ok_and(|n| n == 5)
        );
    }
}
