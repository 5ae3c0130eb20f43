//! Two instances on one database: one stands still for longer than its lease, the other takes over.

use rustix::process::Signal;
use tidegate_protocol::RunState;
use tidegate_storage::OutboxState;
use tidegate_testkit::host::{Account, STARTED, Until, Weather, scope};
use tidegate_testkit::snapshot::library;
use tidegate_testkit::stores::{Backend, ScratchStore, with_place};

use super::check;
use super::world::World;

mod postgres {
    use super::{Backend, with_place};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_instance_that_stood_still_comes_back_to_find_its_work_done_once() {
        with_place(Backend::Postgres, async |store| super::stood_still(store).await).await;
    }
}

async fn stood_still(store: &mut ScratchStore) {
    let mut world = World::new(store.location(), 1);
    world.plan.weather = Weather::Calm;
    world.plan.accounts = vec![Account::Blind];
    world.plan.until = Until::Signal;
    let network = world.network(Account::Blind);
    for number in 1..=6 {
        network.post(&format!("p{}", number % 3), &format!("{number}: {}", "slow, ".repeat(100)));
    }
    // Its model is so slow that it stands still inside of its runs.
    let first = world.start(&[("TIDEGATE_OFFLINE_DELAY_MS", "100")]);
    first.await_line(STARTED);
    first.until("all acknowledged", || network.acknowledged().len() == 6);
    first.signal(Signal::STOP);
    // The lease is counted by the database's clock: this is what it looks like after a minute of silence.
    store.execute("UPDATE instances SET heartbeat_at = heartbeat_at - 60000").await;

    world.plan.home = world.file("second");
    world.plan.until = Until::Quiet;
    world.run(&[]);
    assert_eq!(network.visible().len(), 6, "the second one served everybody");

    first.signal(Signal::CONT);
    first.signal(Signal::TERM);
    let ended = first.wait();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(network.visible().len(), 6, "the first one added nothing");
    check::from_outside(&world);
    store.open().await;
    let view = library(&**store, &scope().tenant).await;
    assert!(view.runs.iter().all(|run| run.state == RunState::Completed), "{:?}", view.runs);
    assert!(view.outbox.iter().all(|part| part.state == OutboxState::Sent), "{:?}", view.outbox);
    assert_eq!((view.runs.len(), view.outbox.len(), view.entries.len()), (6, 6, 12));
    assert!(view.runs.iter().any(|run| run.attempt == 2), "nothing was taken over");
}
