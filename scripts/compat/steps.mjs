/**
 * The steps of a run: each is one sentence that holds or does not. A step that fails does not keep the others from running.
 */
const tally = { passed: 0, failed: 0, skipped: 0 };
const STEP_MS = 120_000;

export async function step(sentence, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it took longer than ${STEP_MS} ms`)), STEP_MS);
  });
  try {
    await Promise.race([work(), late]);
    tally.passed += 1;
    console.log(`ok      ${sentence}`);
    return true;
  } catch (error) {
    tally.failed += 1;
    console.log(`FAILED  ${sentence}\n        ${String(error.message ?? error).replaceAll("\n", "\n        ")}`);
    return false;
  } finally {
    clearTimeout(timer);
  }
}

export function skip(sentence, why) {
  tally.skipped += 1;
  console.log(`skipped ${sentence}: ${why}`);
}

/** The closing line; answers whether nothing failed. */
export function close() {
  console.log(`\n${tally.passed} passed, ${tally.failed} failed, ${tally.skipped} skipped`);
  return tally.failed === 0;
}

export function expect(holds, message) {
  if (!holds) throw new Error(message);
}

/** Waits until `look` answers something, at most `ms`. */
export async function until(what, look, ms = 30_000) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`${what} did not come in ${ms} ms`);
    await new Promise((wake) => setTimeout(wake, 100));
  }
}
