//! A network that hangs up after every delivery: its own messages come late, everybody else's do not.

use rustix::process::Signal;
use tidegate_testkit::host::{Account, STARTED, Until, Weather};
use tidegate_testkit::network::Dice;
use tidegate_testkit::stores::ScratchStore;

use super::check;
use super::world::World;

on_places! { a_network_that_hangs_up_all_the_time_holds_up_nobody_and_misses_nothing }

async fn a_network_that_hangs_up_all_the_time_holds_up_nobody_and_misses_nothing(store: &mut ScratchStore) {
    let mut world = World::new(store.location(), 1);
    world.plan.weather = Weather::Calm;
    world.plan.accounts.push(Account::Flaps);
    world.plan.until = Until::Signal;
    let flaps = world.network(Account::Flaps);
    flaps.post("p0", "1: the first");
    let running = world.start(&[]);
    running.await_line(STARTED);
    running.until("the first delivery", || flaps.acknowledged().len() == 1);

    // It is away now. What is written meanwhile waits for it, and only that.
    flaps.post("p0", "2: written while it is away");
    flaps.post("p1", "3: this too");
    world.post(&mut Dice::new(1, 1), 4);
    let answered = |account: &Account| world.network(*account).visible().len();
    running.until("others answered", || Account::SOUND.iter().all(|account| answered(account) == 4));
    assert!(flaps.visible().len() < 3, "it was not away");

    running.until("all answered", || flaps.visible().len() == 3);
    running.signal(Signal::TERM);
    let ended = running.wait();
    assert!(ended.status.success(), "{ended:?}");
    let tally = check::everything(store, &world).await;
    assert_eq!(tally.answered, 15, "{tally:?}");
}
