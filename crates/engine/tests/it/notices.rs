//! What people on a network are told about their conversation besides its answers.

use serde_json::{Value, json};
use tidegate_protocol::Doubt;
use tidegate_testkit::model_server::{Step, Tokens, Turn};

use crate::network::Memory;
use crate::vendor::{Bench, on_both_backends};
use crate::{close, until};

on_both_backends! {
    whoever_writes_on_a_network_is_told_once_that_their_conversation_was_summed_up,
}

const ENGLISH: &str = "(This conversation has grown long: what came first is now a summary.)";
const CHINESE: &str = "（对话已经很长：较早的内容现已压缩为摘要。）";

async fn whoever_writes_on_a_network_is_told_once_that_their_conversation_was_summed_up(bench: &Bench<'_>) {
    let quiet = json!({"agents": {"defaults": {"compaction": {"notify": false}}}});
    for (more, notice) in
        [(json!({}), Some(ENGLISH)), (json!({"ui": {"language": "zh-CN"}}), Some(CHINESE)), (quiet, None)]
    {
        let mut expected = vec!["It is low.", "It is high."];
        expected.splice(1..1, notice);
        assert_eq!(shown(bench, more).await, expected);
    }
}

/// What the network shows of two questions, before the second of which the window is full.
async fn shown(bench: &Bench<'_>, more: Value) -> Vec<String> {
    let network = Memory::new("a", Doubt::SameKey);
    let engine = bench
        .engine_with(more, |options| {
            options.connectors = vec![network.clone()];
            options.stays = true;
        })
        .await;
    let full = Step::Usage(Tokens { input: 2_000_000, output: 1, ..Tokens::default() });
    bench.vendor.push(Turn::say("It is low.").then(full));
    bench.vendor.push(Turn::say("They spoke of the tide.")).push(Turn::say("It is high."));
    for (id, asked) in [("m1", "How is the tide?"), ("m2", "And now?")] {
        let before = network.visible().len();
        let id = format!("{id} {}", bench.vendor.requests().len());
        network.post("alice", &id, asked);
        until("it is answered", async || {
            network.visible().iter().skip(before).any(|text| text.starts_with("It is"))
        })
        .await;
    }
    close(engine).await;
    assert_eq!(bench.vendor.turns_left(), 0);
    network.visible()
}
