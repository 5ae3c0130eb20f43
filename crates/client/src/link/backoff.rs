//! How long to wait before the next try to connect. Pure: the chance is passed in.

use std::time::Duration;

/// Before the second try; the first one after a break is made at once.
const FIRST: Duration = Duration::from_millis(250);
/// However often it failed.
const LONGEST: Duration = Duration::from_secs(15);

/// The pause before the next try, after so many that failed. Doubles up to its bound, and lies anywhere in the upper half:
/// many clients of a gateway that was started again do not come at once. `chance` is any number.
pub(super) fn pause(failed: u32, chance: u32) -> Duration {
    if failed == 0 {
        return Duration::ZERO;
    }
    let whole =
        FIRST.saturating_mul(1_u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX)).min(LONGEST);
    let half = whole / 2;
    half + half.mul_f64(f64::from(chance) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_stay_in_their_upper_half() {
        assert_eq!(pause(0, u32::MAX), Duration::ZERO);
        let wholes = [250, 500, 1000, 2000, 4000, 8000, 15_000, 15_000];
        for (failed, whole) in (1..).zip(wholes) {
            assert_eq!(pause(failed, u32::MAX), Duration::from_millis(whole), "{failed}");
            assert_eq!(pause(failed, 0), Duration::from_millis(whole) / 2, "{failed}");
            for chance in [1, 77, u32::MAX / 3, u32::MAX / 2] {
                let pause = pause(failed, chance).as_millis();
                assert!((u128::from(whole) / 2..=u128::from(whole)).contains(&pause), "{failed} {chance}");
            }
        }
        assert_eq!(pause(u32::MAX, u32::MAX), LONGEST, "for ever");
    }

    #[test]
    fn two_clients_do_not_come_at_the_same_time() {
        assert_ne!(pause(5, 1 << 30), pause(5, 3 << 30));
    }
}
