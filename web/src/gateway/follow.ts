/**
 * One conversation, followed over every break: it subscribes when there is a connection, checks that no event is
 * missing, and begins again with its cursor when one is. Whoever listens gets snapshots and, after each, an unbroken row
 * of events. It never interprets them.
 */
import { type Cursor, type ErrorBody, type ServerEvent, type Snapshot, TOLD } from "../wire";
import type { Call } from "./client";
import type { EventFrame } from "./frames";
import { pauseMs } from "./pause";

export interface FollowListener {
  /** Awaited before each subscription. */
  before(): Promise<void>;
  /** The snapshot that is asked for now knows everything that was answered before. */
  asking(): void;
  event(event: ServerEvent): void;
  /** The gateway will not show this conversation. */
  refused(error: ErrorBody): void;
}

export interface Place {
  call: Call;
  random(): number;
  ended(): void;
}

/** Gaps further apart than this have nothing to do with each other. */
const CALM_MS = 10_000;

export class Follow {
  private isUp = false;
  private closed = false;
  private sub: string | undefined;
  /** The number of the last event of the subscription. */
  private n = 0;
  /** The end of the log as the last snapshot told it. */
  private cursor: Cursor | undefined;
  private asked: Cursor | undefined;
  /** What belongs to an earlier try is not heard. */
  private turn = 0;
  private gaps = 0;
  private gapAt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly session: string,
    private readonly listener: FollowListener,
    private readonly place: Place,
  ) {}

  up(): void {
    if (this.isUp || this.closed) return;
    this.isUp = true;
    void this.begin();
  }

  down(): void {
    this.isUp = false;
    this.forget();
  }

  close(): void {
    this.closed = true;
    this.leave();
    this.place.ended();
  }

  /** Something is missing: begins again from the cursor. One that misses again and again must not become a busy loop. */
  again(): void {
    if (this.closed || !this.isUp) return;
    this.leave();
    this.gaps = Date.now() - this.gapAt < CALM_MS ? this.gaps + 1 : 0;
    this.gapAt = Date.now();
    this.later();
  }

  /** An event of some subscription, perhaps of this one. */
  take({ event, payload, sub, n }: EventFrame): void {
    if (sub === undefined || sub !== this.sub || n === undefined || n <= this.n) return;
    const isFirst = this.n === 0;
    if (n !== this.n + 1 || (isFirst && event !== "session.snapshot")) return this.again();
    this.n = n;
    const type = TOLD[event as keyof typeof TOLD];
    if (type === undefined) return undefined;
    if (type === "snapshot") return this.snapshot(payload as Snapshot);
    this.listener.event({ type, data: payload } as ServerEvent);
    return undefined;
  }

  private snapshot(data: Snapshot): void {
    const after = data.partial && data.sessionId === this.asked?.sessionId ? this.asked?.seq : undefined;
    if (data.partial && after === undefined) {
      // The rest of another log than the one we hold: only a whole snapshot helps.
      this.cursor = undefined;
      return this.again();
    }
    const seq = Math.max(after ?? 0, ...data.messages.map((line) => line.seq));
    this.cursor = data.sessionId ? { sessionId: data.sessionId, seq } : undefined;
    this.listener.event(after === undefined ? { type: "snapshot", data } : { type: "snapshot", data, after });
    return undefined;
  }

  private async begin(): Promise<void> {
    this.forget();
    const { turn } = this;
    await this.listener.before();
    if (turn !== this.turn || this.closed || !this.isUp) return;
    this.listener.asking();
    this.asked = this.cursor;
    const params = this.cursor ? { session: this.session, cursor: this.cursor } : { session: this.session };
    this.place.call("session.subscribe", params, (answer) => {
      const mine = turn === this.turn;
      if (answer.kind === "ok" && mine) this.sub = answer.value.sub;
      else if (answer.kind === "ok") this.unsubscribe(answer.value.sub);
      else if (answer.kind === "final" && mine) this.listener.refused(answer.error);
      else if (answer.kind === "again" && mine && this.isUp) this.again();
    });
  }

  private later(): void {
    this.timer = setTimeout(() => void this.begin(), pauseMs(this.gaps, this.place.random()) / 2);
  }

  private leave(): void {
    const { sub } = this;
    this.forget();
    if (sub !== undefined && this.isUp) this.unsubscribe(sub);
  }

  private unsubscribe(sub: string): void {
    this.place.call("session.unsubscribe", { sub }, () => undefined);
  }

  private forget(): void {
    this.turn += 1;
    this.sub = undefined;
    this.n = 0;
    clearTimeout(this.timer);
  }
}
