//! SIGKILL at every fault point that `ask` passes, on both databases.
//!
//! The points are not listed here: an ask that is traced tells which ones it passes and how often. Each is then hit,
//! and everything that had been acknowledged must be there, once and in order. The seed decides what was asked before.
//! A failure prints what to set to see it again: `TIDEGATE_KILL_POINT=<point>@<hit>` and `TIDEGATE_SEED=<seed>` run
//! that one case. `TIDEGATE_SEEDS` is how many seeds there are, 3 unless said otherwise.

mod story;
mod witness;

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use rustix::process::Signal;

use crate::home::{Backend, Home};
pub(crate) use story::Dice;
use story::{Death, Question, Scene, Story};
use witness::Witness;

const SIGKILL: i32 = 9;
/// A point that is passed often is hit this many times.
const HITS: usize = 3;

/// Where an ask dies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    name: String,
    hit: usize,
}

impl Point {
    fn arm(&self) -> String {
        format!("{}=kill@{}", self.name, self.hit)
    }

    /// Whether the environment asks for this one, or for none in particular.
    fn wanted(&self) -> bool {
        match std::env::var("TIDEGATE_KILL_POINT") {
            Ok(wanted) => wanted == self.name || wanted == format!("{}@{}", self.name, self.hit),
            Err(_) => true,
        }
    }
}

pub(crate) fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    match number("TIDEGATE_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("TIDEGATE_SEEDS").unwrap_or(3)).collect(),
    }
}

/// The points that the story's last question passes, found by tracing it.
fn discover(backend: Backend, story: &Story) -> Option<Vec<Point>> {
    let home = Home::on(backend)?;
    let death = story.death(0);
    let mut witness = Witness::new(&home);
    witness.play(story);
    witness.interrupt(&death);
    let trace = home.around().join("user/trace");
    death.last.call(&home).env("TIDEGATE_FAULT_TRACE", &trace).ok();
    let mut passed: BTreeMap<String, usize> = BTreeMap::new();
    for name in fs::read_to_string(&trace).expect("a trace was written").lines() {
        *passed.entry(name.to_owned()).or_default() += 1;
    }
    for expected in
        ["storage.accept.after_commit", "storage.finish.before_commit", "engine.mirror.half_written"]
    {
        assert!(passed.contains_key(expected), "{expected} is not among {passed:?}");
    }
    let points = passed
        .into_iter()
        .flat_map(|(name, times)| (1..=times.min(HITS)).map(move |hit| Point { name: name.clone(), hit }));
    Some(points.filter(Point::wanted).collect())
}

/// Kills the last question at the point, and looks.
fn kill_at(home: &Home, witness: &mut Witness<'_>, death: &Death, point: &Point) {
    witness.interrupt(death);
    let killed = death.last.call(home).env("TIDEGATE_FAULT", point.arm()).run();
    assert_eq!(killed.signal, Some(SIGKILL), "the point was not passed: {killed:?}");
    assert_eq!(killed.stdout, "", "nothing was acknowledged: {killed:?}");
    witness.died(&death.last);
    if home.is_sqlite() {
        witness.look_before_recovery();
    }
    witness.go_on(&death.next);
    witness.look_in(death.next.session);
}

/// Says how to see a failure again.
fn telling(what: &str, seed: u64, case: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(case)) {
        eprintln!(
            "\nkilled at {what}, seed {seed}; again with: TIDEGATE_KILL_POINT={what} TIDEGATE_SEED={seed}\n"
        );
        resume_unwind(panic);
    }
}

/// Every point of a scene, with every seed.
///
/// Each death has a home of its own; on Postgres, where making one is slow, some share one, so that they come upon each
/// other's remains as well.
fn everywhere(backend: Backend, scene: Scene) {
    let shared = backend == Backend::Postgres && scene != Scene::First;
    let mut deaths = 0;
    for seed in seeds() {
        let story = Story::of(scene, seed);
        let Some(points) = discover(backend, &story) else { return };
        for together in points.chunks(if shared { 8 } else { 1 }) {
            let Some(home) = Home::on(backend) else { return };
            let mut witness = Witness::new(&home);
            witness.play(&story);
            for point in together {
                deaths += 1;
                let what = format!("{}@{}", point.name, point.hit);
                telling(&what, seed, || kill_at(&home, &mut witness, &story.death(deaths), point));
            }
            let last =
                together.last().map(|point| format!("{}@{}", point.name, point.hit)).unwrap_or_default();
            telling(&last, seed, || witness.look());
        }
    }
    println!("{deaths} deaths on {backend:?}, {scene:?}");
    assert!(deaths > 0 || std::env::var("TIDEGATE_KILL_POINT").is_ok(), "nothing was killed");
}

/// Several asks in a row die, each at a point of its own choice, before one is let through.
fn in_a_row(backend: Backend) {
    if std::env::var("TIDEGATE_KILL_POINT").is_ok() {
        return;
    }
    for seed in seeds() {
        let story = Story::of(Scene::Later, seed);
        let Some(points) = discover(backend, &story) else { return };
        telling("(several in a row)", seed, || {
            let Some(home) = Home::on(backend) else { return };
            let mut dice = Dice::new(seed ^ 0x5eed);
            let mut witness = Witness::new(&home);
            witness.play(&story);
            for at in 0..5 {
                let question = Question::make(&mut dice, &format!("row {at}"));
                let point = dice.choose(&points);
                let killed = question.call(&home).env("TIDEGATE_FAULT", point.arm()).run();
                if killed.signal == Some(SIGKILL) {
                    witness.died(&question);
                } else {
                    // A shorter answer may not pass the point so often.
                    witness.acknowledged(&question, &killed);
                }
            }
            witness.go_on(&story.death(0).next);
            witness.look();
        });
    }
}

/// Asks that die at any moment, also between the fault points and before the first one.
fn at_any_moment(backend: Backend) {
    if std::env::var("TIDEGATE_KILL_POINT").is_ok() {
        return;
    }
    for seed in seeds() {
        telling("(any moment)", seed, || {
            let Some(home) = Home::on(backend) else { return };
            let mut dice = Dice::new(seed ^ 0xa11);
            let mut witness = Witness::new(&home);
            for at in 0..8 {
                let question = Question::make(&mut dice, &format!("moment {at}"));
                let running = question.call(&home).start();
                std::thread::sleep(Duration::from_micros(dice.below(60_000)));
                running.signal(Signal::KILL);
                let done = running.wait();
                if done.signal == Some(SIGKILL) && done.stdout.is_empty() {
                    witness.died(&question);
                } else {
                    // Printed means acknowledged, even when the exit code was never seen.
                    witness.acknowledged(&question, &done);
                }
            }
            witness.go_on(&Question::make(&mut dice, "after all"));
            witness.look();
        });
    }
}

#[test]
fn a_first_ask_killed_anywhere_leaves_nothing_torn_on_sqlite() {
    everywhere(Backend::Sqlite, Scene::First);
}

#[test]
fn a_first_ask_killed_anywhere_leaves_nothing_torn_on_postgres() {
    everywhere(Backend::Postgres, Scene::First);
}

#[test]
fn a_later_ask_killed_anywhere_loses_nothing_on_sqlite() {
    everywhere(Backend::Sqlite, Scene::Later);
}

#[test]
fn a_later_ask_killed_anywhere_loses_nothing_on_postgres() {
    everywhere(Backend::Postgres, Scene::Later);
}

#[test]
fn an_ask_after_an_interrupted_one_killed_anywhere_loses_nothing_on_sqlite() {
    everywhere(Backend::Sqlite, Scene::AfterInterrupted);
}

#[test]
fn an_ask_after_an_interrupted_one_killed_anywhere_loses_nothing_on_postgres() {
    everywhere(Backend::Postgres, Scene::AfterInterrupted);
}

#[test]
fn a_new_session_killed_anywhere_loses_nothing_on_sqlite() {
    everywhere(Backend::Sqlite, Scene::NewSession);
}

#[test]
fn a_new_session_killed_anywhere_loses_nothing_on_postgres() {
    everywhere(Backend::Postgres, Scene::NewSession);
}

#[test]
fn asks_killed_in_a_row_lose_nothing_on_sqlite() {
    in_a_row(Backend::Sqlite);
}

#[test]
fn asks_killed_in_a_row_lose_nothing_on_postgres() {
    in_a_row(Backend::Postgres);
}

#[test]
fn an_ask_killed_at_any_moment_loses_nothing_on_sqlite() {
    at_any_moment(Backend::Sqlite);
}

#[test]
fn an_ask_killed_at_any_moment_loses_nothing_on_postgres() {
    at_any_moment(Backend::Postgres);
}
