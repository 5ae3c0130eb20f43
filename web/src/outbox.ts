/**
 * Messages on their way to the gateway. Each is written to the browser's storage before anything else happens and
 * stays there until the gateway is seen to hold it, so a reload or a dead gateway loses none; it is sent under the
 * same key until there is an answer, so none arrives twice. One storage entry a message: tabs never overwrite another.
 */
import type { Answer } from "./gateway/answer";
import { pauseMs } from "./gateway/pause";
import type { Unsent } from "./state";
import type { ErrorBody } from "./wire";

export interface Stored {
  session: string;
  key: string;
  text: string;
  at: number;
}

/** What the outbox needs of `localStorage`. */
export type Storage = Pick<globalThis.Storage, "getItem" | "setItem" | "removeItem" | "key" | "length">;

const PREFIX = "tidegate.unsent.";
/** The gateway forgets keys in time. What is older than this is sent again only when a person says so. */
export const FRESH_MS = 12 * 60 * 60 * 1000;

export class OutboxStorage {
  constructor(private readonly storage: Storage) {}

  add(message: Stored): void {
    try {
      this.storage.setItem(PREFIX + message.key, JSON.stringify(message));
    } catch {
      // Full or forbidden: the message still lives in this tab, it only does not survive a reload.
    }
  }

  remove(key: string): void {
    try {
      this.storage.removeItem(PREFIX + key);
    } catch {
      // As above.
    }
  }

  all(): Stored[] {
    const found: Stored[] = [];
    try {
      for (let index = 0; index < this.storage.length; index += 1) {
        const name = this.storage.key(index);
        const message = name?.startsWith(PREFIX) ? parse(this.storage.getItem(name)) : undefined;
        if (message) found.push(message);
      }
    } catch {
      // Storage is forbidden: there is nothing to restore.
    }
    return found.sort((a, b) => a.at - b.at);
  }
}

/** The message in a storage entry, for the `storage` event of another tab: its key, and what it holds now. */
export function storedEntry(name: string | null, value: string | null): { key: string; message?: Stored } | undefined {
  if (!name?.startsWith(PREFIX)) return undefined;
  const key = name.slice(PREFIX.length);
  const message = parse(value);
  return message ? { key, message } : { key };
}

function parse(value: string | null): Stored | undefined {
  if (value === null) return undefined;
  try {
    const { session, key, text, at } = JSON.parse(value) as Stored;
    const whole = [session, key, text].every((part) => typeof part === "string") && typeof at === "number";
    return whole ? { session, key, text, at } : undefined;
  } catch {
    return undefined;
  }
}

export interface OutboxListener {
  sending(message: Stored): void;
  waiting(message: Stored): void;
  acknowledged(message: Stored, runId: string): void;
  refused(message: Stored, error: ErrorBody): void;
  loginNeeded(): void;
}

export type Post = (session: string, text: string, key: string) => Promise<Answer<{ runId: string }>>;

/** Sends one message at a time, oldest first, each until it is answered. */
export class Outbox {
  private queue: Stored[] = [];
  private refusals = new Map<string, ErrorBody>();
  private working = false;
  private paused = false;
  private wake: (() => void) | undefined;
  private waiters: (() => void)[] = [];

  constructor(
    private readonly stored: OutboxStorage,
    private readonly post: Post,
    private readonly listener: OutboxListener,
  ) {}

  /** Takes up what an earlier page left behind. */
  restore(now: number): void {
    for (const message of this.stored.all()) this.adopt(message, now);
  }

  /** A message that is in the storage already, of an earlier page or another tab. */
  adopt(message: Stored, now: number): void {
    if (this.queue.some(({ key }) => key === message.key)) return;
    this.queue.push(message);
    if (now - message.at > FRESH_MS) this.refusals.set(message.key, { code: "UNCONFIRMED", message: "" });
    void this.work();
  }

  add(message: Stored): void {
    this.stored.add(message);
    this.queue.push(message);
    void this.work();
  }

  /** A person asks to send a refused message again. */
  retry(key: string): void {
    this.refusals.delete(key);
    this.flush();
  }

  /** The gateway holds it, or a person threw it away. */
  remove(key: string): void {
    this.stored.remove(key);
    this.refusals.delete(key);
    this.queue = this.queue.filter((message) => message.key !== key);
  }

  /** What of a session is not acknowledged, as a conversation shows it. */
  unsent(session: string): Unsent[] {
    return this.queue
      .filter((message) => message.session === session)
      .map(({ key, text, at }) => {
        const error = this.refusals.get(key);
        return error ? { key, text, at, state: "refused", error } : { key, text, at, state: "sending" };
      });
  }

  /** The gateway may be back: no more waiting. */
  flush(): void {
    this.paused = false;
    this.wake?.();
    void this.work();
  }

  /**
   * Resolves when everything is answered, a try failed, or the time is over. A snapshot asked for after that names
   * each message that had arrived before without our knowing, so it is not shown twice.
   */
  triedOnce(withinMs: number): Promise<void> {
    if (!this.next()) return Promise.resolve();
    return new Promise((resolve) => {
      this.waiters.push(resolve);
      setTimeout(resolve, withinMs);
      this.flush();
    });
  }

  private release(): void {
    for (const resolve of this.waiters.splice(0)) resolve();
  }

  private next(): Stored | undefined {
    return this.queue.find(({ key }) => !this.refusals.has(key));
  }

  private async work(): Promise<void> {
    if (this.working || this.paused) return;
    this.working = true;
    let failures = 0;
    for (let message = this.next(); message && !this.paused; message = this.next()) {
      this.listener.sending(message);
      const answer = await this.post(message.session, message.text, message.key);
      if (!this.queue.includes(message)) continue;
      const pause = this.settle(message, answer, failures);
      failures = pause === 0 ? 0 : failures + 1;
      if (pause > 0) {
        this.release();
        await this.sleep(pause);
      }
    }
    this.working = false;
    this.release();
  }

  /** Acts on an answer; returns how long to wait before the next try. */
  private settle(message: Stored, answer: Answer<{ runId: string }>, failures: number): number {
    switch (answer.kind) {
      case "ok":
        this.remove(message.key);
        this.listener.acknowledged(message, answer.value.runId);
        return 0;
      case "final":
        this.refusals.set(message.key, answer.error);
        this.listener.refused(message, answer.error);
        return 0;
      case "login":
        this.paused = true;
        this.listener.waiting(message);
        this.listener.loginNeeded();
        return 0;
      case "again":
        for (const waiting of this.queue) {
          if (!this.refusals.has(waiting.key)) this.listener.waiting(waiting);
        }
        return answer.afterMs ?? pauseMs(failures, Math.random());
    }
  }

  private sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
