//! Models that go round in circles.

use proptest::prelude::*;
use tidegate_policy::Digest;
use tidegate_tools::{LoopLimits, Loops, Repeat};

fn call(name: &str) -> Digest {
    Digest::stored(name.to_owned())
}

/// What is said after each of these calls; a letter is a call, a figure after it its result.
fn said(calls: &[&str]) -> Vec<Repeat> {
    let mut loops = Loops::new(LoopLimits::default());
    calls
        .iter()
        .map(|text| {
            let (name, result) = text.split_at(1);
            loops.note(&call(name), result.parse().unwrap_or(0))
        })
        .collect()
}

#[test]
fn the_third_equal_call_warns_and_the_fifth_stops() {
    assert_eq!(
        said(&["a", "a", "a", "a", "a", "a"]),
        [Repeat::Fine, Repeat::Fine, Repeat::Warn(3), Repeat::Warn(4), Repeat::Stop(5), Repeat::Stop(6)]
    );
}

#[test]
fn a_result_that_changes_is_no_circle() {
    assert!(said(&["a1", "a2", "a3", "a4", "a5", "a6", "a7"]).iter().all(|said| *said == Repeat::Fine));
}

#[test]
fn two_calls_in_turn_are_noticed() {
    let said = said(&["a", "b", "a", "b", "a", "b", "a", "b", "a"]);
    assert_eq!(said[3], Repeat::Fine);
    assert_eq!(said[4], Repeat::Warn(3));
    assert_eq!(said[8], Repeat::Stop(5));
}

#[test]
fn looking_again_after_each_of_several_changes_is_work() {
    assert!(
        said(&["t", "a", "t", "b", "t", "c", "t", "d", "t", "e", "t"]).iter().all(|s| *s == Repeat::Fine)
    );
}

#[test]
fn what_fell_out_of_the_window_is_forgotten() {
    let mut loops = Loops::new(LoopLimits { warn_at: 3, stop_at: 5, window: 2 });
    for _ in 0..10 {
        assert_eq!(loops.note(&call("a"), 0), Repeat::Fine);
    }
}

#[test]
fn the_model_is_told_what_it_repeats() {
    assert_eq!(Repeat::Fine.message("read"), None);
    assert!(Repeat::Warn(3).message("read").unwrap().contains("read was called 3 times"));
    assert!(Repeat::Stop(5).message("read").unwrap().starts_with("Stopped"));
}

proptest! {
    #[test]
    fn nothing_is_said_about_calls_that_never_repeat(count in 0_u64..200) {
        let mut loops = Loops::new(LoopLimits::default());
        for n in 0..count {
            prop_assert_eq!(loops.note(&call(&n.to_string()), n), Repeat::Fine);
        }
    }

    #[test]
    fn whatever_came_before_five_equal_calls_stop(before in prop::collection::vec(0_u64..4, 0..60)) {
        let mut loops = Loops::new(LoopLimits::default());
        for n in before {
            loops.note(&call(&n.to_string()), n);
        }
        let last = (0..5).map(|_| loops.note(&call("z"), 9)).last();
        prop_assert_eq!(last, Some(Repeat::Stop(5)));
    }
}
