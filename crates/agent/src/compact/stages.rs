//! In how many steps a conversation is summed up. Pure: sizes in, ranges out.

use std::ops::Range;

/// A chunk has this share of the window, in thousandths; less where the messages are long.
const USUAL_SHARE: u64 = 400;
const LEAST_SHARE: u64 = 150;
/// Fewer messages are not worth a second call.
const FEW: usize = 4;
/// Calls below which nothing is split and merged again.
const SPLIT_CALLS: usize = 4;

/// What is summed up with what. Each part is read chunk by chunk, each chunk with the summary of those before it; two
/// parts are merged at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) parts: Vec<Vec<Range<usize>>>,
    /// Messages at the beginning that there are not enough calls for.
    pub(super) skipped: usize,
}

/// Our count may be short by a fifth.
pub(super) fn with_safety(tokens: u64) -> u64 {
    tokens.saturating_add(tokens.div_ceil(5))
}

/// Whether a message alone takes half of the window.
pub(super) fn is_oversized(tokens: u64, window: u64) -> bool {
    with_safety(tokens) > window / 2
}

/// The share of the window that a chunk has, in thousandths.
fn share(sizes: &[u64], window: u64) -> u64 {
    let count = u64::try_from(sizes.len()).unwrap_or(u64::MAX).max(1);
    let average = with_safety(total(sizes) / count).saturating_mul(1_000) / window.max(1);
    if average <= 100 {
        return USUAL_SHARE;
    }
    USUAL_SHARE - average.saturating_mul(2).min(USUAL_SHARE - LEAST_SHARE)
}

/// Plans for messages of these sizes. A chunk has `most` tokens at most, unless one message alone has more.
pub(super) fn plan(sizes: &[u64], window: u64, most: u64, calls: usize) -> Plan {
    let most = (window.saturating_mul(share(sizes, window)) / 1_000).min(most).max(1);
    let all = chunks(sizes, 0..sizes.len(), most);
    let splits = calls >= SPLIT_CALLS && sizes.len() >= FEW && total(sizes) > most;
    // A split makes one more chunk at most, and needs one call to merge.
    let affordable = if splits { calls - 2 } else { calls };
    let first = all.len().saturating_sub(affordable);
    let skipped = all.get(first).map_or(sizes.len(), |chunk| chunk.start);
    let rest = skipped..sizes.len();
    if !splits || all.len() - first < 2 {
        return Plan { parts: vec![chunks(sizes, rest, most)], skipped };
    }
    let middle = middle(sizes, &rest);
    let halves = [rest.start..middle, middle..rest.end];
    Plan { parts: halves.into_iter().map(|half| chunks(sizes, half, most)).collect(), skipped }
}

/// Where half of the tokens lie before.
fn middle(sizes: &[u64], range: &Range<usize>) -> usize {
    let half = total(sizes.get(range.clone()).unwrap_or_default()) / 2;
    let mut sum = 0_u64;
    let full = range.clone().find(|at| {
        sum = sum.saturating_add(sizes.get(*at).copied().unwrap_or(0));
        sum >= half
    });
    let middle = full.map_or(range.end, |at| at + 1);
    middle.clamp(range.start + 1, range.end.saturating_sub(1).max(range.start + 1))
}

fn chunks(sizes: &[u64], range: Range<usize>, most: u64) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut sum = 0_u64;
    for at in range {
        let size = sizes.get(at).copied().unwrap_or(0);
        match found.last_mut() {
            Some(chunk) if sum.saturating_add(size) <= most => {
                chunk.end = at + 1;
                sum += size;
            }
            _ => {
                found.push(at..at + 1);
                sum = size;
            }
        }
    }
    found
}

fn total(sizes: &[u64]) -> u64 {
    sizes.iter().copied().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn calls(plan: &Plan) -> usize {
        plan.parts.iter().map(Vec::len).sum::<usize>() + usize::from(plan.parts.len() > 1)
    }

    #[test]
    fn what_fits_one_chunk_is_one_call() {
        let plan = plan(&[1_000; 70], 200_000, u64::MAX, 8);
        assert_eq!(plan, Plan { parts: vec![vec![0..70]], skipped: 0 });
    }

    #[test]
    fn more_is_halved_by_tokens_and_merged() {
        let sizes = [vec![4_000; 10], vec![1_000; 60]].concat();
        let plan = plan(&sizes, 200_000, u64::MAX, 8);
        assert_eq!(plan, Plan { parts: vec![vec![0..20], vec![20..70]], skipped: 0 });
    }

    #[test]
    fn a_few_long_messages_are_read_one_after_the_other() {
        let plan = plan(&[60_000, 60_000, 60_000], 200_000, u64::MAX, 8);
        assert_eq!(plan, Plan { parts: vec![vec![0..1, 1..2, 2..3]], skipped: 0 });
    }

    #[test]
    fn the_longer_the_messages_the_smaller_the_chunks() {
        assert_eq!(share(&[10_000], 200_000), 400);
        assert_eq!(share(&[20_000], 200_000), 400 - 2 * 120);
        assert_eq!(share(&[50_000], 200_000), 150);
        assert!(is_oversized(84_000, 200_000) && !is_oversized(83_000, 200_000));
    }

    #[test]
    fn what_there_are_no_calls_for_is_the_oldest() {
        let plan = plan(&[50_000; 20], 200_000, u64::MAX, 8);
        assert_eq!((plan.skipped, calls(&plan)), (14, 7));
    }

    proptest! {
        #[test]
        fn everything_is_read_once_in_order_within_the_calls(
            sizes in proptest::collection::vec(1_u64..5_000, 1..60),
            window in 1_000_u64..40_000,
            calls_left in 1_usize..9,
        ) {
            let plan = plan(&sizes, window, window / 2, calls_left);
            prop_assert!(calls(&plan) <= calls_left);
            let read: Vec<usize> = plan.parts.iter().flatten().flat_map(Clone::clone).collect();
            prop_assert_eq!(read, (plan.skipped..sizes.len()).collect::<Vec<_>>());
            prop_assert!(plan.parts.iter().flatten().all(|chunk| !chunk.is_empty()));
            let most = window * share(&sizes, window) / 1_000;
            for chunk in plan.parts.iter().flatten() {
                prop_assert!(chunk.len() == 1 || total(&sizes[chunk.clone()]) <= most);
            }
        }
    }
}
