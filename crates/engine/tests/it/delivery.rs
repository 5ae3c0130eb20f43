//! From a network's message to the answer on the network.

use tidegate_engine::Engine;
use tidegate_protocol::Doubt;
use tidegate_storage::{Decided, OutboxFilter, OutboxRow};

use crate::network::{Memory, Send};
use crate::{close, host, scope, until};

async fn outbox(engine: &Engine) -> Vec<OutboxRow> {
    let filter = OutboxFilter { limit: 100, ..OutboxFilter::default() };
    let mut rows = engine.library().outbox(&scope().tenant, filter).await.unwrap();
    rows.reverse();
    rows
}

async fn states(engine: &Engine) -> Vec<String> {
    outbox(engine).await.iter().map(|row| row.state.as_str().to_owned()).collect()
}

async fn settled(engine: &Engine, count: usize) {
    until("every part is settled", async || {
        let states = states(engine).await;
        states.len() == count && !states.iter().any(|state| state == "pending" || state == "sending")
    })
    .await;
}

#[tokio::test]
async fn a_message_is_answered_once_on_its_network_however_often_it_is_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let network = Memory::new("a", Doubt::Blind);
    let engine = host(folder.path(), vec![network.clone()]).await;
    for _ in 0..5 {
        network.post("alice", "m1", "hello");
    }
    network.post("bob", "m1", "another chat, the same number");
    settled(&engine, 2).await;
    assert_eq!(states(&engine).await, ["sent", "sent"]);
    assert_eq!(network.visible().len(), 2);
    close(engine).await;
}

#[tokio::test]
async fn answers_to_one_chat_come_in_the_order_of_its_messages() {
    let folder = tempfile::tempdir().unwrap();
    let network = Memory::new("a", Doubt::Blind);
    let engine = host(folder.path(), vec![network.clone()]).await;
    network.will(&[Send::Later, Send::Take, Send::Later, Send::Later]);
    for at in 0..10 {
        network.post("alice", &format!("m{at}"), &format!("question {at}"));
    }
    settled(&engine, 10).await;
    let asked: Vec<String> = network
        .visible()
        .iter()
        .map(|text| text.rsplit_once("：").unwrap().1.to_owned())
        .collect();
    assert_eq!(asked, (0..10).map(|at| format!("question {at}")).collect::<Vec<_>>());
    close(engine).await;
}

#[tokio::test]
async fn an_answer_that_was_lost_is_resent_with_its_key_where_the_network_knows_keys() {
    let folder = tempfile::tempdir().unwrap();
    let network = Memory::new("a", Doubt::SameKey);
    let engine = host(folder.path(), vec![network.clone()]).await;
    network.will(&[Send::TakeSilently, Send::Lose]);
    network.post("alice", "m1", "hello");
    settled(&engine, 1).await;
    assert_eq!((states(&engine).await, network.visible().len()), (vec!["sent".to_owned()], 1));
    close(engine).await;
}

#[tokio::test]
async fn an_answer_that_was_lost_is_looked_for_where_the_network_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let network = Memory::new("a", Doubt::ReadBack);
    let engine = host(folder.path(), vec![network.clone()]).await;
    network.will(&[Send::TakeSilently, Send::Lose]);
    network.post("alice", "m1", "hello");
    network.post("alice", "m2", "again");
    settled(&engine, 2).await;
    assert_eq!(states(&engine).await, ["sent", "sent"]);
    assert_eq!(network.visible().len(), 2);
    close(engine).await;
}

#[tokio::test]
async fn a_blind_network_keeps_an_unknown_send_unknown_until_a_person_decides() {
    let folder = tempfile::tempdir().unwrap();
    let network = Memory::new("a", Doubt::Blind);
    let engine = host(folder.path(), vec![network.clone()]).await;
    network.will(&[Send::Lose]);
    network.post("alice", "m1", "one---two---three");
    settled(&engine, 3).await;
    assert_eq!(states(&engine).await, ["unknown", "dropped", "dropped"]);
    assert!(network.visible().is_empty());
    let told = engine.undelivered(10).await.unwrap();
    assert_eq!(told.len(), 1);
    engine.told(&told).await.unwrap();
    assert!(engine.undelivered(10).await.unwrap().is_empty());
    let owner = tidegate_policy::Principal::local_owner(scope().tenant);
    let decided = engine.retry_send(&owner, told[0].id).await.unwrap();
    assert_eq!(decided, Decided::Done { parts: 3 });
    settled(&engine, 3).await;
    assert_eq!(states(&engine).await, ["sent", "sent", "sent"]);
    assert_eq!(network.visible().len(), 3);
    assert_eq!(engine.retry_send(&owner, told[0].id).await.unwrap(), Decided::Refused(tidegate_storage::OutboxState::Sent));
    close(engine).await;
}

#[tokio::test]
async fn a_refused_part_ends_its_reply_and_the_next_reply_goes_out() {
    let folder = tempfile::tempdir().unwrap();
    let network = Memory::new("a", Doubt::Blind);
    let engine = host(folder.path(), vec![network.clone()]).await;
    network.will(&[Send::Take, Send::Refuse]);
    network.post("alice", "m1", "one---two---three");
    network.post("alice", "m2", "next");
    settled(&engine, 4).await;
    assert_eq!(states(&engine).await, ["sent", "dead", "dropped", "sent"]);
    close(engine).await;
}

#[tokio::test]
async fn a_send_that_panics_is_unknown_and_hurts_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let (bad, good) = (Memory::new("bad", Doubt::Blind), Memory::new("good", Doubt::Blind));
    let engine = host(folder.path(), vec![bad.clone(), good.clone()]).await;
    bad.will(&[Send::Panic, Send::Hang]);
    bad.post("alice", "m1", "hello");
    bad.post("carol", "m2", "hello");
    good.post("bob", "m1", "hello");
    until("the good network has its answer", async || good.visible().len() == 1).await;
    until("the panic is unknown", async || {
        outbox(&engine).await.iter().any(|row| row.state.as_str() == "unknown")
    })
    .await;
    engine.close(tidegate_engine::Drain::Within(std::time::Duration::from_millis(50))).await;
}

#[tokio::test]
async fn a_run_that_fails_is_answered_with_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let network = Memory::new("a", Doubt::Blind);
    let options = tidegate_engine::Options {
        stays: true,
        models: std::sync::Arc::new(crate::network::NoModels),
        connectors: vec![network.clone()],
        ..crate::passing()
    };
    let engine = crate::start_with(folder.path(), options).await;
    network.post("alice", "m1", "hello");
    settled(&engine, 1).await;
    let said = network.visible();
    assert!(said[0].contains("[MODEL_UNAVAILABLE]"), "{said:?}");
    close(engine).await;
}
