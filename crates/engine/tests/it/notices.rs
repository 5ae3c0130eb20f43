//! What people on a network are told about their conversation besides its answers.

use serde_json::{Value, json};
use tidegate_protocol::{Doubt, PeerKind};
use tidegate_storage::RunFilter;
use tidegate_testkit::model_server::{Step, Tokens, Turn};

use crate::network::Memory;
use crate::vendor::{Bench, on_both_backends};
use crate::{close, scope, until};

on_both_backends! {
    whoever_writes_on_a_network_is_told_once_that_their_conversation_was_summed_up,
    nobody_is_told_so_in_a_group_or_without_an_answer,
}

const ENGLISH: &str = "(This conversation has grown long: what came first is now a summary.)";
const CHINESE: &str = "（对话已经很长：较早的内容现已压缩为摘要。）";

async fn whoever_writes_on_a_network_is_told_once_that_their_conversation_was_summed_up(bench: &Bench<'_>) {
    let quiet = json!({"agents": {"defaults": {"compaction": {"notify": false}}}});
    for (more, notice) in
        [(json!({}), Some(ENGLISH)), (json!({"ui": {"language": "zh-CN"}}), Some(CHINESE)), (quiet, None)]
    {
        let expected: Vec<_> = ["It is low.", "It is high."].into_iter().chain(notice).collect();
        assert_eq!(shown(bench, more, PeerKind::Dm, "It is high.", expected.len()).await, expected);
    }
}

async fn nobody_is_told_so_in_a_group_or_without_an_answer(bench: &Bench<'_>) {
    let high = shown(bench, json!({}), PeerKind::Group, "It is high.", 2).await;
    assert_eq!(high, ["It is low.", "It is high."]);
    assert_eq!(shown(bench, json!({}), PeerKind::Dm, "NO_REPLY", 1).await, ["It is low."]);
}

/// What the network shows of two questions, before the second of which the window is full. So many messages are waited
/// for; others would have been sent by the time the engine is closed.
async fn shown(bench: &Bench<'_>, more: Value, kind: PeerKind, last: &str, messages: usize) -> Vec<String> {
    let network = Memory::new("a", Doubt::SameKey);
    let engine = bench
        .engine_with(more, |options| {
            options.connectors = vec![network.clone()];
            options.stays = true;
        })
        .await;
    let full = Step::Usage(Tokens { input: 2_000_000, output: 1, ..Tokens::default() });
    bench.vendor.push(Turn::say("It is low.").then(full));
    bench.vendor.push(Turn::say("They spoke of the tide.")).push(Turn::say(last));
    for (id, asked, left, seen) in [("m1", "How is the tide?", 2, 1), ("m2", "And now?", 0, messages)] {
        let id = format!("{id} {}", bench.vendor.requests().len());
        network.post_as(kind, "alice", &id, asked);
        until("it is answered", async || {
            let newest = RunFilter { limit: 1, ..RunFilter::default() };
            let runs = engine.library().runs(&scope().tenant, newest).await.unwrap();
            let over = runs.iter().all(|run| run.state.is_terminal());
            bench.vendor.turns_left() == left && over && network.visible().len() >= seen
        })
        .await;
    }
    close(engine).await;
    network.visible()
}
