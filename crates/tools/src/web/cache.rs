//! What was fetched a moment ago. Bounded in age, number and bytes.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Entries, and the bytes of all of them together.
const MOST_ENTRIES: usize = 100;
const MOST_BYTES: usize = 16 << 20;

pub(super) struct Cache<V> {
    /// Zero keeps nothing.
    ttl: Duration,
    /// The oldest first.
    entries: Mutex<VecDeque<Entry<V>>>,
}

struct Entry<V> {
    key: String,
    value: V,
    bytes: usize,
    since: Instant,
}

impl<V: Clone> Cache<V> {
    pub(super) fn new(ttl: Duration) -> Self {
        Self { ttl, entries: Mutex::default() }
    }

    pub(super) fn get(&self, key: &str, now: Instant) -> Option<V> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |entry: &&Entry<V>| entry.key == key && now.duration_since(entry.since) < self.ttl;
        entries.iter().find(fresh).map(|entry| entry.value.clone())
    }

    /// Keeps a value that takes so many bytes, and gives up others for it.
    pub(super) fn put(&self, key: &str, value: V, bytes: usize, now: Instant) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.key != key && now.duration_since(entry.since) < self.ttl);
        let bytes = bytes + key.len();
        if self.ttl.is_zero() || bytes > MOST_BYTES / 4 {
            return;
        }
        entries.push_back(Entry { key: key.to_owned(), value, bytes, since: now });
        while entries.len() > MOST_ENTRIES
            || entries.iter().map(|entry| entry.bytes).sum::<usize>() > MOST_BYTES
        {
            entries.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_mins(15);

    #[test]
    fn an_entry_lives_as_long_as_it_may_and_no_longer() {
        let (cache, now) = (Cache::new(TTL), Instant::now());
        cache.put("k", 1, 1, now);
        assert_eq!(cache.get("k", now + TTL.saturating_sub(Duration::from_millis(1))), Some(1));
        assert_eq!(cache.get("k", now + TTL), None);
        assert_eq!(cache.get("other", now), None);
        cache.put("k", 2, 1, now);
        assert_eq!(cache.get("k", now), Some(2));
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_or_too_much() {
        let (cache, now) = (Cache::new(TTL), Instant::now());
        for number in 0..=MOST_ENTRIES {
            cache.put(&number.to_string(), number, 1, now);
        }
        assert_eq!((cache.get("0", now), cache.get("1", now)), (None, Some(1)));
        for number in 0..5 {
            cache.put(&format!("large {number}"), number, MOST_BYTES / 4 - 10, now);
        }
        assert_eq!(cache.get("large 0", now), None);
        assert_eq!(cache.get("large 4", now), Some(4));
        assert_eq!(cache.get("100", now), None);
        cache.put("huge", 9, MOST_BYTES, now);
        assert_eq!(cache.get("huge", now), None);
    }

    #[test]
    fn without_an_age_nothing_is_kept() {
        let (cache, now) = (Cache::new(Duration::ZERO), Instant::now());
        cache.put("k", 1, 1, now);
        assert_eq!(cache.get("k", now), None);
    }
}
