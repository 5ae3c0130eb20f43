//! SIGKILL at every fault point that runs with tools pass, each time it is passed.
//!
//! As in the delivery machine's matrix the points are found by a trace, and `TIDEGATE_SEED`, `TIDEGATE_SEEDS` and
//! `TIDEGATE_KILL_POINT` mean the same. Two deaths follow each other, so that the second start finds a run that was
//! begun again; then everything has to come to its end. A third death in a row would be one too many: a run that
//! crashed three times is not tried again, and here none may fail.

use std::collections::BTreeMap;
use std::fs;

use tidegate_testkit::host::Until;
use tidegate_testkit::network::Dice;
use tidegate_testkit::stores::{Backend, with_place};

use super::check::{self, Tally};
use super::story::{Stage, Story};
use crate::delivery::kill::{seeds, telling};
use crate::delivery::world::Ended;

/// Makes each story a test.
macro_rules! stories {
    ($($backend:ident $module:ident),+) => {
        $(mod $module {
            use tidegate_testkit::stores::Backend::$backend;

            use super::{Story, Third, everywhere};

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_anywhere_a_run_goes_on_and_no_tool_changes_anything_twice() {
                everywhere($backend, Story::Tools, Third(0)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_in_another_order_it_goes_on_as_well() {
                everywhere($backend, Story::Tools, Third(1)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_in_yet_another_order_it_goes_on_as_well() {
                everywhere($backend, Story::Tools, Third(2)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_anywhere_what_joins_a_run_is_read_once() {
                everywhere($backend, Story::Steered, Third(0)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_in_another_order_what_joins_a_run_is_read_once() {
                everywhere($backend, Story::Steered, Third(1)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_in_yet_another_order_what_joins_a_run_is_read_once() {
                everywhere($backend, Story::Steered, Third(2)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_anywhere_a_run_that_is_summed_up_does_not_begin_anew() {
                everywhere($backend, Story::SummedUp, Third(0)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_in_another_order_a_run_that_is_summed_up_does_not_begin_anew() {
                everywhere($backend, Story::SummedUp, Third(1)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_in_yet_another_order_a_run_that_is_summed_up_does_not_begin_anew() {
                everywhere($backend, Story::SummedUp, Third(2)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_anywhere_what_a_subagent_found_is_told_once() {
                everywhere($backend, Story::Delegated, Third(0)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_in_another_order_what_a_subagent_found_is_told_once() {
                everywhere($backend, Story::Delegated, Third(1)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn killed_in_yet_another_order_what_a_subagent_found_is_told_once() {
                everywhere($backend, Story::Delegated, Third(2)).await;
            }
        })+
    };
}

stories! { Sqlite sqlite, Postgres postgres }

/// Deaths in a row, after which everything comes to its end.
const IN_A_ROW: usize = 2;
/// Deaths in one world.
const TOGETHER: usize = 12;
/// A point of the runs themselves is hit each of the first so many times that it is passed.
const EACH: u64 = 8;
/// Any other one at one of the first so many.
const HITS: u64 = 4;
/// Seeds of `make test`; with more of them each seed dies everywhere.
const FEW: usize = 3;

/// Every third seed, beginning with this one: a story is three tests, so that none takes too long.
#[derive(Debug, Clone, Copy)]
struct Third(u64);

impl Third {
    fn takes(self, seed: u64) -> bool {
        seed % 3 == self.0
    }
}

/// What a story must be killed at, or it misses its purpose.
fn interesting(story: Story) -> Vec<&'static str> {
    let mut points = vec![
        "agent.intent.before",
        "agent.intent.after",
        "agent.tool.before",
        "agent.tool.after",
        "agent.result.before",
        "agent.result.after",
        "engine.run.claimed",
        "engine.run.answered",
        "engine.run.finished",
        "storage.step.before_commit",
        "storage.step.after_commit",
        "storage.finish.before_commit",
        "storage.finish.after_commit",
        "testkit.network.before_send",
        "testkit.network.sent",
        "testkit.note.before",
        "testkit.note.after",
    ];
    points.extend_from_slice(match story {
        Story::Tools => &["storage.ingest.after_commit", "storage.recover.after_commit", "engine.close.done"],
        Story::Steered => {
            &["storage.absorb.before_commit", "storage.absorb.after_commit", "storage.accept.after_commit"][..]
        }
        Story::SummedUp => &[
            "agent.compact.before",
            "agent.compact.after",
            "agent.flush.before",
            "agent.flush.after",
            "storage.compact.after_commit",
            "storage.note_flush.before_commit",
            "storage.note_flush.after_commit",
        ],
        Story::Delegated => {
            &["engine.submit.accepted", "storage.accept.before_commit", "storage.accept.after_commit"]
        }
    });
    points
}

/// Whether every time that it is passed is a place of its own in the life of a run.
fn is_of_runs(point: &str) -> bool {
    let of_runs = [
        "agent.",
        "testkit.note.",
        "storage.step.",
        "storage.absorb.",
        "storage.compact.",
        "storage.note_flush.",
    ];
    of_runs.iter().any(|begin| point.starts_with(begin))
}

/// What the other stories are killed at: what only has to do with the process as a whole is the first one's.
fn is_of_story(story: Story, point: &str) -> bool {
    let of_story =
        ["storage.accept.", "storage.claim.", "storage.finish.", "engine.run.", "engine.submit.", "testkit."];
    // Whether what a subagent found meets a run under way is chance; the story of those who steer dies there.
    if story == Story::Delegated && point.starts_with("storage.absorb.") {
        return false;
    }
    story == Story::Tools || is_of_runs(point) || of_story.iter().any(|begin| point.starts_with(begin))
}

impl Stage {
    /// One life that may end at a fault point.
    fn live(&mut self, env: &[(&str, &str)]) -> Ended {
        self.plan.until = Until::Quiet;
        self.start(env).wait()
    }

    /// A life that comes to its end.
    #[track_caller]
    fn live_on(&mut self, env: &[(&str, &str)]) {
        let ended = self.live(env);
        assert!(ended.status.success(), "{ended:?}");
    }
}

/// A point and the hit to die at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Death {
    point: String,
    hit: u64,
}

impl Death {
    fn what(&self) -> String {
        format!("{}@{}", self.point, self.hit)
    }

    /// Whether the environment asks for this one, or for none in particular.
    fn wanted(&self) -> bool {
        match std::env::var("TIDEGATE_KILL_POINT") {
            Ok(wanted) => wanted == self.point || wanted == self.what(),
            Err(_) => true,
        }
    }
}

/// How often a host passes each point, found by tracing two lives: the second goes on with what a death left.
async fn discover(backend: Backend, story: Story) -> BTreeMap<String, u64> {
    let mut points: BTreeMap<String, u64> = BTreeMap::new();
    with_place(backend, async |store| {
        let mut stage = Stage::new(story, store.location(), 0);
        let mut dice = Dice::new(0, 0);
        for life in ["first", "second"] {
            stage.post(&mut dice);
            if life == "second" {
                let ended = stage.live(&[("TIDEGATE_FAULT", "agent.tool.after=kill")]);
                assert!(ended.was_killed(), "{ended:?}");
            }
            let trace = stage.file(life);
            stage.live_on(&[("TIDEGATE_FAULT_TRACE", trace.to_str().unwrap())]);
            let mut passed: BTreeMap<String, u64> = BTreeMap::new();
            for name in fs::read_to_string(&trace).expect("a trace was written").lines() {
                *passed.entry(name.to_owned()).or_default() += 1;
            }
            for (name, times) in passed {
                let known = points.entry(name).or_default();
                *known = (*known).max(times);
            }
        }
        check::everything(store, &stage).await;
    })
    .await;
    if points.is_empty() {
        // There is no such server here, and that was said. A file can always be made.
        assert!(matches!(backend, Backend::Postgres), "nothing was traced");
        return points;
    }
    for expected in interesting(story) {
        assert!(points.contains_key(expected), "{expected} is not among {points:?}");
    }
    // Only a new store is migrated, and that has a matrix of its own.
    points.retain(|name, _| !name.starts_with("storage.migrate.") && is_of_story(story, name));
    points
}

/// Every death, in an order that the seed decides, at hits that it decides where not each is a place of its own.
fn deaths(points: &BTreeMap<String, u64>, seed: u64) -> Vec<Death> {
    let mut dice = Dice::new(seed, 1);
    let mut ordered = Vec::new();
    for (point, times) in points {
        let hits = if is_of_runs(point) {
            (1..=(*times).min(EACH)).collect()
        } else {
            vec![1 + dice.below((*times).min(HITS))]
        };
        ordered.extend(hits.into_iter().map(|hit| Death { point: point.clone(), hit }));
    }
    let mut all = Vec::new();
    while !ordered.is_empty() {
        all.push(ordered.swap_remove(usize::try_from(dice.below(ordered.len() as u64)).unwrap()));
    }
    all.retain(Death::wanted);
    all
}

/// One seed of how many dies at a given place. Where a death takes long, few seeds share the places: each takes its part,
/// and together they take all.
fn share(backend: Backend, story: Story, seeds: usize) -> usize {
    match (backend, story) {
        _ if seeds > FEW || std::env::var_os("TIDEGATE_KILL_POINT").is_some() => 1,
        (Backend::Sqlite, _) | (Backend::Postgres, Story::Tools) => 1,
        (Backend::Postgres, _) => FEW,
    }
}

async fn everywhere(backend: Backend, story: Story, mine: Third) {
    let mut seeds = seeds();
    let share = share(backend, story, seeds.len());
    seeds.retain(|seed| mine.takes(*seed));
    if seeds.is_empty() {
        return println!("another test has this seed");
    }
    let points = discover(backend, story).await;
    if points.is_empty() {
        return;
    }
    let (mut killed, mut left_out, mut tally) = (0, 0, Tally::default());
    for seed in seeds {
        let mut all = deaths(&points, seed);
        if share > 1 {
            all.sort_by_key(Death::what);
            let before = all.len();
            let turn = usize::try_from(seed).unwrap() % share;
            all =
                all.into_iter().enumerate().filter(|(at, _)| at % share == turn).map(|(_, it)| it).collect();
            left_out += before - all.len();
        }
        killed += all.len();
        for (number, deaths) in all.chunks(TOGETHER).enumerate() {
            let names: Vec<_> = deaths.iter().map(Death::what).collect();
            let one_world = with_place(backend, async |store| {
                let number = number as u64;
                let mut stage = Stage::new(story, store.location(), seed.wrapping_mul(1000) + number);
                let mut dice = Dice::new(seed, 2 + number);
                for in_a_row in deaths.chunks(IN_A_ROW) {
                    for death in in_a_row {
                        die(&mut stage, &mut dice, death);
                    }
                    stage.live_on(&[]);
                }
                tally.add(check::everything(store, &stage).await);
            });
            telling(seed, &names.join(", "), one_world).await;
        }
    }
    println!("{killed} deaths of {story:?} on {backend:?}, {} points: {tally:?}", points.len());
    if left_out > 0 {
        println!(
            "{left_out} deaths were left to other seeds; TIDEGATE_SEEDS={} and more leave out none",
            FEW + 1
        );
    }
    if std::env::var_os("TIDEGATE_KILL_POINT").is_none() {
        about_something(story, tally);
    }
}

/// Only if all of this happens do the promises mean anything.
fn about_something(story: Story, tally: Tally) {
    let Tally { done, interrupted, happened, skipped: _, joined, summed_up, noted, announced, sent } = tally;
    assert!(done > interrupted && interrupted > 0, "{tally:?}");
    if story == Story::Tools {
        // In the others tools are not the subject, and a third of the deaths need not meet one that had its effect.
        assert!(interrupted > happened && happened > 0, "{tally:?}");
    }
    let seen = match story {
        Story::Tools => 1,
        Story::Steered => joined,
        Story::SummedUp => summed_up.min(noted),
        Story::Delegated => announced.min(sent),
    };
    assert!(seen > 0, "{tally:?}");
}

/// Lets a host die there. A hit that it does not come to is made up for by the first, and a point that only a host
/// passes which finds something to recover by a death before it. On a machine that does much else somebody may write too
/// late to join a run, so each is tried twice.
fn die(stage: &mut Stage, dice: &mut Dice, death: &Death) {
    for (hit, recovering) in [(death.hit, false), (1, false), (1, true), (1, false), (1, true)] {
        stage.post(dice);
        if recovering {
            let ended = stage.live(&[("TIDEGATE_FAULT", "engine.run.claimed=kill")]);
            assert!(ended.was_killed(), "{ended:?}");
        }
        let fault = format!("{}=kill@{hit}", death.point);
        let ended = stage.live(&[("TIDEGATE_FAULT", &fault)]);
        check::from_outside(stage);
        if ended.was_killed() {
            return;
        }
        assert!(ended.status.success(), "{fault}: {ended:?}");
    }
    panic!("{} was not passed", death.what());
}
