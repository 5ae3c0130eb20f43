//! What is answered about things that there are none of here, as it stands on the wire.

use serde_json::{Value, json};

use super::client::{entered, program};
use crate::house::House;

#[tokio::test]
async fn what_there_is_none_of_is_answered_empty_and_in_the_form_that_pages_read() {
    let house = House::open().await;
    let (mut client, _) = entered(&house, program(&house, &["operator.admin"])).await;
    let list = || json!([]);
    let expected: [(&str, Value, Value); 14] = [
        ("plugin.approval.list", json!({}), list()),
        ("last-heartbeat", json!({}), Value::Null),
        ("chat.metadata", json!({}), json!({ "commands": [], "models": [] })),
        ("users.prefs.get", json!({}), json!({ "status": "ok", "entries": [] })),
        (
            "sessions.github.options",
            json!({}),
            json!({ "personal": null, "shared": null, "pendingPersonal": null, "latestShared": null }),
        ),
        ("skills.status", json!({}), json!({ "workspaceDir": "", "managedSkillsDir": "", "skills": [] })),
        ("voicewake.get", json!({}), json!({ "triggers": [] })),
        (
            "session.members.listEvidence",
            json!({ "sessionKey": "main" }),
            json!({
                "sessionKey": "main", "members": [], "identities": [], "role": "owner", "allowedVisibilities": [],
            }),
        ),
        ("board.get", json!({}), json!({ "sessionKey": null, "revision": 0, "tabs": [], "widgets": [] })),
        ("sessions.unsubscribe", json!({}), json!({ "subscribed": false })),
        (
            "sessions.messages.unsubscribe",
            json!({ "key": "main" }),
            json!({ "subscribed": false, "key": "agent:main:main" }),
        ),
        (
            "sessions.compact",
            json!({ "key": "never-used" }),
            json!({ "ok": true, "key": "agent:main:never-used", "compacted": false, "reason": "no sessionId" }),
        ),
        ("system-event", json!({ "text": "here" }), json!({ "ok": true })),
        ("node.pair.list", json!({}), json!({ "pending": [], "paired": [] })),
    ];
    for (method, params, answer) in expected {
        assert_eq!(client.payload(method, params).await, answer, "{method}");
    }
}
