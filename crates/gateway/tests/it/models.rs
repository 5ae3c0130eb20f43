//! Trying a model over the interface.

use tidegate_engine::Drain;
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::{ModelTested, TestModel};
use tidegate_storage::{RunFilter, UsageFilter, UsageGroup};
use tidegate_testkit::client::ClientError;

use crate::house::{House, LONG};

const PATH: &str = "/api/v1/models/test";

fn of(model: Option<&str>) -> TestModel {
    TestModel { agent: None, provider: None, model: model.map(str::to_owned), profile: None }
}

async fn calls(house: &House) -> u64 {
    let filter = UsageFilter {
        since_ms: 0,
        until_ms: i64::MAX,
        agent: None,
        session: None,
        group: UsageGroup::Day,
        limit: 10,
    };
    let rows = house.engine.library().usage(house.engine.tenant(), filter).await.unwrap();
    rows.iter().map(|row| row.calls).sum()
}

#[tokio::test]
async fn a_model_is_tried_through_either_door_and_metered_without_a_run() {
    let house = House::open().await;
    for client in [house.client(), house.remote()] {
        let tested: ModelTested = client.post(PATH, &of(None), LONG).await.unwrap();
        assert_eq!(tested.model.to_string(), "offline/echo");
        assert!(tested.text.is_some_and(|text| text.contains("single word")) && tested.failure.is_none());
        assert!(tested.usage.input > 0);
    }
    assert_eq!(calls(&house).await, 2);
    let runs =
        house.engine.library().runs(house.engine.tenant(), RunFilter { limit: 9, ..RunFilter::default() });
    assert!(runs.await.unwrap().is_empty());
}

#[tokio::test]
async fn a_model_that_cannot_be_asked_is_refused_with_the_reason() {
    let house = House::open().await;
    let cases = [("nonsense", ErrorCode::InvalidValue), ("openai/gpt", ErrorCode::ModelUnavailable)];
    for (model, code) in cases {
        let refused = house.client().post::<ModelTested>(PATH, &of(Some(model)), LONG).await.unwrap_err();
        let ClientError::Server { problem, .. } = refused else { panic!("{refused:?}") };
        assert_eq!(problem.code, code, "{model}");
    }
    assert_eq!(calls(&house).await, 0);
}

#[tokio::test]
async fn a_try_under_way_does_not_hold_up_the_end() {
    let house = House::held().await;
    let (engine, settings) = (house.engine.clone(), std::sync::Arc::clone(house.engine.settings()));
    let scope = settings.scope(None).unwrap();
    let spec = settings.run_spec(&scope, &tidegate_engine::Wish::default()).unwrap();
    let trying = tidegate_runtime::spawn("try", async move { engine.probe(&scope, spec).await });
    // It begins before the engine closes: its first piece is held back for ever.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    tokio::time::timeout(LONG, house.engine.close(Drain::Everything)).await.expect("it closes");
    let error = trying.join().await.unwrap().unwrap_err();
    assert_eq!(error.body().code, ErrorCode::Closing);
}
