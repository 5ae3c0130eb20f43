//! What people do to conversations: name them, set them up, fork them, look through them.

use async_trait::async_trait;
use tidegate_policy::Principal;
use tidegate_protocol::{AgentId, Entry, EntryBody, SessionId, SessionKey, SessionSettings, TenantId};

use crate::accept::NewSession;
use crate::error::Result;

#[async_trait]
pub trait Sessions: Send + Sync {
    /// What was chosen for a conversation.
    async fn session_settings(&self, key: &SessionKey) -> Result<SessionSettings>;

    /// Chooses. The key need not have a log yet.
    async fn set_session_settings(
        &self,
        principal: &Principal,
        key: &SessionKey,
        settings: SessionSettings,
        now: i64,
    ) -> Result<()>;

    /// Gives a log a title, or takes it away. `false` when there is no such log.
    async fn set_title(
        &self,
        principal: &Principal,
        session: SessionId,
        title: Option<&str>,
        now: i64,
    ) -> Result<bool>;

    /// Makes a log that has everything of another one up to a line, and makes it the current one of a key. One row:
    /// nothing is copied. Refused while a run of the key has not ended; `NotFound` when there is no such line.
    async fn fork(&self, principal: &Principal, fork: Fork) -> Result<Forked>;

    /// Lines whose text contains the words, the newest first. Reads through all lines of the log, or of the tenant.
    async fn search(&self, tenant: &TenantId, search: Search) -> Result<Vec<Entry>>;
}

#[derive(Debug, Clone)]
pub struct Fork {
    pub source: SessionId,
    /// The last line that both logs share; 0 for none.
    pub after_seq: i64,
    /// Whose current log the fork becomes: the same key, or another one of the tenant.
    pub key: SessionKey,
    pub new_session: NewSession,
    pub now: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    pub session: SessionId,
    /// The key's current log until now.
    pub before: Option<SessionId>,
}

#[derive(Debug, Clone, Default)]
pub struct Search {
    /// Upper and lower case are the same.
    pub words: String,
    /// Only this log, with what it shares.
    pub session: Option<SessionId>,
    /// Only logs of this agent; a log that is named is looked through whosever it is.
    pub agent: Option<AgentId>,
    pub limit: u32,
}

impl Search {
    /// Whether a line matches: the text of a message, or a summary.
    pub fn finds(&self, body: &EntryBody) -> bool {
        let text = match body {
            EntryBody::Message(message) => message.text(),
            EntryBody::Compaction(compaction) => compaction.summary.clone(),
            EntryBody::Unknown(_) => return false,
        };
        text.to_lowercase().contains(&self.words.to_lowercase())
    }

    /// A piece of the words that every stored line with them holds, once its ASCII letters are small: for the database
    /// to look for first. Empty when there is none.
    pub fn needle(&self) -> String {
        // What JSON writes as an escape, and letters that only Unicode can make small, look different in the database.
        let same = |character: &char| {
            !matches!(character, '"' | '\\')
                && !character.is_control()
                && (character.is_ascii()
                    || (character.to_lowercase().eq([*character])
                        && character.to_uppercase().eq([*character])))
        };
        let pieces = self.words.split(|character| !same(&character));
        pieces.max_by_key(|piece| piece.len()).unwrap_or_default().to_ascii_lowercase()
    }
}

/// The longest title that is made from a message.
const LONGEST_TITLE: usize = 60;

/// What a conversation is called when nobody gave it a title: the beginning of its first message.
pub fn title_of(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() <= LONGEST_TITLE {
        return Some(words);
    }
    let cut: String = words.chars().take(LONGEST_TITLE).collect();
    let whole = cut.rfind(' ').filter(|at| *at > LONGEST_TITLE / 2).unwrap_or(cut.len());
    Some(format!("{}…", cut.get(..whole).unwrap_or(&cut).trim_end()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_protocol::{Compaction, FileTrail, Message};

    use super::*;

    #[test]
    fn a_title_is_the_first_line_cut_between_words() {
        assert_eq!(title_of("\n  hello   there \nmore"), Some("hello there".to_owned()));
        assert_eq!(title_of(" \n "), None);
        let long = "please look at every file of the project and tell me which are too long";
        assert_eq!(
            title_of(long).as_deref(),
            Some("please look at every file of the project and tell me which…")
        );
        assert_eq!(title_of(&"字".repeat(80)), Some(format!("{}…", "字".repeat(60))));
    }

    fn search(words: &str) -> Search {
        Search { words: words.to_owned(), ..Search::default() }
    }

    #[test]
    fn the_database_looks_for_the_longest_piece_that_is_stored_as_it_is() {
        for (words, needle) in [
            ("Tide Gate", "tide gate"),
            ("say \"Yes please\" now", "yes please"),
            ("C:\\Users\\me", "users"),
            ("déjà vu", " vu"),
            ("你好, Welt", "你好, welt"),
            ("\n\t\"", ""),
            ("É", ""),
            ("", ""),
        ] {
            assert_eq!(search(words).needle(), needle, "{words:?}");
        }
    }

    #[test]
    fn summaries_are_searched_and_what_this_release_cannot_read_is_not() {
        let summary = Compaction {
            summary: "They spoke of Whales".to_owned(),
            first_kept_seq: 1,
            tokens_before: 0,
            mechanical: false,
            files: FileTrail::default(),
        };
        assert!(search("whales").finds(&EntryBody::Compaction(summary)));
        assert!(!search("whales").finds(&EntryBody::Unknown(serde_json::json!({"text": "whales"}))));
    }

    proptest! {
        /// Whatever a person looks for in whatever was said, the database does not leave out what matches.
        #[test]
        fn every_line_that_matches_holds_the_needle(
            before in "[a-cA-C\"\\\\\n\u{0}éÉ你 ]{0,4}",
            words in "[a-cA-C\"\\\\\n\u{0}éÉ你 ]{0,6}",
            after in "[a-cA-C\"\\\\\n\u{0}éÉ你 ]{0,4}",
        ) {
            let body = EntryBody::Message(Message::user(format!("{before}{}{after}", words.to_uppercase()), 0));
            prop_assert!(search(&words).finds(&body));
            let (_, stored) = body.to_stored().unwrap();
            prop_assert!(stored.to_ascii_lowercase().contains(&search(&words).needle()));
        }
    }
}
