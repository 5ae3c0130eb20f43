//! A conversation as the program shows it, and its transcript file held against it.

use std::fs;

use serde_json::{Value, json};

use crate::home::Home;

/// What was said, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Log {
    /// The name `ask` answers as `sessionId`, which names the transcript file.
    pub(crate) session_id: String,
    entries: Vec<Value>,
}

impl Log {
    /// Reads a conversation by its name or id, checks that it is whole, and that the transcript file says the same.
    pub(crate) fn of(home: &Home, session: &str) -> Self {
        let log = Self::without_transcript(home, session);
        log.assert_transcript(home);
        log
    }

    /// The same where the transcript file is not to be looked at.
    pub(crate) fn without_transcript(home: &Home, session: &str) -> Self {
        let mut shown = home.call(&["sessions", "show", session, "--json", "--limit", "10000"]).json();
        let entries: Vec<Value> = serde_json::from_value(shown["entries"].take()).unwrap();
        assert_eq!(shown["messages"], entries.len(), "{session}: the list counts what is there");
        let mut parent = Value::Null;
        for (at, entry) in entries.iter().enumerate() {
            assert_eq!(entry["seq"], at + 1, "{session}: the sequence has no gap");
            assert_eq!(entry["parentId"], parent, "{session}: each line follows the one before");
            assert_eq!(entry["body"]["role"], if at % 2 == 0 { "user" } else { "assistant" }, "{session}");
            parent = entry["id"].clone();
        }
        let session_id = shown["sessionId"].as_str().unwrap().to_owned();
        let log = Self { session_id, entries };
        for (turn, pair) in log.entries.chunks(2).enumerate() {
            assert_eq!(pair.len(), 2, "{session}: every question in the log has its answer");
            assert_eq!(pair[0]["runId"], pair[1]["runId"], "{session}");
            let context = context_of(text(&pair[1]));
            assert_eq!(context, 2 * turn + 1, "{session}: turn {} saw what came before it", turn + 1);
        }
        log
    }

    /// The questions, in order.
    pub(crate) fn questions(&self) -> Vec<&str> {
        self.entries.iter().step_by(2).map(text).collect()
    }

    /// The answers, in order.
    pub(crate) fn answers(&self) -> Vec<&str> {
        self.entries.iter().skip(1).step_by(2).map(text).collect()
    }

    pub(crate) fn turns(&self) -> usize {
        self.entries.len() / 2
    }

    /// The file is the header and then the log, line for line, ending in a whole line.
    pub(crate) fn assert_transcript(&self, home: &Home) {
        let path = home.transcript(&self.session_id);
        let file = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(file.ends_with('\n'), "{} ends inside a line", path.display());
        let mut lines = file.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
        let header = lines.next().expect("the first line is the header");
        assert_eq!((&header["type"], &header["version"]), (&json!("session"), &json!(3)));
        assert_eq!(header["id"], self.session_id);
        let found: Vec<Value> = lines.collect();
        let expected: Vec<Value> = self.entries.iter().map(transcript_line).collect();
        assert_eq!(without_time(&found), expected, "{} is not the log", path.display());
    }
}

/// The line of a transcript that an entry becomes, without its time in words.
fn transcript_line(entry: &Value) -> Value {
    let short = |id: &Value| id.as_str().map(|id| id[id.len() - 8..].to_owned());
    json!({
        "type": "message", "id": short(&entry["id"]), "parentId": short(&entry["parentId"]), "message": entry["body"],
    })
}

fn without_time(lines: &[Value]) -> Vec<Value> {
    let strip = |line: &Value| {
        let mut line = line.clone();
        let time = line.as_object_mut().unwrap().shift_remove("timestamp").expect("a line has a timestamp");
        assert!(is_iso_time(time.as_str().unwrap()), "{time}");
        line
    };
    lines.iter().map(strip).collect()
}

fn text(entry: &Value) -> &str {
    entry["body"]["content"][0]["text"].as_str().expect("a message has text")
}

/// How many messages the offline model says it saw.
pub(crate) fn context_of(answer: &str) -> usize {
    let (_, rest) = answer.split_once("context=").expect("the offline model tells its context");
    let (number, _) = rest.split_once("条消息").expect("the offline model tells its context");
    number.parse().unwrap()
}

/// `2026-02-23T17:07:31.123Z`.
pub(crate) fn is_iso_time(text: &str) -> bool {
    text.len() == 24
        && text.bytes().zip(b"dddd-dd-ddTdd:dd:dd.dddZ").all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            other => byte == *other,
        })
}

/// `lc-<milliseconds>-<4 hex digits>`.
pub(crate) fn is_alias(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [lead, time, random] = parts[..] else { return false };
    lead == "lc"
        && time.len() == 13
        && time.bytes().all(|byte| byte.is_ascii_digit())
        && random.len() == 4
        && random.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
