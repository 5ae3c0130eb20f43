//! Making ids: a clock, randomness, and the id types of `protocol`.

use std::sync::{Mutex, PoisonError};

use tidegate_protocol::Id;

use crate::clock::Clock;

/// The operating system gave no randomness; nothing sensible can go on.
#[derive(Debug, Clone, Copy)]
pub struct RandomnessError;

impl std::fmt::Display for RandomnessError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the operating system gives no random numbers")
    }
}

impl std::error::Error for RandomnessError {}

/// The millisecond of the newest id, and its place in it.
static NEWEST: Mutex<(u64, u16)> = Mutex::new((0, 0));

/// A new id, sortable by the clock's time; those of one process and one millisecond in the order they were made in.
pub fn new_id<T: Id>(clock: &dyn Clock) -> Result<T, RandomnessError> {
    let mut random = [0; 10];
    getrandom::fill(&mut random).map_err(|_| RandomnessError)?;
    let now = u64::try_from(clock.now_ms()).unwrap_or(0);
    let [high, low] = place_in(now, u16::from_be_bytes([random[0], random[1]])).to_be_bytes();
    (random[0], random[1]) = (high, low);
    Ok(T::from_parts(now, random))
}

/// The twelve bits behind the time: the one after the last of this millisecond, or where chance lets one begin, with
/// room for as many again.
fn place_in(now: u64, chance: u16) -> u16 {
    let mut newest = NEWEST.lock().unwrap_or_else(PoisonError::into_inner);
    let place = if newest.0 == now { newest.1.wrapping_add(1) & 0xfff } else { chance & 0x7ff };
    *newest = (now, place);
    place
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::RunId;

    use super::*;

    struct Still;

    impl Clock for Still {
        fn now_ms(&self) -> i64 {
            1_700_000_000_000
        }
    }

    #[test]
    fn ids_of_one_moment_sort_as_they_were_made() {
        let made: Vec<RunId> = (0..1_000).map(|_| new_id(&Still).unwrap()).collect();
        assert!(made.is_sorted_by(|one, next| one < next));
    }
}
