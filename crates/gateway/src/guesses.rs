//! Wrong secrets, counted by where they come from, so that whoever guesses is told to wait.
//!
//! A right one is never counted and never refused: else anybody who can send wrong ones from the same address, which at
//! this machine is everybody, could lock its owner out. Where a request comes from is what the socket says; headers can be
//! made up.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

const WINDOW_MS: i64 = 60 * 1000;
/// Wrong ones from one place in a window before whoever sends them is told to wait.
const WRONG: u32 = 10;
/// Places that are counted at once.
const PLACES: usize = 4096;

#[derive(Default)]
pub(crate) struct Guesses {
    places: Mutex<HashMap<Place, Window>>,
}

/// An address, or the network of one where a guesser has as many as it likes. The control socket has none.
type Place = Option<IpAddr>;

#[derive(Debug, Clone, Copy)]
struct Window {
    since: i64,
    wrong: u32,
}

impl Guesses {
    /// Notes a wrong secret. `true` when there were too many of them.
    pub(crate) fn wrong(&self, from: Option<IpAddr>, now: i64) -> bool {
        let place = from.map(place_of);
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= PLACES && !places.contains_key(&place) {
            places.retain(|_, window| (now - window.since).abs() < WINDOW_MS);
            if places.len() >= PLACES {
                // So many guess that the next one is no honest mistake.
                return true;
            }
        }
        let window = places.entry(place).or_insert(Window { since: now, wrong: 0 });
        if (now - window.since).abs() >= WINDOW_MS {
            *window = Window { since: now, wrong: 0 };
        }
        window.wrong = window.wrong.saturating_add(1);
        window.wrong > WRONG
    }
}

fn place_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) if !ip.is_loopback() => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a wrong one from there is one too many.
    fn is_too_many(guesses: &Guesses, from: &str, now: i64) -> bool {
        guesses.wrong(Some(from.parse().unwrap()), now)
    }

    #[test]
    fn who_guesses_waits_a_minute_and_nobody_else_does() {
        let guesses = Guesses::default();
        for guess in 0..10 {
            assert!(!is_too_many(&guesses, "10.0.0.1", guess));
        }
        assert!(is_too_many(&guesses, "10.0.0.1", 11));
        assert!(is_too_many(&guesses, "::ffff:10.0.0.1", 12), "the same address in another dress");
        assert!(!is_too_many(&guesses, "10.0.0.2", 12));
        assert!(!is_too_many(&guesses, "10.0.0.1", WINDOW_MS), "a minute is over");
    }

    #[test]
    fn a_whole_network_of_one_guesser_is_one_place() {
        let guesses = Guesses::default();
        let limited = (0..20).filter(|at| is_too_many(&guesses, &format!("2001:db8::{at:x}"), 0)).count();
        assert_eq!(limited, 10);
    }

    #[test]
    fn a_flood_of_places_is_bounded_and_passes() {
        let guesses = Guesses::default();
        for at in 0..PLACES {
            guesses.wrong(Some(IpAddr::from(u32::try_from(at).unwrap().to_be_bytes())), 0);
        }
        assert!(is_too_many(&guesses, "203.0.113.1", 1));
        assert_eq!(guesses.places.lock().unwrap().len(), PLACES);
        assert!(!is_too_many(&guesses, "203.0.113.1", WINDOW_MS));
    }
}
