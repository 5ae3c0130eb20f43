//! SIGKILL at every fault point that the delivery machine passes.
//!
//! The points are not listed here: a host that is traced tells which ones it passes and how often. Each is then hit,
//! with every seed; several deaths follow each other in one world, so that each start finds the remains of the one
//! before. A failure prints what to set to see it again: `TIDEGATE_SEED=<seed>` repeats the same deaths in the same
//! order, and `TIDEGATE_KILL_POINT=<point>@<hit>` beside it only that one. `TIDEGATE_SEEDS` is how many seeds there
//! are, 3 unless said otherwise.

use std::collections::BTreeMap;
use std::fs;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use rustix::process::Signal;
use tidegate_testkit::host::{STARTED, Until};
use tidegate_testkit::network::Dice;
use tidegate_testkit::stores::{Backend, with_place};

use super::check::{self, Tally};
use super::world::{Ended, World};

mod sqlite {
    use tidegate_testkit::stores::Backend::Sqlite;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn killed_anywhere_it_loses_nothing_and_doubles_nothing() {
        super::everywhere(Sqlite).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn killed_at_any_moment_it_loses_nothing_and_doubles_nothing() {
        super::at_any_moment(Sqlite).await;
    }
}

mod postgres {
    use tidegate_testkit::stores::Backend::Postgres;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn killed_anywhere_it_loses_nothing_and_doubles_nothing() {
        super::everywhere(Postgres).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn killed_at_any_moment_it_loses_nothing_and_doubles_nothing() {
        super::at_any_moment(Postgres).await;
    }
}

/// New messages an account before each start.
const MESSAGES: usize = 2;
/// A point that is passed often is hit at one of the first so many times.
const HITS: u64 = 4;
/// Deaths in one world.
const TOGETHER: usize = 8;

/// What the machine must be killed at, or the scenario misses its purpose.
const INTERESTING: [&str; 26] = [
    "engine.start.locked",
    "engine.start.recovered",
    "engine.ingest.received",
    "engine.ingest.accepted",
    "engine.run.claimed",
    "engine.run.answered",
    "engine.run.finished",
    "engine.send.claimed",
    "engine.send.answered",
    "engine.mirror.half_written",
    "engine.close.begun",
    "engine.close.done",
    "models.offline.delta",
    "storage.enlist.after_commit",
    "storage.recover.after_commit",
    "storage.ingest.before_commit",
    "storage.ingest.after_commit",
    "storage.finish.before_commit",
    "storage.finish.after_commit",
    "storage.claim_send.before_commit",
    "storage.claim_send.after_commit",
    "storage.settle_send.before_commit",
    "storage.settle_send.after_commit",
    "storage.release.after_commit",
    "testkit.network.before_send",
    "testkit.network.sent",
];

/// How a host comes to its end when nothing kills it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Nothing is left to do.
    Whole,
    /// It closes with runs under way and gives them back.
    Drained,
    /// The one before it died with a run under way.
    Recovering,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Point {
    name: String,
    /// How often a host passes it.
    times: u64,
    way: Way,
}

impl World {
    /// One life that may end at a fault point.
    fn live(&mut self, way: Way, env: &[(&str, &str)]) -> Ended {
        let mut env = env.to_vec();
        if way == Way::Recovering {
            let ended = self.live(Way::Whole, &[("TIDEGATE_FAULT", "engine.run.claimed=kill")]);
            assert!(ended.was_killed(), "{ended:?}");
        }
        (self.plan.until, self.plan.drain) = match way {
            Way::Whole | Way::Recovering => (Until::Quiet, Duration::from_secs(5)),
            Way::Drained => (Until::Acknowledged, Duration::from_millis(30)),
        };
        if way == Way::Drained {
            env.push(("TIDEGATE_OFFLINE_DELAY_MS", "40"));
        }
        self.start(&env).wait()
    }
}

pub(crate) fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    match number("TIDEGATE_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("TIDEGATE_SEEDS").unwrap_or(3)).collect(),
    }
}

/// The points that a host passes, found by tracing all ways.
async fn discover(backend: Backend) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    with_place(backend, async |store| {
        let mut world = World::new(store.location(), 0);
        let mut dice = Dice::new(0, 0);
        for way in [Way::Whole, Way::Recovering, Way::Drained] {
            world.post(&mut dice, MESSAGES);
            let trace = world.file(&format!("trace-{way:?}"));
            let ended = world.live(way, &[("TIDEGATE_FAULT_TRACE", trace.to_str().unwrap())]);
            assert!(ended.status.success(), "{ended:?}");
            let mut passed: BTreeMap<String, u64> = BTreeMap::new();
            for name in fs::read_to_string(&trace).expect("a trace was written").lines() {
                *passed.entry(name.to_owned()).or_default() += 1;
            }
            for (name, times) in passed {
                if !points.iter().any(|point| point.name == name) {
                    points.push(Point { name, times, way });
                }
            }
        }
        let ended = world.live(Way::Whole, &[]);
        assert!(ended.status.success(), "{ended:?}");
        check::everything(store, &world).await;
        for expected in INTERESTING {
            assert!(points.iter().any(|point| point.name == expected), "{expected} is not among {points:?}");
        }
    })
    .await;
    points
}

/// A point and the hit to die at.
#[derive(Debug, Clone)]
struct Death {
    point: Point,
    hit: u64,
}

impl Death {
    fn what(&self) -> String {
        format!("{}@{}", self.point.name, self.hit)
    }

    /// Whether the environment asks for this one, or for none in particular.
    fn wanted(&self) -> bool {
        match std::env::var("TIDEGATE_KILL_POINT") {
            Ok(wanted) => wanted == self.point.name || wanted == self.what(),
            Err(_) => true,
        }
    }
}

/// Every point once, in an order and at hits that the seed decides. The first of each world is a migration's while
/// there are any: only a new store is migrated.
fn deaths(points: &[Point], seed: u64) -> Vec<Vec<Death>> {
    let mut dice = Dice::new(seed, 1);
    let mut left: Vec<&Point> = points.iter().collect();
    let mut all = Vec::new();
    while !left.is_empty() {
        let point = left.remove(usize::try_from(dice.below(left.len() as u64)).unwrap());
        let hit = 1 + dice.below(point.times.min(HITS));
        all.push(Death { point: point.clone(), hit });
    }
    all.retain(Death::wanted);
    let (first, later): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|death| death.point.name.starts_with("storage.migrate."));
    let mut worlds: Vec<Vec<Death>> = later.chunks(TOGETHER).map(<[Death]>::to_vec).collect();
    for (at, death) in first.into_iter().enumerate() {
        match worlds.get_mut(at) {
            Some(world) => world.insert(0, death),
            None => worlds.push(vec![death]),
        }
    }
    worlds
}

/// Says how to see a failure again.
pub(crate) async fn telling<T>(seed: u64, what: &str, case: impl Future<Output = T>) -> T {
    match AssertUnwindSafe(case).catch_unwind().await {
        Ok(value) => value,
        Err(panic) => {
            eprintln!("\nseed {seed}, died at {what}; again with: TIDEGATE_SEED={seed}\n");
            std::panic::resume_unwind(panic)
        }
    }
}

async fn everywhere(backend: Backend) {
    let points = discover(backend).await;
    let (mut killed, mut tally) = (0, Tally::default());
    for seed in seeds() {
        for (number, deaths) in deaths(&points, seed).into_iter().enumerate() {
            killed += deaths.len();
            let names: Vec<_> = deaths.iter().map(Death::what).collect();
            let one_world = async {
                with_place(backend, async |store| {
                    let mut world = World::new(store.location(), seed.wrapping_mul(1000) + number as u64);
                    let mut dice = Dice::new(seed, 2 + number as u64);
                    for death in &deaths {
                        die(&mut world, &mut dice, death);
                    }
                    let ended = world.live(Way::Whole, &[]);
                    assert!(ended.status.success(), "{ended:?}");
                    tally.add(check::everything(store, &world).await);
                })
                .await;
            };
            telling(seed, &names.join(", "), one_world).await;
        }
    }
    println!("{killed} deaths on {backend:?}, {} points: {tally:?}", points.len());
    about_something(tally);
}

/// Most are simply answered; only then do the marks mean anything.
fn about_something(tally: Tally) {
    let Tally { answered, failed, unknown, dead } = tally;
    assert!(answered > 2 * (failed + unknown + dead), "{tally:?}");
}

/// Lets a host die there. A hit that it does not come to is made up for by the first.
fn die(world: &mut World, dice: &mut Dice, death: &Death) {
    for hit in [death.hit, 1] {
        world.post(dice, MESSAGES);
        let fault = format!("{}=kill@{hit}", death.point.name);
        let ended = world.live(death.point.way, &[("TIDEGATE_FAULT", &fault)]);
        check::from_outside(world);
        if ended.was_killed() {
            return;
        }
        assert!(ended.status.success(), "{fault}: {ended:?}");
    }
    panic!("{} was not passed", death.what());
}

/// Hosts that die between the fault points and before the first one as well.
async fn at_any_moment(backend: Backend) {
    let mut tally = Tally::default();
    for seed in seeds() {
        let case = with_place(backend, async |store| {
            let mut world = World::new(store.location(), seed);
            let mut dice = Dice::new(seed, 1);
            for _ in 0..6 {
                world.post(&mut dice, MESSAGES);
                world.plan.until = Until::Quiet;
                let running = world.start(&[]);
                if dice.below(4) > 0 {
                    running.await_line(STARTED);
                }
                std::thread::sleep(Duration::from_micros(dice.below(80_000)));
                running.signal(Signal::KILL);
                running.wait();
                check::from_outside(&world);
            }
            let ended = world.live(Way::Whole, &[]);
            assert!(ended.status.success(), "{ended:?}");
            tally.add(check::everything(store, &world).await);
        });
        telling(seed, "any moment", case).await;
    }
    println!("any moment on {backend:?}: {tally:?}");
    about_something(tally);
}
