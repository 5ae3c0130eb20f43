//! What was said in the conversation before this terminal: its title, how long it is, and the last exchange.

use tidegate_protocol::{EntryBody, Message, SessionKey};
use tidegate_storage::{Store, StoreError};

/// The newest lines that are looked through for the last exchange.
const NEWEST: i64 = 100;
/// Lines of what was said that are shown.
const SHOWN: usize = 8;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) title: String,
    pub(super) count: i64,
    pub(super) asked: String,
    pub(super) said: String,
}

impl Past {
    /// Nothing when nothing was said yet.
    pub(super) async fn read(store: &dyn Store, key: &SessionKey) -> Result<Option<Self>, StoreError> {
        let Some(row) = store.session(key).await?.filter(|row| row.head_seq > 0) else { return Ok(None) };
        let after = (row.head_seq - NEWEST).max(0);
        let limit = u32::try_from(NEWEST).unwrap_or(u32::MAX);
        let entries = store.entries(&key.scope.tenant, row.id, after, limit).await?;
        let last = |is: fn(&Message) -> bool| {
            entries.iter().rev().find_map(|entry| match &entry.body {
                EntryBody::Message(message) if is(message) && !message.text().trim().is_empty() => {
                    Some(beginning(&message.text()))
                }
                _ => None,
            })
        };
        Ok(Some(Self {
            title: row.title.unwrap_or_default(),
            count: row.head_seq,
            asked: last(|message| matches!(message, Message::User { .. })).unwrap_or_default(),
            said: last(|message| matches!(message, Message::Assistant { .. })).unwrap_or_default(),
        }))
    }
}

fn beginning(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    let mut shown = lines.iter().take(SHOWN).copied().collect::<Vec<_>>().join("\n");
    if lines.len() > SHOWN {
        shown.push_str("\n…");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_answer_the_beginning_is_shown() {
        assert_eq!(beginning(" one\ntwo\n"), "one\ntwo");
        let long = beginning(&"line\n".repeat(20));
        assert_eq!((long.lines().count(), long.ends_with('…')), (SHOWN + 1, true));
    }
}
