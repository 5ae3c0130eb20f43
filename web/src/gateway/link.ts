/**
 * One socket to the gateway, kept open: it connects, notices silence, and connects again with growing, spread pauses.
 * It knows the first frame and the ticks; what other frames mean is not its business.
 */
import { type Frame, parse } from "./frames";
import type { Hello } from "./methods";
import { pauseMs } from "./pause";

export type Connection = { state: "connecting" } | { state: "connected" } | { state: "waiting"; until: number };

/** A socket under way. */
export interface Wire {
  send(text: string): void;
  close(): void;
}

export interface WireEvents {
  text(text: string): void;
  closed(): void;
}

/** What the link needs of the world around it. */
export interface World {
  open(events: WireEvents): Wire;
  /** A browser does not tell why a socket was refused; this asks another way. */
  whoami(): Promise<"known" | "stranger" | "away">;
  random(): number;
}

export interface LinkListener {
  connection(connection: Connection): void;
  up(hello: Hello): void;
  down(): void;
  frame(frame: Frame): void;
  /** Nobody is logged in here; the link has stopped. */
  stranger(): void;
}

/** How long the gateway may take for its first frame. */
const HELLO_MS = 10_000;
/** A connection that lasted this long was a good one: the next pause is a short one. */
const STEADY_MS = 5_000;

type Phase = "stopped" | "opening" | "up" | "asking" | "pausing";

export class Link {
  private phase: Phase = "stopped";
  private wire: Wire | undefined;
  private failures = 0;
  private heardAt = 0;
  private upAt = 0;
  private tickMs = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** Words of a socket that was given up are not heard. */
  private turn = 0;

  constructor(
    private readonly world: World,
    private readonly listener: LinkListener,
  ) {}

  start(): void {
    if (this.phase === "stopped") this.connect();
  }

  stop(): void {
    if (this.phase === "stopped") return;
    const wasUp = this.drop("stopped");
    if (wasUp) this.listener.down();
  }

  /** The page came to the front or the network came back: a pause is over, and a silent connection is not trusted. */
  nudge(): void {
    if (this.phase === "pausing") this.connect();
    else if (this.phase === "up" && Date.now() - this.heardAt > 1.5 * this.tickMs) this.lost("at once");
  }

  /** Whether the text was handed to a living socket. */
  send(text: string): boolean {
    if (this.phase !== "up" || !this.wire) return false;
    try {
      this.wire.send(text);
      return true;
    } catch {
      return false;
    }
  }

  private connect(): void {
    this.drop("opening");
    const { turn } = this;
    this.listener.connection({ state: "connecting" });
    this.timer = setTimeout(() => this.lost("later"), HELLO_MS);
    const mine = () => turn === this.turn;
    try {
      this.wire = this.world.open({
        text: (text) => mine() && this.heard(text),
        closed: () => mine() && this.lost("later"),
      });
    } catch {
      this.lost("later");
    }
  }

  private heard(text: string): void {
    this.heardAt = Date.now();
    const frame = parse(text);
    if (!frame) return;
    if (this.phase === "opening") {
      if (frame.type === "event" && frame.event === "hello") this.greeted(frame.payload as Hello);
      return;
    }
    if (frame.type !== "event" || frame.event !== "tick") this.listener.frame(frame);
  }

  private greeted(hello: Hello): void {
    clearTimeout(this.timer);
    this.phase = "up";
    this.upAt = Date.now();
    this.tickMs = hello.policy.tickMs;
    this.watch();
    this.listener.connection({ state: "connected" });
    this.listener.up(hello);
  }

  /** After two missed ticks the connection is dead, whatever the socket says. */
  private watch(): void {
    const left = this.heardAt + 2 * this.tickMs - Date.now();
    if (left <= 0) return this.lost("at once");
    this.timer = setTimeout(() => this.watch(), left);
    return undefined;
  }

  private lost(next: "at once" | "later"): void {
    const refused = this.phase === "opening";
    if (Date.now() - this.upAt >= STEADY_MS && !refused) this.failures = 0;
    const wasUp = this.drop("asking");
    if (wasUp) this.listener.down();
    // Whoever was told may have stopped the link.
    if (this.phase !== "asking") return;
    if (refused) void this.ask();
    else if (next === "at once") this.connect();
    else this.pause();
  }

  private async ask(): Promise<void> {
    const { turn } = this;
    const who = await this.world.whoami();
    if (turn !== this.turn) return;
    if (who !== "stranger") return this.pause();
    this.drop("stopped");
    this.listener.stranger();
  }

  private pause(): void {
    const pause = pauseMs(this.failures, this.world.random());
    this.failures += 1;
    this.phase = "pausing";
    this.listener.connection({ state: "waiting", until: Date.now() + pause });
    this.timer = setTimeout(() => this.connect(), pause);
  }

  /** Lets go of the socket and of every timer; says whether it was in use. */
  private drop(next: Phase): boolean {
    const wasUp = this.phase === "up";
    this.turn += 1;
    clearTimeout(this.timer);
    this.wire?.close();
    this.wire = undefined;
    this.phase = next;
    return wasUp;
  }
}
