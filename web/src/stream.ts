/**
 * One session's event stream, kept open: it connects, reads, notices silence, and connects again with growing pauses.
 * Each connection begins with a snapshot, so nothing needs to be replayed. It never interprets events.
 */
import { eventsPath, refusal } from "./api";
import { EventParser } from "./sse";
import type { ServerEvent } from "./wire";

export type Connection = { state: "connecting" } | { state: "connected" } | { state: "waiting"; until: number };

export interface StreamListener {
  /** Awaited before each try. */
  beforeConnect(): Promise<void>;
  connection(connection: Connection): void;
  event(event: ServerEvent): void;
  /** The cookie is missing or no longer valid; the stream has stopped. */
  loginNeeded(): void;
  /** The gateway does not know this session (yet); the stream rests until `connectNow`. */
  unknownSession(): void;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
/** The gateway pings every 15 s: after two missed ones the connection is dead, whatever the socket says. */
const SILENCE_MS = 35_000;
const EVENTS = new Set(["snapshot", "run", "delta", "done"]);

/** The pause before the next try: doubled each time, between half and all of it at random. */
export function pauseMs(failures: number, random: number): number {
  const full = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
  return full / 2 + (full / 2) * random;
}

export class SessionStream {
  private closed = false;
  private failures = 0;
  private abort = new AbortController();
  private wake: (() => void) | undefined;
  private heardAt = Date.now();

  constructor(
    private readonly session: string,
    private readonly listener: StreamListener,
  ) {
    void this.run();
  }

  close(): void {
    this.closed = true;
    this.reconnect();
  }

  /** Drops the present connection and begins a new one, for a new snapshot. */
  reconnect(): void {
    this.abort.abort();
    this.connectNow();
  }

  /** Ends a pause. */
  connectNow(): void {
    this.wake?.();
  }

  /** The page came to the front or the network came back: a pause is over, and a silent connection is not trusted. */
  nudge(): void {
    if (Date.now() - this.heardAt > SILENCE_MS / 2) this.reconnect();
    else this.connectNow();
  }

  private async run(): Promise<void> {
    while (!this.closed) {
      await this.listener.beforeConnect();
      if (this.closed) return;
      this.listener.connection({ state: "connecting" });
      const end = await this.connectOnce();
      if (this.closed) return;
      if (end === "login") return this.listener.loginNeeded();
      if (end === "unknown") {
        this.listener.unknownSession();
        await this.sleep(undefined);
      } else if (end === "lost") {
        const pause = pauseMs(this.failures, Math.random());
        this.failures += 1;
        this.listener.connection({ state: "waiting", until: Date.now() + pause });
        await this.sleep(pause);
      } else {
        // A stream that shows gaps again and again must not become a busy loop.
        await this.sleep(FIRST_PAUSE_MS / 2);
      }
    }
  }

  private async connectOnce(): Promise<"login" | "unknown" | "lost" | "dropped"> {
    const abort = new AbortController();
    this.abort = abort;
    const watch = setInterval(() => {
      if (Date.now() - this.heardAt > SILENCE_MS) abort.abort("silence");
    }, 1000);
    this.heardAt = Date.now();
    try {
      const headers = { accept: "text/event-stream" };
      const init: RequestInit = { headers, credentials: "same-origin", cache: "no-store", signal: abort.signal };
      const response = await fetch(eventsPath(this.session), init);
      if (response.ok && response.body) {
        await this.read(response.body);
        return "lost";
      }
      const answer = await refusal(response);
      if (answer.kind === "login") return "login";
      return answer.kind === "final" && answer.status === 404 ? "unknown" : "lost";
    } catch {
      return abort.signal.aborted && abort.signal.reason !== "silence" ? "dropped" : "lost";
    } finally {
      clearInterval(watch);
      abort.abort();
    }
  }

  private async read(body: ReadableStream<Uint8Array>): Promise<void> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const parser = new EventParser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.heardAt = Date.now();
      for (const { event, data } of parser.push(decoder.decode(value, { stream: true }))) {
        if (this.closed) return;
        if (!EVENTS.has(event)) continue;
        if (event === "snapshot") {
          this.failures = 0;
          this.listener.connection({ state: "connected" });
        }
        this.listener.event({ type: event, data: JSON.parse(data) } as ServerEvent);
      }
    }
  }

  private sleep(ms: number | undefined): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
