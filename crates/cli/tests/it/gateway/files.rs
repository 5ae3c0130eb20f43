//! The two files of an account, as somebody on the other side of them sees them.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::live::eventually;

/// One account of the network of files.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    folder: PathBuf,
}

impl Account {
    pub(crate) fn of(home: &Path, name: &str) -> Self {
        let folder = home.join("channels/local").join(name);
        fs::create_dir_all(&folder).expect("a folder can be made");
        Self { folder }
    }

    pub(crate) fn inbox(&self) -> PathBuf {
        self.folder.join("inbox.jsonl")
    }

    pub(crate) fn outbox(&self) -> PathBuf {
        self.folder.join("outbox.jsonl")
    }

    /// Appends lines as a careful writer does: in one write.
    pub(crate) fn write(&self, lines: &[Value]) {
        let text = text_of(lines);
        let mut file =
            OpenOptions::new().create(true).append(true).open(self.inbox()).expect("the inbox can be opened");
        file.write_all(text.as_bytes()).expect("the inbox can be written");
    }

    pub(crate) fn say(&self, peer: &str, text: &str) {
        self.write(&[line(peer, text)]);
    }

    /// The same where the disk may be full.
    pub(crate) fn say_if_room(&self, peer: &str, text: &str) {
        let file = OpenOptions::new().append(true).open(self.inbox()).expect("the inbox can be opened");
        let _ = (&file).write_all(format!("{}\n", line(peer, text)).as_bytes());
    }

    /// Every row that is there, each a whole line of JSON.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.outbox()).unwrap_or_default();
        assert!(text.is_empty() || text.ends_with('\n'), "{} ends inside a line", self.outbox().display());
        text.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect()
    }

    /// The rows, also while one is being written.
    pub(crate) fn whole_rows(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.outbox()).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until there are so many rows.
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} rows in {}", self.outbox().display()), || {
            (self.whole_rows().len() >= count).then_some(())
        });
        self.rows()
    }

    /// What was answered to a peer: the questions, in the order of the file.
    pub(crate) fn answered(&self, peer: &str) -> Vec<String> {
        let rows = self.rows();
        let of_peer = rows.iter().filter(|row| row["sessionKey"] == peer);
        of_peer
            .inspect(|row| assert!(row["output"]["text"].is_string(), "an answer: {row}"))
            .map(|row| row["input"].as_str().expect("a row quotes its question").to_owned())
            .collect()
    }
}

pub(crate) fn line(peer: &str, text: &str) -> Value {
    json!({ "input": text, "sessionKey": peer })
}

/// The lines as they stand in a file.
pub(crate) fn text_of(lines: &[Value]) -> String {
    lines.iter().flat_map(|line| [line.to_string(), "\n".to_owned()]).collect()
}
