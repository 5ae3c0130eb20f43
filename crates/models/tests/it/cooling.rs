//! How long a credential that failed is left alone, by a clock the test moves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tidegate_models::{FailureKind, Standing, StandingKey, StandingStore};
use tidegate_testkit::model_server::{Kind, Turn};

use crate::house::{House, question};

const MODEL: &str = "anthropic/claude-sonnet-4-5";
const MINUTE: Duration = Duration::from_mins(1);
const SECOND: Duration = Duration::from_secs(1);

/// Asks, and says whether the server was asked.
async fn is_tried(house: &House) -> bool {
    let before = house.asked().len();
    house.ask(&[MODEL, "ollama/qwen3:8b"], question("When?")).await;
    house.asked()[before..].iter().any(|request| request.body["model"] == "claude-sonnet-4-5")
}

/// Each refusal is followed by rests of these lengths: not tried just before the end, tried at it.
async fn rests(kind: Kind, times: &[Duration]) {
    let house = House::new().await;
    house.server.always_for("claude-sonnet-4-5", Turn::refuse(kind));
    assert!(is_tried(&house).await);
    for time in times {
        house.clock.pass(time.saturating_sub(SECOND));
        assert!(!is_tried(&house).await, "{kind:?} is tried before {time:?} are over");
        house.clock.pass(SECOND);
        assert!(is_tried(&house).await, "{kind:?} is not tried after {time:?}");
    }
}

#[tokio::test]
async fn a_limit_rests_1_5_25_and_then_60_minutes() {
    rests(Kind::RateLimit, &[MINUTE, 5 * MINUTE, 25 * MINUTE, 60 * MINUTE, 60 * MINUTE]).await;
}

#[tokio::test]
async fn a_refused_key_rests_1_5_25_and_then_60_minutes() {
    rests(Kind::Auth, &[MINUTE, 5 * MINUTE, 25 * MINUTE, 60 * MINUTE, 60 * MINUTE]).await;
}

#[tokio::test]
async fn an_empty_purse_rests_5_hours_doubled_up_to_a_day() {
    let hours = [5, 10, 20, 24].map(Duration::from_hours);
    rests(Kind::Billing, &hours).await;
}

#[tokio::test]
async fn the_times_of_an_empty_purse_can_be_configured() {
    let house = House::with(|config| {
        config["auth"]["cooldowns"] = serde_json::json!({
            "billingBackoffHours": 1.0, "billingMaxHours": 2.0, "billingBackoffHoursByProvider": {"anthropic": 0.5},
        });
    })
    .await;
    house.server.always_for("claude-sonnet-4-5", Turn::refuse(Kind::Billing));
    assert!(is_tried(&house).await);
    house.clock.pass(Duration::from_secs(30 * 60 - 1));
    assert!(!is_tried(&house).await);
    house.clock.pass(SECOND);
    assert!(is_tried(&house).await);
}

#[tokio::test]
async fn a_provider_that_asks_for_more_time_gets_it() {
    let house = House::new().await;
    house.server.push_for("claude-sonnet-4-5", Turn::refuse_for(Kind::RateLimit, 600));
    assert!(is_tried(&house).await);
    house.clock.pass(Duration::from_secs(10 * 60 - 1));
    assert!(!is_tried(&house).await);
    house.clock.pass(SECOND);
    assert!(is_tried(&house).await);
}

#[tokio::test]
async fn a_success_forgives_what_was_before() {
    let house = House::new().await;
    for _ in 0..3 {
        house.server.push_for("claude-sonnet-4-5", Turn::refuse(Kind::RateLimit));
        assert!(is_tried(&house).await);
        house.clock.pass(MINUTE);
        assert!(is_tried(&house).await, "one failure after a success rests a minute");
    }
}

#[tokio::test]
async fn what_the_credential_is_not_to_blame_for_is_not_held_against_it() {
    for kind in [Kind::Server, Kind::BadRequest, Kind::TooLong, Kind::NoSuchModel] {
        let house = House::new().await;
        house.server.push_for("claude-sonnet-4-5", Turn::refuse(kind));
        assert!(is_tried(&house).await);
        assert!(is_tried(&house).await, "{kind:?}");
    }
}

#[tokio::test]
async fn when_all_are_cooling_the_soonest_free_is_probed_after_a_while() {
    let house = House::new().await;
    house.store_key("anthropic/other", "key-two");
    house.server.push(Turn::refuse_for(Kind::RateLimit, 600)).push(Turn::refuse_for(Kind::RateLimit, 300));
    house.ask(&[MODEL], question("When?")).await;
    assert_eq!(house.asked().len(), 2);
    let heard = house.ask(&[MODEL], question("When?")).await;
    assert_eq!((heard.failure().kind, house.asked().len()), (FailureKind::RateLimit, 2), "too soon");
    assert!(heard.failure().message.contains("cooling down"), "{}", heard.failure().message);
    assert!(heard.failure().message.contains("300 s"), "{}", heard.failure().message);
    house.clock.pass(Duration::from_secs(15));
    let heard = house.ask(&[MODEL], question("When?")).await;
    assert_eq!(heard.origin.unwrap().profile_id.as_deref(), Some("anthropic/config"), "the soonest free");
    assert_eq!(house.asked().len(), 3);
}

#[tokio::test]
async fn a_cooling_model_is_not_probed_while_another_stands_in() {
    let house = House::new().await;
    house.server.push_for("claude-sonnet-4-5", Turn::refuse_for(Kind::RateLimit, 600));
    assert!(is_tried(&house).await);
    house.clock.pass(Duration::from_secs(20));
    assert!(!is_tried(&house).await, "the next model is free");
}

/// Keeps what it is told, as a database would.
#[derive(Default)]
struct Kept(Mutex<Vec<(StandingKey, Standing)>>);

#[async_trait]
impl StandingStore for Kept {
    async fn load(&self) -> Vec<(StandingKey, Standing)> {
        self.0.lock().unwrap().clone()
    }

    async fn save(&self, key: &StandingKey, standing: &Standing) {
        let mut kept = self.0.lock().unwrap();
        kept.retain(|(known, _)| known != key);
        kept.push((key.clone(), standing.clone()));
    }
}

#[tokio::test]
async fn what_was_learned_outlives_the_program() {
    let kept: Arc<Kept> = Arc::default();
    let house = House::build(|_| {}, Arc::clone(&kept) as _).await;
    house.server.push_for("claude-sonnet-4-5", Turn::refuse_for(Kind::RateLimit, 600));
    assert!(is_tried(&house).await);
    drop(house);
    let house = House::build(|_| {}, Arc::clone(&kept) as _).await;
    assert!(!is_tried(&house).await);
    house.clock.pass(11 * MINUTE);
    assert!(is_tried(&house).await);
    drop(house);
    let kept = kept.0.lock().unwrap().clone();
    let limited = kept.iter().find(|(key, _)| key.model.as_deref() == Some("claude-sonnet-4-5")).unwrap();
    assert_eq!((limited.1.errors, limited.1.cooldown_until), (0, 0), "the success was kept too");
}
