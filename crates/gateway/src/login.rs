//! One-time login codes: how a browser gets its cookie from whoever owns the home.
//!
//! A code lives ten minutes in memory and works once. Wrong tries are counted, so that nobody can guess for long.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use hmac::Mac as _;
use tidegate_runtime::RandomnessError;

use crate::token::{keyed, random_text};

const CODE_BYTES: usize = 24;
const LIFE_MS: i64 = 10 * 60 * 1000;
/// Codes that may wait to be used; the oldest goes first.
const WAITING: usize = 32;
const WINDOW_MS: i64 = 60 * 1000;
/// Wrong tries in a window before no try is heard any more.
const WRONG_TRIES: usize = 5;

#[derive(Default)]
pub(crate) struct Codes {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Digests of codes with the time they end; a code itself is not kept.
    waiting: VecDeque<([u8; 32], i64)>,
    /// When the latest wrong tries were.
    wrong: VecDeque<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redeemed {
    Good,
    /// Unknown, used or too old.
    Invalid,
    /// Wrong, like several before it: whoever guesses has to wait.
    TooManyTries,
}

impl Codes {
    pub(crate) fn make(&self, now_ms: i64) -> Result<String, RandomnessError> {
        let code = random_text::<CODE_BYTES>()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.forget_old(now_ms);
        if state.waiting.len() >= WAITING {
            state.waiting.pop_front();
        }
        state.waiting.push_back((digest(&code), now_ms + LIFE_MS));
        Ok(code)
    }

    /// Uses a code up.
    pub(crate) fn redeem(&self, code: &str, now_ms: i64) -> Redeemed {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.forget_old(now_ms);
        // Digests are compared, so the time says nothing about the code.
        let given = digest(code);
        // A good code is always good: else anybody who can send wrong ones could lock its owner out.
        let Some(found) = state.waiting.iter().position(|(waiting, _)| *waiting == given) else {
            if state.wrong.len() >= WRONG_TRIES {
                return Redeemed::TooManyTries;
            }
            state.wrong.push_back(now_ms);
            return Redeemed::Invalid;
        };
        state.waiting.remove(found);
        Redeemed::Good
    }
}

impl State {
    fn forget_old(&mut self, now_ms: i64) {
        self.waiting.retain(|(_, end)| now_ms < *end);
        self.wrong.retain(|at| (now_ms - at).abs() < WINDOW_MS);
    }
}

fn digest(code: &str) -> [u8; 32] {
    keyed(b"tidegate login code").chain_update(code).finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once() {
        let codes = Codes::default();
        let (one, two) = (codes.make(0).unwrap(), codes.make(0).unwrap());
        assert_eq!(codes.redeem(&two, 1), Redeemed::Good);
        assert_eq!(codes.redeem(&two, 1), Redeemed::Invalid);
        assert_eq!(codes.redeem(&one, LIFE_MS - 1), Redeemed::Good);
    }

    #[test]
    fn a_code_ends_after_ten_minutes() {
        let codes = Codes::default();
        let code = codes.make(0).unwrap();
        assert_eq!(codes.redeem(&code, LIFE_MS), Redeemed::Invalid);
    }

    #[test]
    fn who_guesses_has_to_wait_after_five_tries_and_a_good_code_never_does() {
        let codes = Codes::default();
        let code = codes.make(0).unwrap();
        for wrong in 0..5 {
            assert_eq!(codes.redeem("guess", wrong), Redeemed::Invalid);
        }
        assert_eq!(codes.redeem("guess", 10), Redeemed::TooManyTries);
        assert_eq!(codes.redeem(&code, 10), Redeemed::Good);
        assert_eq!(codes.redeem("guess", WINDOW_MS + 10), Redeemed::Invalid);
    }

    #[test]
    fn codes_that_nobody_uses_do_not_pile_up() {
        let codes = Codes::default();
        let first = codes.make(0).unwrap();
        let rest: Vec<_> = (0..WAITING).map(|_| codes.make(0).unwrap()).collect();
        assert_eq!(codes.redeem(&first, 1), Redeemed::Invalid);
        assert_eq!(codes.redeem(&rest[0], 1), Redeemed::Good);
    }
}
