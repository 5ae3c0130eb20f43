//! A message that takes the process with it, every time: it ends as poison, and everybody else is served.

use tidegate_protocol::{ErrorCode, RunState};
use tidegate_testkit::host::{Account, POISON, Weather, scope};
use tidegate_testkit::snapshot::library;
use tidegate_testkit::stores::ScratchStore;

use super::check;
use super::world::World;

on_places! { a_run_that_kills_the_process_ends_after_three_crashes_and_others_are_served }

async fn a_run_that_kills_the_process_ends_after_three_crashes_and_others_are_served(
    store: &mut ScratchStore,
) {
    let mut world = World::new(store.location(), 1);
    world.plan.weather = Weather::Calm;
    world.plan.accounts = vec![Account::SameKey, Account::Fatal];
    let (fatal, other) = (world.network(Account::Fatal), world.network(Account::SameKey));
    let poisoned = fatal.post("victim", &format!("1: {POISON}"));
    let behind = fatal.post("victim", "2: after it");
    let beside = fatal.post("neighbour", "3: on the same network");
    let mut others = Vec::new();
    let mut crashes = 0;
    loop {
        for peer in ["p0", "p1", "p2"] {
            others.push(other.post(peer, &format!("{}: hello", others.len() + 1)));
        }
        let ended = world.start(&[]).wait();
        if !ended.was_killed() {
            assert!(ended.status.success(), "{ended:?}");
            break;
        }
        crashes += 1;
        assert!(crashes <= 3, "it was tried again and again");
    }
    assert_eq!(crashes, 3);

    let tally = check::everything(store, &world).await;
    assert_eq!((tally.failed, tally.unknown, tally.dead), (1, 0, 0), "{tally:?}");
    let [told] = fatal.replies_to(&poisoned).try_into().expect("one error reply");
    assert!(told.text.contains("POISON"), "{told:?}");
    for id in [behind, beside] {
        assert_eq!(fatal.replies_to(&id).len(), 1, "{id} was served");
    }
    store.open().await;
    let runs = library(&**store, &scope().tenant).await.runs;
    let failed: Vec<_> = runs.iter().filter(|run| run.state == RunState::Failed).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].error.as_ref().map(|error| error.code), Some(ErrorCode::Poison));
}
