//! A client that does not read costs the others nothing, and is let go.

use std::time::Duration;

use serde_json::json;

use super::client::{Read, operator};
use crate::house::House;

#[tokio::test]
async fn a_reader_that_stands_still_is_let_go_and_others_are_answered() {
    let house = House::open().await;
    let mut slow = operator(&house).await;
    let mut fast = operator(&house).await;
    // Answers that nobody reads: many times what may wait for one client, and what the system holds for it.
    for _ in 0..60 {
        for _ in 0..40 {
            slow.ask("config.schema", json!({})).await;
        }
        assert_eq!(fast.payload("health", json!({})).await["ok"], true);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut frames = 0;
    let end = loop {
        match slow.read().await {
            Read::Frame(_) => frames += 1,
            end @ Read::Closed(..) => break end,
        }
    };
    assert!(frames < 60 * 40, "not everything was kept for it");
    assert!(
        matches!(&end, Read::Closed(1008, reason) if reason == "slow consumer")
            || end == Read::Closed(0, String::new()),
        "{end:?}"
    );
    assert_eq!(fast.payload("health", json!({})).await["ok"], true);
}
