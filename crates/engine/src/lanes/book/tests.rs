//! What the book of a lane promises.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_protocol::Id as _;

use super::*;

fn scope(tenant: &str) -> Scope {
    Scope { tenant: tenant.parse().unwrap(), ..Scope::personal("main".parse().unwrap()) }
}

fn key(name: &str) -> SessionKey {
    SessionKey::named(scope("local"), name)
}

fn run(number: u64) -> RunId {
    RunId::from_parts(number, [0; 10])
}

fn begins(turn: Option<Turn<&'static str>>) -> String {
    match turn {
        Some(Turn::Begins(waiter)) => waiter.key.label(),
        Some(Turn::GoesOn { tell, .. }) => tell.to_owned(),
        None => "nobody".to_owned(),
    }
}

#[test]
fn a_place_is_taken_at_once_only_while_nobody_waits_for_it() {
    let mut book: Book<&str> = Book::new(2, 10);
    assert_eq!([book.take_now(), book.take_now(), book.take_now()], [true, true, false]);
    assert!(book.wait_to_begin(key("a"), None, Instant::now()));
    book.give_back();
    assert!(!book.take_now(), "it is the turn of whoever waits");
    assert_eq!(begins(book.next()), "a");
    assert_eq!(begins(book.next()), "nobody");
}

#[test]
fn a_session_waits_once_however_often_it_is_named() {
    let mut book: Book<&str> = Book::new(1, 10);
    for _ in 0..3 {
        book.wait_to_begin(key("a"), Some(run(1)), Instant::now());
    }
    assert_eq!(book.standing().waiting, 1);
    assert_eq!([begins(book.next()), begins(book.next())], ["a", "nobody"]);
    book.give_back();
    book.wait_to_begin(key("a"), Some(run(2)), Instant::now());
    assert_eq!(begins(book.next()), "a", "and again once it had its turn");
}

#[test]
fn those_that_go_on_and_those_that_begin_take_turns() {
    let mut book = Book::new(1, 10);
    let now = Instant::now();
    for name in ["a", "b", "c"] {
        book.wait_to_begin(key(name), None, now);
    }
    for name in ["on 1", "on 2"] {
        book.wait_to_go_on(&scope("local"), name, now);
    }
    let mut order = Vec::new();
    while book.has_turn() {
        order.push(begins(book.next()));
        book.give_back();
    }
    assert_eq!(order, ["on 1", "a", "on 2", "b", "c"]);
}

#[test]
fn a_run_that_ended_waits_no_longer_and_another_of_its_session_does() {
    let mut book: Book<&str> = Book::new(1, 10);
    let now = Instant::now();
    book.wait_to_begin(key("a"), Some(run(1)), now);
    book.ended(&key("a"), run(7));
    assert_eq!(book.standing().waiting, 1, "that one waited behind it");
    book.ended(&key("a"), run(1));
    assert_eq!((book.standing().waiting, begins(book.next())), (0, "nobody".to_owned()));
    book.wait_to_begin(key("a"), Some(run(2)), now);
    assert_eq!(begins(book.next()), "a");
}

#[test]
fn one_that_waits_for_long_is_told_once_with_how_many_are_ahead() {
    let mut book: Book<&str> = Book::new(1, 10);
    let begin = Instant::now();
    let later = begin + Duration::from_secs(3);
    assert!(book.take_now());
    book.wait_to_begin(key("a"), Some(run(1)), begin);
    book.wait_to_begin(key("b"), Some(run(2)), begin);
    book.wait_to_begin(key("c"), Some(run(3)), later);
    book.wait_to_go_on(&scope("local"), "on", begin);
    let told: Vec<_> = book.late(begin).iter().map(|late| (late.waiter.key.label(), late.ahead)).collect();
    assert_eq!(told, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    assert_eq!(book.late(begin), []);
    assert_eq!(book.late(later).len(), 1);
    // The session's next run is another one that waits.
    book.wait_to_begin(key("a"), Some(run(4)), later);
    assert_eq!(book.late(later).len(), 1);
}

#[test]
fn what_has_no_room_is_asked_for_again_once_there_is_room() {
    let mut book: Book<&str> = Book::new(1, 4);
    let now = Instant::now();
    let kept: Vec<_> = (0..6).map(|at| book.wait_to_begin(key(&at.to_string()), None, now)).collect();
    assert_eq!(kept, [true, true, true, true, false, false]);
    assert_eq!((book.standing().waiting, book.is_short()), (4, false));
    for _ in 0..2 {
        assert!(book.next().is_some());
        book.give_back();
    }
    assert!(book.is_short() && book.wants_more());
    book.refilled();
    assert!(!book.wants_more(), "nothing is left there");
}

#[test]
fn the_oldest_wait_is_that_of_whoever_came_first_of_both_kinds() {
    let mut book = Book::new(1, 4);
    let begin = Instant::now();
    assert_eq!(book.standing().oldest, None);
    book.wait_to_begin(key("a"), None, begin + Duration::from_secs(1));
    book.wait_to_go_on(&scope("local"), "on", begin);
    assert_eq!(book.standing(), Standing { limit: 1, taken: 0, waiting: 2, oldest: Some(begin) });
}

proptest! {
    /// Whatever comes and goes: no place stays free while somebody waits, no more than the limit are taken, and
    /// everybody has a turn.
    #[test]
    fn no_place_is_idle_while_somebody_waits_and_everybody_has_a_turn(
        comes in proptest::collection::vec((0..3u8, 0..30u8, any::<bool>()), 1..200),
        limit in 1..5usize,
    ) {
        let mut book = Book::new(limit, 1_000);
        let now = Instant::now();
        let mut under_way = 0;
        let mut waiting = std::collections::BTreeSet::new();
        let mut went_on = 0;
        for (tenant, session, goes_on) in &comes {
            let scope = scope(&format!("t{tenant}"));
            if *goes_on {
                book.wait_to_go_on(&scope, "on", now);
                went_on += 1;
            } else {
                let key = SessionKey::named(scope, &session.to_string());
                waiting.insert(key.clone());
                book.wait_to_begin(key, None, now);
            }
            if session % 3 == 0 && under_way > 0 {
                under_way -= 1;
                book.give_back();
            }
            while let Some(turn) = book.next() {
                under_way += 1;
                match turn {
                    Turn::Begins(waiter) => prop_assert!(waiting.remove(&waiter.key)),
                    Turn::GoesOn { .. } => went_on -= 1,
                }
            }
            prop_assert!(under_way <= limit);
            prop_assert!(under_way == limit || (waiting.is_empty() && went_on == 0));
        }
        while under_way > 0 {
            under_way -= 1;
            book.give_back();
            match book.next() {
                Some(Turn::Begins(waiter)) => { prop_assert!(waiting.remove(&waiter.key)); under_way += 1; }
                Some(Turn::GoesOn { .. }) => { went_on -= 1; under_way += 1; }
                None => {}
            }
        }
        prop_assert!(waiting.is_empty() && went_on == 0);
    }
}
