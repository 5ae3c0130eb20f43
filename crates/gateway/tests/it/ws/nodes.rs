//! Nodes: devices that are asked for something.

use serde_json::json;
use tidegate_runtime::Clock as _;

use super::client::{Client, Device, named, operator, program};
use crate::house::House;

async fn node(house: &House) -> (Client, String) {
    let device = Device::new(42);
    let mut client = Client::open(house, "/", &[]).await.unwrap();
    client.frame().await;
    let mut params = program(house, &[]);
    params["role"] = json!("node");
    params["client"] = json!({ "id": "node-host", "version": "1", "platform": "linux", "mode": "node" });
    params["commands"] = json!(["system.which", "camera.snap"]);
    let signed = device.sign(params, 1, "", house.clock.now_ms());
    client.payload("connect", signed).await;
    (client, device.id())
}

#[tokio::test]
async fn a_node_is_asked_and_answers_and_only_for_what_it_may() {
    let house = House::open().await;
    let mut client = operator(&house).await;
    let (mut node, id) = node(&house).await;
    let listed = client.payload("node.list", json!({})).await;
    assert_eq!(listed["nodes"][0]["nodeId"], id.as_str());
    assert_eq!(
        listed["nodes"][0]["commands"],
        json!(["system.which"]),
        "what its platform has not is left out"
    );
    let invoke = |command: &str| json!({ "nodeId": id, "command": command, "params": { "name": "ls" }, "idempotencyKey": command, "timeoutMs": 20_000 });
    let asked = client.ask("node.invoke", invoke("system.which")).await;
    let request = node.event(named("node.invoke.request")).await;
    assert_eq!(request["payload"]["paramsJSON"], r#"{"name":"ls"}"#);
    let answer = |node_id: &str| json!({ "id": request["payload"]["id"], "nodeId": node_id, "ok": true, "payloadJSON": r#"{"path":"/bin/ls"}"# });
    assert_eq!(node.refusal("node.invoke.result", answer("other")).await.1, "nodeId mismatch");
    assert_eq!(node.payload("node.invoke.result", answer(&id)).await, json!({ "ok": true }));
    let late = node.payload("node.invoke.result", answer(&id)).await;
    assert_eq!(late, json!({ "ok": true, "ignored": true }));
    assert_eq!(client.answer(&asked).await["payload"]["payload"], json!({ "path": "/bin/ls" }));

    for command in ["camera.snap", "system.run"] {
        assert_eq!(client.refusal("node.invoke", invoke(command)).await.1, "node command not allowed");
    }
    assert_eq!(node.refusal("health", json!({})).await.1, "unauthorized role: node");
    // The same key is the same question: the node is not asked again.
    let again = client.payload("node.invoke", invoke("system.which")).await;
    assert_eq!(again["payload"], json!({ "path": "/bin/ls" }));
    let invoke = |key: &str| json!({ "nodeId": id, "command": "system.which", "params": { "name": "ls" }, "idempotencyKey": key, "timeoutMs": 20_000 });
    // One that goes leaves nobody waiting.
    let asked = client.ask("node.invoke", invoke("another")).await;
    node.event(named("node.invoke.request")).await;
    drop(node);
    assert_eq!(client.answer(&asked).await["error"]["message"], "node disconnected");
    assert_eq!(client.refusal("node.invoke", invoke("another")).await.1, "node not connected");
}
