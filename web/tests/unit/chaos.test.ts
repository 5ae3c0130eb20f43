/**
 * The whole page without its looks, against a gateway that fails at random: whatever is dropped, doubled, cut, killed or
 * reloaded, no line is ever shown twice, and in the end the page shows the log.
 */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Chat } from "../../src/chat";
import type { Storage } from "../../src/outbox";
import { rows } from "../../src/view";
import { seen } from "./build";
import { TestGateway } from "./gateway";

const SEEDS = 60;
const STEPS = 120;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ name: "harbour", version: "0", agent: "Marina" })));
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

function memory(): Storage {
  const entries = new Map<string, string>();
  return {
    get length() {
      return entries.size;
    },
    key: (index) => [...entries.keys()][index] ?? null,
    getItem: (name) => entries.get(name) ?? null,
    setItem: (name, value) => void entries.set(name, value),
    removeItem: (name) => void entries.delete(name),
  };
}

type Dice = (sides: number) => number;

const FATES = ["pass", "pass", "pass", "drop", "double"] as const;

/** The same numbers for the same seed. */
function dice(seed: number): Dice {
  let state = (seed * 2654435761 + 1) >>> 0;
  return (sides: number) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 0x9e3779b9) >>> 0;
    return ((state ^ (state >>> 13)) >>> 0) % sides;
  };
}

class Reader {
  readonly gateway = new TestGateway();
  readonly storage = memory();
  /** What was typed and is not in a log that is no more. */
  typed: string[] = [];
  /** Lines that were shown twice at some moment. */
  readonly complaints = new Set<string>();
  private texts = 0;
  chat: Chat = this.arrive();

  private arrive(): Chat {
    const chat: Chat = new Chat("main", this.storage, {
      ...this.gateway.world,
      // A page that was left hears and says nothing any more.
      open: (events) =>
        this.gateway.world.open({
          text: (text) => this.chat === chat && events.text(text),
          closed: () => this.chat === chat && events.closed(),
        }),
    });
    chat.subscribe(() => this.look(chat));
    void chat.start();
    return chat;
  }

  reload(): void {
    this.gateway.cut();
    this.chat = this.arrive();
  }

  type(): void {
    // Nobody writes on a page that is not there yet.
    if (this.chat.current().phase !== "ready" || this.chat.current().conversation.session !== "main") return;
    this.texts += 1;
    const text = `q${this.texts}`;
    this.typed.push(text);
    this.chat.send(text);
  }

  step(roll: Dice): void {
    const { gateway } = this;
    const acts = [
      () => this.type(),
      () => this.type(),
      ...Array.from({ length: 6 }, () => () => void gateway.work(true)),
      () => void gateway.work(roll(2) === 0),
      () => gateway.cut(),
      () => gateway.restart(),
      () => (gateway.fate = () => FATES[roll(FATES.length)] ?? "pass"),
      () => (gateway.fate = () => "pass"),
      () => (gateway.swallows = true),
      () => (gateway.isOnline = false),
      () => (gateway.isOnline = true),
      () => (gateway.isOnline = true),
      () => this.reset(),
      () => this.reload(),
      () => this.chat.open(roll(3) === 0 ? "other" : "main"),
      () => this.chat.nudge(),
    ];
    acts[roll(acts.length)]?.();
    if (!gateway.isOnline) gateway.cut();
  }

  private reset(): void {
    const old = new Set(this.gateway.log.map(({ text }) => text));
    this.typed = this.typed.filter((text) => !old.has(text));
    this.gateway.reset();
  }

  private look(chat: Chat): void {
    const shown = rows(chat.current().conversation);
    const own = shown.filter((row) => row.speaker === "user").map((row) => row.text);
    const runs = shown.filter((row) => row.speaker === "agent").map((row) => row.runId);
    for (const ids of [own, runs]) {
      for (const twice of ids.filter((id, index) => ids.indexOf(id) !== index)) this.complaints.add(twice);
    }
  }

  /** The connection is good from here on; only frames are lost, until one whole turn goes through. */
  async end(roll: Dice): Promise<void> {
    const { gateway } = this;
    Object.assign(gateway, { isOnline: true, swallows: false, fate: () => "pass" });
    if (this.chat.current().conversation.session !== "main") this.chat.open("main");
    await vi.advanceTimersByTimeAsync(30_000);
    if (roll(2) === 0) this.reset();
    this.type();
    gateway.fate = () => FATES[roll(FATES.length)] ?? "pass";
    do await vi.advanceTimersByTimeAsync(20);
    while (gateway.work(roll(2) === 0));
    gateway.fate = () => "pass";
    this.type();
    do await vi.advanceTimersByTimeAsync(20);
    while (gateway.work(true));
    await vi.advanceTimersByTimeAsync(20_000);
  }
}

let lines = 0;
test.each(Array.from({ length: SEEDS }, (_, seed) => seed))("seed %i", async (seed) => {
  const roll = dice(seed);
  const reader = new Reader();
  await vi.advanceTimersByTimeAsync(100);
  for (let step = 0; step < STEPS; step += 1) {
    reader.step(roll);
    await vi.advanceTimersByTimeAsync([0, 1, 5, 20, 300, 2000][roll(6)] ?? 0);
  }
  await reader.end(roll);
  const { gateway, chat, typed, storage } = reader;
  const log = gateway.log.map(({ role, text }) => (role === "user" ? `user(answered): ${text}` : `agent(final): ${text}`));
  expect(seen(chat.current().conversation)).toEqual(log);
  // Everything that was typed is in the log once, in the order of typing.
  expect(gateway.log.filter(({ role }) => role === "user").map(({ text }) => text)).toEqual(typed);
  expect([...reader.complaints]).toEqual([]);
  expect(storage.length).toBe(0);
  lines += log.length;
});

test("the sequences were no empty ones", () => {
  expect(lines).toBeGreaterThan(SEEDS * 5);
});
