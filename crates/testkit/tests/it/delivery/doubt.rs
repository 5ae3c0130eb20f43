//! Sends whose end nobody heard of: reconciled where the network allows it, however often they were put off before.

use tidegate_testkit::host::{Account, Weather, scope};
use tidegate_testkit::network::Dice;
use tidegate_testkit::snapshot::library;
use tidegate_testkit::stores::ScratchStore;

use super::check;
use super::world::World;

on_places! { a_send_that_was_put_off_often_is_not_taken_for_one_that_crashed }

async fn a_send_that_was_put_off_often_is_not_taken_for_one_that_crashed(store: &mut ScratchStore) {
    let mut world = World::new(store.location(), 1);
    world.plan.weather = Weather::Busy;
    world.post(&mut Dice::new(1, 1), 12);
    world.run(&[]);
    let tally = check::everything(store, &world).await;
    assert_eq!((tally.failed, tally.dead), (0, 0), "{tally:?}");
    store.open().await;
    let outbox = library(&**store, &scope().tenant).await.outbox;
    assert!(outbox.iter().any(|part| part.attempt > 3), "nothing was put off");
    let crashed = |part: &&_| {
        let part: &tidegate_storage::OutboxRow = part;
        part.reason.as_ref().is_some_and(|reason| reason.contains("crashed"))
    };
    assert_eq!(outbox.iter().filter(crashed).collect::<Vec<_>>(), Vec::<&_>::new(), "nothing crashed");
    let unknown = outbox.iter().filter(|part| part.state.as_str() == "unknown");
    let readable = unknown.filter(|part| part.account_id == Account::ReadBack.as_str()).count();
    assert_eq!(readable, 0, "a network that can be read leaves no doubt");
}
