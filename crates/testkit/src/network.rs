//! What the outside world sees of a chat network: files in a folder, one write a line, so that they survive the death
//! of the process under test.
//!
//! People write to the script; messages that we acknowledged and messages that we sent are noted as they happen, never
//! changed. The connector to it, with its faults, is [`Faulty`].

mod faulty;

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_protocol::Part;

pub use faulty::{Character, Dice, Faults, Faulty, Reception};

/// What the outside world sees of a network. Any number of processes may look at the same folder.
#[derive(Debug, Clone)]
pub struct Network {
    folder: PathBuf,
}

/// A message that somebody wrote to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    pub id: String,
    pub peer: String,
    pub text: String,
}

/// A message of ours that everybody sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visible {
    pub key: String,
    pub peer: String,
    pub text: String,
    /// The id of the message that it answers.
    pub answers: Option<String>,
}

impl Network {
    pub fn open(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).expect("the folder of a network can be made");
        Self { folder: folder.to_owned() }
    }

    /// Somebody writes; the answer is the message's id.
    pub fn post(&self, peer: &str, text: &str) -> String {
        let id = format!("m{}", self.posted().len() + 1);
        self.append("script", &json!({"id": id, "peer": peer, "text": text}));
        id
    }

    pub fn posted(&self) -> Vec<Posted> {
        let posted =
            |row: &Value| Posted { id: text(row, "id"), peer: text(row, "peer"), text: text(row, "text") };
        self.rows("script").iter().map(posted).collect()
    }

    /// Ids of the messages that the network was told to forget, in that order. It was told after `accept` returned.
    pub fn acknowledged(&self) -> Vec<String> {
        self.rows("acknowledged").iter().map(|row| text(row, "id")).collect()
    }

    /// Messages that the network was not told to forget, oldest first.
    pub(crate) fn waiting(&self) -> Vec<Posted> {
        let known: HashSet<String> = self.acknowledged().into_iter().collect();
        self.posted().into_iter().filter(|posted| !known.contains(&posted.id)).collect()
    }

    pub(crate) fn acknowledge(&self, id: &str) {
        self.append("acknowledged", &json!({"id": id}));
    }

    /// Ids in the order of their first delivery, acknowledged or not.
    pub fn delivered(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        let ids = self.rows("delivered").into_iter().map(|row| text(&row, "id"));
        ids.filter(|id| seen.insert(id.clone())).collect()
    }

    /// Everything of ours that is to be seen, in the order it appeared.
    pub fn visible(&self) -> Vec<Visible> {
        let visible = |row: &Value| Visible {
            key: text(row, "key"),
            peer: text(row, "peer"),
            text: text(row, "text"),
            answers: row["answers"].as_str().map(str::to_owned),
        };
        self.rows("visible").iter().map(visible).collect()
    }

    /// What answers a message.
    pub fn replies_to(&self, id: &str) -> Vec<Visible> {
        self.visible().into_iter().filter(|seen| seen.answers.as_deref() == Some(id)).collect()
    }

    /// Acknowledged messages without an answer. Each must be explained by an outbox row that is unknown or dead.
    pub fn unanswered(&self) -> Vec<String> {
        self.acknowledged().into_iter().filter(|id| self.replies_to(id).is_empty()).collect()
    }

    /// Keys that are to be seen more than once. There must never be any.
    pub fn doubled(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        self.visible().into_iter().map(|row| row.key).filter(|key| !seen.insert(key.clone())).collect()
    }

    /// Counts a start of the process under test, so that it does not meet the same faults for ever.
    fn count_start(&self) -> u64 {
        self.append("starts", &json!({}));
        self.rows("starts").len() as u64
    }

    fn show(&self, part: &Part, key: &str) {
        let mut row: Value = serde_json::from_str(&part.body).expect("a part is what render made");
        row["key"] = key.into();
        self.append("visible", &row);
    }

    fn shows(&self, key: &str) -> bool {
        self.visible().iter().any(|row| row.key == key)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.jsonl"))
    }

    /// One write. A line torn by a death is spoilt and closed first: it must not become whole by the end it lacked.
    fn append(&self, name: &str, row: &Value) {
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .append(true)
            .create(true)
            .open(self.file(name))
            .expect("a file of a network opens");
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(-1)).is_ok() {
            file.read_exact(&mut last).expect("a file of a network can be read");
        }
        let torn = if last == [b'\n'] { "" } else { " torn\n" };
        file.write_all(format!("{torn}{row}\n").as_bytes()).expect("a file of a network can be written");
    }

    /// The whole lines; what is torn was never there.
    fn rows(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.file(name)).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _torn)| whole);
        whole.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

fn text(row: &Value, field: &str) -> String {
    row[field].as_str().expect("a row of a network has its fields").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_was_never_there_and_does_not_swallow_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let network = Network::open(folder.path());
        let first = network.post("p", "one");
        let mut ids = vec![first];
        for torn in [&br#"{"id":"#[..], br#"{"id":"x","peer":"p","text":"all but its end"}"#] {
            let mut file = OpenOptions::new().append(true).open(network.file("script")).unwrap();
            file.write_all(torn).unwrap();
            assert_eq!(network.posted().len(), ids.len());
            ids.push(network.post("p", "next"));
            assert_eq!(network.posted().into_iter().map(|it| it.id).collect::<Vec<_>>(), ids);
        }
    }
}
