//! The lines of a transcript file, rendered from the log. Pure.

use serde_json::json;
use tidegate_protocol::{Entry, EntryBody, EntryId, Id as _};
use tidegate_runtime::iso_timestamp;

/// The file's format.
const VERSION: u32 = 3;

/// The first line.
pub(crate) fn header(name: &str, created_at: i64, cwd: &str) -> String {
    let line = json!({
        "type": "session", "version": VERSION, "id": name, "timestamp": iso_timestamp(created_at), "cwd": cwd,
    });
    format!("{line}\n")
}

/// One entry; what this release does not understand is still there, marked.
pub(crate) fn line(entry: &Entry) -> String {
    let mut line = json!({
        "type": "message",
        "id": short(entry.id),
        "parentId": entry.parent_id.map(short),
        "timestamp": iso_timestamp(entry.created_at),
    });
    match &entry.body {
        EntryBody::Message(message) => line["message"] = json!(message),
        EntryBody::Compaction(compaction) => {
            line["type"] = "compaction".into();
            line["summary"] = compaction.summary.clone().into();
            line["firstKeptSeq"] = compaction.first_kept_seq.into();
            line["tokensBefore"] = compaction.tokens_before.into();
            line["details"] = json!(compaction.files);
        }
        EntryBody::Unknown(value) => {
            line["type"] = "custom".into();
            line["customType"] = "unknown".into();
            line["data"] = value.clone();
        }
    }
    format!("{line}\n")
}

/// The last eight hex digits: all random, so unique enough inside one file.
fn short(id: EntryId) -> String {
    let text = id.uuid().simple().to_string();
    text[text.len() - 8..].to_owned()
}
