//! A run's time is one for all its attempts.

use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_engine::Request;
use tidegate_protocol::{ErrorCode, ReplyTarget, RunState};
use tidegate_storage::RunLookup;
use tidegate_testkit::model_server::{Step, Turn};
use tidegate_testkit::stores::Backend;

use crate::vendor::with_bench;
use crate::{close, scope, until};

/// What the run may take, and what it has worked before its process dies. The next one has less than the whole time left,
/// and that shows however slow the machine is.
const LIMIT: Duration = Duration::from_secs(20);
const WORKED: Duration = Duration::from_secs(6);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_process_died_has_only_what_is_left_of_its_time() {
    with_bench(Backend::Sqlite, async |bench| {
        bench.vendor.always(Turn::new([Step::Silence]));
        let more = json!({});
        let asks = |mut request: Request| {
            request.spec.limits.deadline_ms = u64::try_from(LIMIT.as_millis()).unwrap();
            Request { reply: ReplyTarget::Session, ..request }
        };
        let worked = async || u128::try_from(bench.worked_ms().await).unwrap() >= WORKED.as_millis();
        let run = bench.killed_after(&more, asks, async || until("it has worked", worked).await);
        let begin = Instant::now();
        let engine = bench.engine_with(more, |options| options.stays = true).await;
        let lookup = RunLookup::Id(run);
        let row = async || engine.library().run(&scope().tenant, &lookup).await.unwrap().unwrap();
        until("it has ended", async || row().await.state.is_terminal()).await;
        assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
        let ended = row().await;
        assert_eq!((ended.state, ended.attempt), (RunState::Failed, 2));
        assert_eq!(ended.error.unwrap().code, ErrorCode::DeadlineExceeded);
        close(engine).await;
    })
    .await;
}
