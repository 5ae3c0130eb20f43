//! Which tools a group gives to whoever writes in it.

/// Who wrote, as the network tells it. A name is whatever its owner chose: a table keyed by names narrows by courtesy,
/// one keyed by ids by fact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sender<'a> {
    pub id: Option<&'a str>,
    pub username: Option<&'a str>,
    pub name: Option<&'a str>,
}

/// The entry of a table that is meant for a sender: by id, else by user name, else by name, else `*`. Case and a leading
/// `@` mean nothing. Of two keys that mean the same the first counts.
pub fn by_sender<'t, K: AsRef<str>, T>(table: &'t [(K, T)], sender: Sender<'_>) -> Option<&'t T> {
    let candidates = [sender.id, sender.username, sender.name];
    let mut wanted = candidates.into_iter().flatten().map(fold).chain(["*".to_owned()]);
    wanted.find_map(|wanted| {
        let entry = table.iter().find(|(key, _)| !wanted.is_empty() && fold(key.as_ref()) == wanted);
        entry.map(|(_, value)| value)
    })
}

fn fold(text: &str) -> String {
    let text = text.trim();
    text.strip_prefix('@').unwrap_or(text).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: [(&str, u8); 5] = [("7", 1), ("@Ann", 2), ("bob", 3), ("*", 4), ("ANN", 5)];

    #[test]
    fn the_surest_mark_of_a_sender_counts() {
        for (id, username, name, expected) in [
            (Some("7"), Some("ann"), Some("bob"), 1),
            (Some("8"), Some("ann"), Some("bob"), 2),
            (Some("8"), Some("carl"), Some(" BOB "), 3),
            (None, None, Some("@ann"), 2),
            (Some("8"), None, None, 4),
            (None, None, None, 4),
        ] {
            assert_eq!(by_sender(&TABLE, Sender { id, username, name }), Some(&expected));
        }
        assert_eq!(by_sender(&TABLE[..3], Sender { id: Some("8"), ..Sender::default() }), None);
    }

    #[test]
    fn an_empty_key_is_nobody() {
        let table = [(" ", 1), ("@", 2)];
        assert_eq!(by_sender(&table, Sender { id: Some(" "), ..Sender::default() }), None);
        assert_eq!(by_sender(&table, Sender { id: Some("@"), ..Sender::default() }), None);
    }
}
