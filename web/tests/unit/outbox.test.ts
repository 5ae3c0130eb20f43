/**
 * Messages on their way: stored first, sent in order under one key until answered, never forgotten.
 */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Answer } from "../../src/gateway/answer";
import { FRESH_MS, Outbox, OutboxStorage, type Storage, type Stored, storedEntry } from "../../src/outbox";

class MemoryStorage implements Storage {
  readonly entries = new Map<string, string>();
  get length() {
    return this.entries.size;
  }
  key = (index: number) => [...this.entries.keys()][index] ?? null;
  getItem = (name: string) => this.entries.get(name) ?? null;
  setItem = (name: string, value: string) => void this.entries.set(name, value);
  removeItem = (name: string) => void this.entries.delete(name);
}

const message = (n: number, at = n): Stored => ({ session: "main", key: `k${n}`, text: `q${n}`, at });
const unreachable: Answer<never> = { kind: "again", error: { code: "UNREACHABLE", message: "" } };
const ok = (n: number): Answer<{ runId: string }> => ({ kind: "ok", value: { runId: `r${n}` } });

/** An outbox whose gateway answers as told, and a list of everything that happened. */
function harness(answers: Answer<{ runId: string }>[], storage = new MemoryStorage()) {
  const story: string[] = [];
  const post = async (_: string, text: string, key: string) => {
    story.push(`post ${text} ${key}, stored ${storage.length}`);
    return answers.shift() ?? unreachable;
  };
  const outbox = new Outbox(new OutboxStorage(storage), post, {
    sending: () => undefined,
    waiting: ({ key }) => story.push(`waiting ${key}`),
    acknowledged: ({ key }, runId) => story.push(`acknowledged ${key} ${runId}`),
    refused: ({ key }, error) => story.push(`refused ${key} ${error.code}`),
    loginNeeded: () => story.push("login"),
  });
  return { outbox, story, storage, answers };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("a message is stored before it is sent and forgotten when it is acknowledged", async () => {
  const { outbox, story, storage } = harness([ok(1)]);
  outbox.add(message(1));
  await vi.runAllTimersAsync();
  expect(story).toEqual(["post q1 k1, stored 1", "acknowledged k1 r1"]);
  expect(storage.length).toBe(0);
  expect(outbox.unsent("main")).toEqual([]);
});

test("it is sent again under the same key until there is an answer, and the next one waits its turn", async () => {
  const { outbox, story, storage } = harness([unreachable, unreachable, ok(1), ok(2)]);
  outbox.add(message(1));
  outbox.add(message(2));
  await vi.runAllTimersAsync();
  expect(story.filter((step) => !step.startsWith("waiting"))).toEqual([
    "post q1 k1, stored 1",
    "post q1 k1, stored 2",
    "post q1 k1, stored 2",
    "acknowledged k1 r1",
    "post q2 k2, stored 1",
    "acknowledged k2 r2",
  ]);
  expect(storage.length).toBe(0);
});

test("a page loaded anew takes up what the old one left, oldest first", async () => {
  const storage = new MemoryStorage();
  new OutboxStorage(storage).add(message(2));
  new OutboxStorage(storage).add(message(1));
  const { outbox, story } = harness([ok(1), ok(2)], storage);
  outbox.restore(1000);
  expect(outbox.unsent("main").map(({ key }) => key)).toEqual(["k1", "k2"]);
  await vi.runAllTimersAsync();
  expect(story).toEqual(["post q1 k1, stored 2", "acknowledged k1 r1", "post q2 k2, stored 1", "acknowledged k2 r2"]);
});

test("what is too old for its key to be remembered waits for a person", async () => {
  const storage = new MemoryStorage();
  new OutboxStorage(storage).add(message(1));
  const { outbox, story } = harness([ok(1)], storage);
  outbox.restore(FRESH_MS + 10);
  await vi.runAllTimersAsync();
  expect(story).toEqual([]);
  expect(outbox.unsent("main")).toMatchObject([{ state: "refused", error: { code: "UNCONFIRMED" } }]);
  outbox.retry("k1");
  await vi.runAllTimersAsync();
  expect(story).toEqual(["post q1 k1, stored 1", "acknowledged k1 r1"]);
});

test("a refused message stays, does not hold up the next, and can be sent again or thrown away", async () => {
  const no: Answer<never> = { kind: "final", error: { code: "TOO_LONG", message: "too long" } };
  const { outbox, story, storage, answers } = harness([no, ok(2)]);
  outbox.add(message(1));
  outbox.add(message(2));
  await vi.runAllTimersAsync();
  expect(story).toEqual(["post q1 k1, stored 1", "refused k1 TOO_LONG", "post q2 k2, stored 2", "acknowledged k2 r2"]);
  expect(storage.length).toBe(1);
  answers.push(no);
  outbox.retry("k1");
  await vi.runAllTimersAsync();
  expect(story.slice(4)).toEqual(["post q1 k1, stored 1", "refused k1 TOO_LONG"]);
  outbox.remove("k1");
  expect(storage.length).toBe(0);
});

test("without a login nothing is sent until someone logged in", async () => {
  const login: Answer<never> = { kind: "login", error: { code: "LOGIN", message: "" } };
  const { outbox, story } = harness([login, ok(1)]);
  outbox.add(message(1));
  await vi.runAllTimersAsync();
  expect(story).toEqual(["post q1 k1, stored 1", "waiting k1", "login"]);
  outbox.flush();
  await vi.runAllTimersAsync();
  expect(story.slice(3)).toEqual(["post q1 k1, stored 1", "acknowledged k1 r1"]);
});

test("waiting for one try ends with the answer, with a failure, and at the latest in time", async () => {
  const settled = async (outbox: Outbox) => {
    let ended = false;
    void outbox.triedOnce(1500).then(() => (ended = true));
    await vi.advanceTimersByTimeAsync(0);
    return ended;
  };
  expect(await settled(harness([]).outbox)).toBe(true);
  const failing = harness([unreachable]).outbox;
  failing.add(message(1));
  expect(await settled(failing)).toBe(true);
  const silent = new Outbox(new OutboxStorage(new MemoryStorage()), () => new Promise(() => undefined), {
    sending: () => undefined,
    waiting: () => undefined,
    acknowledged: () => undefined,
    refused: () => undefined,
    loginNeeded: () => undefined,
  });
  silent.add(message(1));
  let ended = false;
  void silent.triedOnce(1500).then(() => (ended = true));
  await vi.advanceTimersByTimeAsync(1499);
  expect(ended).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(ended).toBe(true);
});

test("a message that the gateway was seen to hold during its POST is not reported again", async () => {
  let answer: (value: Answer<{ runId: string }>) => void = () => undefined;
  const story: string[] = [];
  const outbox = new Outbox(new OutboxStorage(new MemoryStorage()), () => new Promise((resolve) => (answer = resolve)), {
    sending: () => undefined,
    waiting: () => story.push("waiting"),
    acknowledged: () => story.push("acknowledged"),
    refused: () => story.push("refused"),
    loginNeeded: () => undefined,
  });
  outbox.add(message(1));
  outbox.remove("k1");
  answer(unreachable);
  await vi.runAllTimersAsync();
  expect(story).toEqual([]);
});

test("only our own entries of the storage are read, and broken ones are not", () => {
  const storage = new MemoryStorage();
  storage.setItem("tidegate.language", "zh");
  storage.setItem("tidegate.unsent.x", "{");
  storage.setItem("tidegate.unsent.y", '{"session":"main"}');
  expect(new OutboxStorage(storage).all()).toEqual([]);
  expect(storedEntry("tidegate.language", "zh")).toBeUndefined();
  expect(storedEntry("tidegate.unsent.k1", null)).toEqual({ key: "k1" });
  expect(storedEntry("tidegate.unsent.k1", JSON.stringify(message(1)))).toEqual({ key: "k1", message: message(1) });
});
