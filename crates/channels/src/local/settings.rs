//! The settings of one account, and how the config section becomes a list of them. Pure: no file is touched.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_config::schema::{LocalAccount, LocalChannel};

/// The account that is meant when none is named.
const DEFAULT_ACCOUNT: &str = "default";

/// One account: which files it reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalSettings {
    pub account: String,
    pub inbox: PathBuf,
    pub outbox: PathBuf,
    /// The time between two looks at the inbox.
    pub poll: Duration,
}

/// The accounts that are switched on. `channels_dir` is the folder `channels` of the home; a relative path of the
/// section starts in its folder `local`.
pub fn from_config(section: &LocalChannel, channels_dir: &Path) -> Vec<LocalSettings> {
    if !section.enabled {
        return Vec::new();
    }
    let folder = channels_dir.join("local");
    let mut accounts = section.accounts.clone();
    if accounts.is_empty() || section.inbox.is_some() || section.outbox.is_some() {
        let named = accounts.entry(DEFAULT_ACCOUNT.to_owned()).or_default();
        named.inbox = named.inbox.take().or_else(|| section.inbox.clone());
        named.outbox = named.outbox.take().or_else(|| section.outbox.clone());
    }
    let enabled = accounts.into_iter().filter(|(_, account)| account.enabled);
    enabled.map(|(name, account)| settings(name, &account, section, &folder)).collect()
}

fn settings(name: String, account: &LocalAccount, section: &LocalChannel, folder: &Path) -> LocalSettings {
    let own = folder.join(&name);
    // Joining an absolute path gives that path.
    let file = |set: &Option<String>, name: &str| {
        set.as_ref().map_or_else(|| own.join(name), |path| folder.join(path))
    };
    LocalSettings {
        inbox: file(&account.inbox, "inbox.jsonl"),
        outbox: file(&account.outbox, "outbox.jsonl"),
        poll: Duration::from_millis(account.poll_ms.unwrap_or(section.poll_ms).into()),
        account: name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json5: &serde_json::Value) -> Vec<(String, String, String, u128)> {
        let section: LocalChannel = serde_json::from_value(json5.clone()).unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        from_config(&section, Path::new("/h/channels"))
            .into_iter()
            .map(|it| (it.account, text(&it.inbox), text(&it.outbox), it.poll.as_millis()))
            .collect()
    }

    fn account(name: &str, inbox: &str, outbox: &str, poll: u128) -> (String, String, String, u128) {
        (name.to_owned(), inbox.to_owned(), outbox.to_owned(), poll)
    }

    #[test]
    fn an_empty_section_is_one_account_in_the_home() {
        let files = "/h/channels/local/default";
        assert_eq!(
            of(&serde_json::json!({})),
            [account("default", &format!("{files}/inbox.jsonl"), &format!("{files}/outbox.jsonl"), 1000)]
        );
    }

    #[test]
    fn what_is_switched_off_is_left_out() {
        assert_eq!(of(&serde_json::json!({"enabled": false, "inbox": "/a"})), []);
        assert_eq!(of(&serde_json::json!({"accounts": {"work": {"enabled": false}}})), []);
    }

    #[test]
    fn named_accounts_have_their_own_files_and_share_the_pace() {
        let section = serde_json::json!({"pollMs": 50, "accounts": {
            "home": {"inbox": "in.jsonl", "pollMs": 20}, "work": {"outbox": "/w/out"},
        }});
        let files = "/h/channels/local";
        assert_eq!(
            of(&section),
            [
                account("home", &format!("{files}/in.jsonl"), &format!("{files}/home/outbox.jsonl"), 20),
                account("work", &format!("{files}/work/inbox.jsonl"), "/w/out", 50),
            ]
        );
    }

    #[test]
    fn files_of_the_section_belong_to_the_default_account_and_its_own_win() {
        let section = serde_json::json!({"inbox": "/i", "outbox": "/o", "accounts": {
            "default": {"outbox": "/p"}, "work": {"enabled": false},
        }});
        assert_eq!(of(&section), [account("default", "/i", "/p", 1000)]);
    }
}
