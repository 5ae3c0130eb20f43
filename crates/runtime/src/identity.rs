//! Making ids: a clock, randomness, and the id types of `protocol`.

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

/// A new id, sortable by the clock's time.
pub fn new_id<T: Id>(clock: &dyn Clock) -> Result<T, RandomnessError> {
    let mut random = [0; 10];
    getrandom::fill(&mut random).map_err(|_| RandomnessError)?;
    Ok(T::from_parts(u64::try_from(clock.now_ms()).unwrap_or(0), random))
}
