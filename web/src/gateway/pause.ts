/**
 * How long to wait before the next try: doubled each time, and spread at random so that many pages that lost the same
 * gateway do not all come back in the same moment. Pure.
 */

const FIRST_MS = 500;
const LONGEST_MS = 10_000;

/** Between half and all of the full pause; `random` is from 0 up to 1. */
export function pauseMs(failures: number, random: number): number {
  const full = Math.min(LONGEST_MS, FIRST_MS * 2 ** failures);
  return full / 2 + (full / 2) * random;
}
