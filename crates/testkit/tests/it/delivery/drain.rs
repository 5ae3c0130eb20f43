//! SIGTERM under load: what can end in time does, the rest is given back and served by the next start.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tidegate_protocol::RunState;
use tidegate_testkit::host::{Account, CLOSED, STARTED, Until, Weather, scope};
use tidegate_testkit::snapshot::library;
use tidegate_testkit::stores::ScratchStore;

use super::check;
use super::world::World;

on_places! { fifty_runs_under_way_are_drained_or_resumed_and_none_is_lost_or_doubled }

const RUNS: usize = 50;
const BUDGET: Duration = Duration::from_millis(500);

async fn fifty_runs_under_way_are_drained_or_resumed_and_none_is_lost_or_doubled(store: &mut ScratchStore) {
    let mut world = World::new(store.location(), 1);
    world.plan.weather = Weather::Calm;
    world.plan.accounts = vec![Account::Blind];
    (world.plan.until, world.plan.drain) = (Until::Signal, BUDGET);
    let network = world.network(Account::Blind);
    for number in 1..=RUNS {
        // Every second answer takes far longer than the budget.
        let text = if number % 2 == 0 { "slow, ".repeat(200) } else { "quick".to_owned() };
        network.post(&format!("p{number}"), &format!("{number}: {text}"));
    }
    let running = world.start(&[("TIDEGATE_OFFLINE_DELAY_MS", "40")]);
    running.await_line(STARTED);
    running.until("all acknowledged", || network.acknowledged().len() == RUNS);
    let begin = Instant::now();
    running.signal(Signal::TERM);
    let ended = running.wait();
    let took = begin.elapsed();
    assert!(ended.status.success(), "{ended:?}");
    assert!(took < BUDGET * 6, "the end took {took:?}");
    let closed = ended.stdout.last().and_then(|line| line.strip_prefix(CLOSED)).expect("it closed");
    let given_back: usize = closed.trim().parse().unwrap();
    assert!(given_back > 0, "nothing was under way");

    store.open().await;
    let runs = library(&**store, &scope().tenant).await.runs;
    store.close().await;
    let queued = runs.iter().filter(|run| run.state == RunState::Queued).count();
    let completed = runs.iter().filter(|run| run.state == RunState::Completed).count();
    assert_eq!((queued, queued + completed), (given_back, RUNS), "every run is queued again or has ended");
    assert!(completed > 0, "the budget was of no use");

    world.plan.until = Until::Quiet;
    world.run(&[]);
    let tally = check::everything(store, &world).await;
    assert_eq!(tally.answered, RUNS, "{tally:?}");
    store.open().await;
    let runs = library(&**store, &scope().tenant).await.runs;
    let tries: Vec<_> = runs.iter().map(|run| run.attempt).collect();
    assert_eq!(tries, vec![1; RUNS], "a good end is no crash");
}
