//! One line of an outbox: rendered when the reply is stored, finished with its time and key when it is sent. Pure.

use serde_json::{Map, Value, json};
use tidegate_protocol::{Part, Reply, lane};
use tidegate_runtime::iso_timestamp;

/// Everything but the time and the key. A reply is one part: a file takes any length.
pub(super) fn render(reply: &Reply) -> Part {
    let quote = reply.quote.as_ref();
    let mut row = Map::new();
    row.insert("channel".into(), reply.channel.as_str().into());
    row.insert("requestId".into(), quote.map(|quote| quote.message_id.as_str()).into());
    row.insert("requestSource".into(), reply.channel.as_str().into());
    row.insert("sessionKey".into(), reply.target.peer_id.as_str().into());
    if let Some(thread) = &reply.target.thread_id {
        row.insert("threadId".into(), thread.as_str().into());
    }
    row.insert("input".into(), quote.map(|quote| quote.text.as_str()).into());
    match &reply.error {
        None => row.insert("output".into(), output(reply)),
        Some(error) => row.insert(
            "error".into(),
            json!({"code": error.code, "message": error.message, "text": reply.text}),
        ),
    };
    let lane = lane(&reply.channel, &reply.account_id, &reply.target);
    Part { body: Value::Object(row).to_string(), lane }
}

fn output(reply: &Reply) -> Value {
    let mut output = json!({"text": reply.text});
    if !reply.attachments.is_empty() {
        output["attachments"] = json!(reply.attachments);
    }
    output
}

/// The line as it stands in the file, without its end.
pub(super) fn finish(body: &str, key: &str, now_ms: i64) -> serde_json::Result<String> {
    let mut rendered: Map<String, Value> = serde_json::from_str(body)?;
    let mut row = Map::new();
    row.extend(rendered.shift_remove_entry("channel"));
    row.insert("recordedAt".into(), iso_timestamp(now_ms).into());
    row.extend(rendered);
    row.insert("key".into(), key.into());
    // JSON escapes line ends inside of texts: a row is one line whatever it says.
    serde_json::to_string(&row)
}

/// Whether a line is the whole row with that key.
pub(super) fn has_key(line: &[u8], key: &str) -> bool {
    let row = serde_json::from_slice::<Map<String, Value>>(line);
    row.is_ok_and(|row| row.get("key").and_then(Value::as_str) == Some(key))
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::{Attachment, ErrorBody, ErrorCode, OutboundTarget, Quote};

    use super::*;

    fn reply() -> Reply {
        Reply {
            channel: "local".parse().unwrap(),
            account_id: "default".to_owned(),
            target: OutboundTarget { peer_id: "main".to_owned(), thread_id: None },
            text: "hello\nyou".to_owned(),
            attachments: Vec::new(),
            quote: Some(Quote { message_id: "r1".to_owned(), text: "hi".to_owned() }),
            error: None,
        }
    }

    fn row(reply: &Reply) -> String {
        finish(&render(reply).body, "k1", 0).unwrap()
    }

    #[test]
    fn a_row_has_the_fields_of_the_contract_in_their_order() {
        assert_eq!(render(&reply()).lane, "local:default:main");
        assert_eq!(
            row(&reply()),
            r#"{"channel":"local","recordedAt":"1970-01-01T00:00:00.000Z","requestId":"r1","requestSource":"local","sessionKey":"main","input":"hi","output":{"text":"hello\nyou"},"key":"k1"}"#
        );
    }

    #[test]
    fn a_failed_run_has_an_error_in_the_place_of_its_output() {
        let error = Some(ErrorBody::new(ErrorCode::ModelUnavailable, "no model"));
        let row: Value = serde_json::from_str(&row(&Reply { error, ..reply() })).unwrap();
        assert_eq!(
            row["error"],
            json!({"code": "MODEL_UNAVAILABLE", "message": "no model", "text": "hello\nyou"})
        );
        assert_eq!(row.get("output"), None);
    }

    #[test]
    fn what_nobody_asked_for_has_no_request_and_keeps_its_thread_and_files() {
        let file = Attachment { name: "a".into(), mime_type: "b/c".into(), url: "d".into(), size: None };
        let target = OutboundTarget { peer_id: "work".into(), thread_id: Some("t".into()) };
        let unasked = Reply { quote: None, attachments: vec![file.clone()], target, ..reply() };
        let row: Value = serde_json::from_str(&row(&unasked)).unwrap();
        assert_eq!(
            (&row["requestId"], &row["input"], &row["threadId"]),
            (&json!(null), &json!(null), &json!("t"))
        );
        assert_eq!(row["output"]["attachments"], json!([file]));
    }

    #[test]
    fn what_another_release_stored_is_sent_with_all_it_says() {
        let row = finish(r#"{"later":[1],"channel":"local"}"#, "k", 0).unwrap();
        assert_eq!(
            row,
            r#"{"channel":"local","recordedAt":"1970-01-01T00:00:00.000Z","later":[1],"key":"k"}"#
        );
        assert!(finish("[]", "k", 0).is_err());
    }

    #[test]
    fn only_a_whole_row_has_its_key() {
        let whole = row(&reply());
        assert!(has_key(whole.as_bytes(), "k1") && !has_key(whole.as_bytes(), "k"));
        assert!(!has_key(&whole.as_bytes()[..whole.len() - 1], "k1"));
        assert!(!has_key(br#"{"input":"\"key\":\"k1\"","output":{"key":"k1"}}"#, "k1"));
    }
}
