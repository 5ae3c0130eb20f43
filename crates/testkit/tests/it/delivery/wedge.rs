//! One run that never comes back, one that panics, connectors that cannot receive: everybody else is answered.

use tidegate_protocol::{ErrorCode, RunState};
use tidegate_storage::RunRow;
use tidegate_testkit::host::{Account, Weather, scope};
use tidegate_testkit::network::Dice;
use tidegate_testkit::snapshot::library;
use tidegate_testkit::stores::{ScratchStore, with_place};

use super::check;
use super::world::World;

on_places! {
    a_run_that_hangs_ends_at_its_deadline_and_hurts_nobody,
    a_panic_anywhere_in_a_run_ends_that_run_alone,
    a_connector_that_panics_while_sending_loses_no_other_reply,
}

/// A calm world, and a deadline that is longer than everything else takes.
fn ward(store: &ScratchStore) -> World {
    let mut world = World::new(store.location(), 1);
    world.plan.weather = Weather::Calm;
    world.configure("{ agents: { defaults: { timeoutSeconds: 4 } } }");
    world.post(&mut Dice::new(5, 5), 4);
    world
}

/// The runs that failed with this code, and all others.
async fn failed_with(store: &mut ScratchStore, code: ErrorCode) -> (Vec<RunRow>, Vec<RunRow>) {
    store.open().await;
    let runs = library(&**store, &scope().tenant).await.runs;
    store.close().await;
    runs.into_iter().partition(|run| run.error.as_ref().is_some_and(|error| error.code == code))
}

async fn a_run_that_hangs_ends_at_its_deadline_and_hurts_nobody(store: &mut ScratchStore) {
    let mut world = ward(store);
    world.plan.accounts.extend([Account::Panics, Account::EndsAtOnce, Account::Down]);
    let ended = world.run_with_fault("models.offline.delta=hang@7;models.offline.start=panic@5", &[]);
    assert!(ended.status.success(), "{ended:?}");
    world.plan.accounts = Account::SOUND.to_vec();
    let tally = check::everything(store, &world).await;
    assert_eq!((tally.answered, tally.failed), (10, 2), "{tally:?}");

    let (wedged, others) = failed_with(store, ErrorCode::DeadlineExceeded).await;
    let [wedged] = wedged.try_into().expect("one run hung");
    let served = others.iter().filter(|run| run.key != wedged.key);
    let last = served.map(|run| run.finished_at).max().unwrap();
    assert!(last < wedged.finished_at, "others waited for it: {last:?}, {:?}", wedged.finished_at);
    let panicked = others.iter().filter(|run| run.state == RunState::Failed);
    let codes: Vec<_> = panicked.filter_map(|run| run.error.as_ref()).map(|error| error.code).collect();
    assert_eq!(codes, [ErrorCode::Internal]);
}

async fn a_panic_anywhere_in_a_run_ends_that_run_alone(store: &mut ScratchStore) {
    for point in
        ["engine.run.claimed", "models.offline.delta", "engine.run.answered", "testkit.network.render"]
    {
        with_place(store.backend(), async |store| {
            let world = ward(store);
            let ended = world.run_with_fault(&format!("{point}=panic@3"), &[]);
            assert!(ended.status.success(), "{point}: {ended:?}");
            let tally = check::everything(store, &world).await;
            assert_eq!((tally.answered, tally.failed), (11, 1), "{point}: {tally:?}");
        })
        .await;
    }
}

async fn a_connector_that_panics_while_sending_loses_no_other_reply(store: &mut ScratchStore) {
    let world = ward(store);
    let ended = world.run_with_fault("testkit.network.before_send=panic@2;testkit.network.sent=panic@5", &[]);
    assert!(ended.status.success(), "{ended:?}");
    let tally = check::everything(store, &world).await;
    assert_eq!((tally.failed, tally.dead), (0, 0), "{tally:?}");
    assert!(tally.unknown <= 2 && tally.answered >= 10, "{tally:?}");
}
