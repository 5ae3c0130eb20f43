/**
 * A gateway in memory that keeps the socket's contract, and breaks it where a test says so: frames of a subscription
 * left out or doubled, answers lost, connections cut, the process killed. One conversation, whose log is the truth.
 */
import type { Wire, WireEvents, World } from "../../src/gateway/link";
import type { Line, RunRow } from "../../src/wire";

export const TICK_MS = 15_000;
const DELAY_MS = 3;

type Fate = "pass" | "drop" | "double";

interface Connection extends WireEvents {
  open: boolean;
  subs: Map<string, { session: string; n: number }>;
}

interface Request {
  id: string;
  method: string;
  params: Params;
}

/** What any method takes. */
interface Params {
  session: string;
  text: string;
  key: string;
  sub: string;
  bootId: string;
  afterSeq: number;
  cursor?: { sessionId: string; seq: number };
}

export class TestGateway {
  log: Line[] = [];
  sessionId = "log-1";
  runs: RunRow[] = [];
  /** The run of each key that was ever accepted. */
  readonly keys = new Map<string, string>();
  /** Everything a client asked, by method. */
  readonly asked: Request[] = [];
  isOnline = true;
  knowsUs = true;
  ticks = true;
  /** What happens to the next frame of a subscription. */
  fate: () => Fate = () => "pass";
  /** The next message is accepted, and the connection ends before its answer. */
  swallows = false;
  /** Methods that are never answered. */
  readonly mute = new Set<string>();
  keepsPast = true;
  losesBroadcasts = false;
  boot = 1;
  seq = 0;
  private past: { seq: number; text: string }[] = [];
  private readonly connections = new Set<Connection>();
  private made = 0;
  private runsMade = 0;

  readonly world: World = {
    open: (events) => this.open(events),
    whoami: async () => (!this.isOnline ? "away" : this.knowsUs ? "known" : "stranger"),
    random: () => 0.5,
  };

  get connected(): number {
    return this.connections.size;
  }

  private open(events: WireEvents): Wire {
    const connection: Connection = { ...events, open: true, subs: new Map() };
    setTimeout(() => {
      if (!this.isOnline || !this.knowsUs) return this.end(connection);
      this.connections.add(connection);
      this.emit(connection, { type: "event", event: "hello", payload: this.hello() });
      return this.tick(connection);
    }, DELAY_MS);
    return {
      send: (text) => {
        const request = JSON.parse(text) as Request;
        setTimeout(() => connection.open && this.answer(connection, request), DELAY_MS);
      },
      close: () => this.end(connection),
    };
  }

  private hello() {
    return {
      protocol: 1,
      server: { name: "test", version: "0", bootId: `boot-${this.boot}`, connId: "c" },
      seq: this.seq,
      me: { name: "harbour", version: "0", agent: "Marina" },
      policy: { tickMs: TICK_MS, maxFrameBytes: 4096, maxQueuedBytes: 1 << 20, maxRequests: 8 },
      methods: [],
      events: [],
    };
  }

  private tick(connection: Connection): void {
    if (!connection.open) return;
    if (this.ticks) this.emit(connection, { type: "event", event: "tick", payload: { at: Date.now() } });
    setTimeout(() => this.tick(connection), TICK_MS);
  }

  private end(connection: Connection): void {
    if (!connection.open) return;
    connection.open = false;
    this.connections.delete(connection);
    setTimeout(() => connection.closed(), DELAY_MS);
  }

  /** What is on its way arrives even after the end of its connection: a client must not hear it. */
  private emit(connection: Connection, frame: unknown): void {
    const text = JSON.stringify(frame);
    setTimeout(() => connection.text(text), DELAY_MS);
  }

  private answer(connection: Connection, request: Request): void {
    this.asked.push(request);
    if (this.mute.has(request.method)) return;
    const outcome = this.outcome(connection, request);
    if (request.method === "message.send" && this.swallows) {
      this.swallows = false;
      return this.end(connection);
    }
    this.emit(connection, { type: "res", id: request.id, ...outcome });
    if (request.method === "session.subscribe") this.begin(connection, request);
    return undefined;
  }

  private outcome(connection: Connection, { method, params }: Request): object {
    switch (method) {
      case "message.send":
        return { ok: true, payload: this.accept(params.text, params.key) };
      case "session.subscribe": {
        this.made += 1;
        connection.subs.set(`s${this.made}`, { session: params.session, n: 0 });
        return { ok: true, payload: { sub: `s${this.made}` } };
      }
      case "session.unsubscribe":
        connection.subs.delete(params.sub);
        return { ok: true, payload: {} };
      case "events.resume":
        return { ok: true, payload: this.resume(connection, params.bootId, params.afterSeq) };
      case "sessions.list":
        return { ok: true, payload: { sessions: [] } };
      case "approval.list":
        return { ok: true, payload: { approvals: [] } };
      default:
        return { ok: false, error: { code: "NOT_FOUND", message: `there is no method ${method}` } };
    }
  }

  private resume(connection: Connection, bootId: string, afterSeq: number) {
    if (bootId !== `boot-${this.boot}` || !this.keepsPast) return { resumed: false, seq: this.seq };
    for (const { seq, text } of this.past) if (seq > afterSeq) setTimeout(() => connection.text(text), DELAY_MS);
    return { resumed: true, seq: this.seq };
  }

  private begin(connection: Connection, { params }: Request): void {
    const sub = `s${this.made}`;
    const { cursor } = params;
    if (params.session !== "main") {
      const empty = { session: params.session, messages: [], runs: [] };
      return this.toSub(connection, sub, "session.snapshot", empty);
    }
    const { messages, runs, ...snapshot } = this.snapshot();
    const partial = cursor !== undefined && cursor.sessionId === this.sessionId;
    const lines = messages.filter(({ seq }) => !partial || seq > cursor.seq);
    return this.toSub(connection, sub, "session.snapshot", { ...snapshot, partial, messages: lines, runs });
  }

  private snapshot() {
    return { session: "main", sessionId: this.sessionId, messages: this.log, runs: this.runs };
  }

  private toSub(connection: Connection, id: string, event: string, payload: unknown): void {
    const sub = connection.subs.get(id);
    if (!sub) return;
    sub.n += 1;
    const fate = this.fate();
    const frame = { type: "event", event, payload, sub: id, n: sub.n };
    if (fate === "drop") return;
    this.emit(connection, frame);
    if (fate === "double") this.emit(connection, frame);
  }

  /** Only the next frame of a subscription fares so. */
  set next(fate: Fate) {
    this.fate = () => {
      this.fate = () => "pass";
      return fate;
    };
  }

  /** Tells everybody who follows the conversation. */
  private tell(event: string, payload: unknown): void {
    for (const connection of this.connections) {
      for (const [id, { session }] of connection.subs) if (session === "main") this.toSub(connection, id, event, payload);
    }
  }

  broadcast(event: string, payload: unknown): void {
    this.seq += 1;
    const text = JSON.stringify({ type: "event", event, payload, seq: this.seq });
    this.past.push({ seq: this.seq, text });
    if (this.losesBroadcasts) return;
    for (const connection of this.connections) setTimeout(() => connection.text(text), DELAY_MS);
  }

  /** Something about a subscription that no client asked for. */
  sendTo(event: string, payload: unknown): void {
    this.tell(event, payload);
  }

  cut(): void {
    for (const connection of [...this.connections]) this.end(connection);
  }

  /** The process ends and another begins: what ran is tried again, and nobody remembers broadcasts. */
  restart(): void {
    this.cut();
    this.boot += 1;
    this.seq = 0;
    this.past = [];
    for (const run of this.runs) {
      if (run.state === "running") Object.assign(run, { state: "queued", partial: null });
    }
  }

  private accept(text: string, key: string) {
    const known = this.keys.get(key);
    if (known) return { runId: known, replayed: true };
    this.runsMade += 1;
    const runId = `01890000-0000-7000-8000-${String(this.runsMade).padStart(12, "0")}`;
    this.keys.set(key, runId);
    const run: RunRow = { runId, state: "queued", text, key, at: Date.now(), attempt: 0, partial: null };
    this.runs.push(run);
    this.changed(run);
    return { runId, replayed: false };
  }

  private changed({ partial: _, ...run }: RunRow): void {
    this.tell("session.run", { ...run });
    this.broadcast("sessions.changed", { session: "main", reason: "asked" });
  }

  /** One step of work: a run begins, says a word, or ends. True while there is more to do. */
  work(finish: boolean): boolean {
    const run = this.runs.find(({ state }) => state === "running") ?? this.runs.find(({ state }) => state === "queued");
    if (!run) return false;
    if (run.state === "queued") {
      Object.assign(run, { state: "running", attempt: run.attempt + 1, partial: null });
      this.changed(run);
    } else if (!finish || run.partial === null) {
      const seq = (run.partial?.seq ?? 0) + 1;
      const text = ` ${run.text}.${seq}`;
      run.partial = { text: (run.partial?.text ?? "") + text, seq };
      this.tell("session.delta", { runId: run.runId, attempt: run.attempt, seq, text });
    } else this.finish(run);
    return true;
  }

  private finish(run: RunRow): void {
    const seq = (this.log.at(-1)?.seq ?? 0) + 1;
    const { runId, text } = run;
    const messages: Line[] = [
      { seq, role: "user", text, at: run.at, runId },
      { seq: seq + 2, role: "assistant", text: `answer to ${text}`, at: Date.now(), runId },
    ];
    this.log = [...this.log, ...messages];
    this.runs = this.runs.filter((other) => other !== run);
    run.state = "completed";
    this.changed(run);
    this.tell("session.done", { runId, messages });
  }

  /** The conversation begins anew: another log, and whoever looks is told the whole of it. */
  reset(): void {
    this.sessionId = `log-${Number(this.sessionId.slice(4)) + 1}`;
    this.log = [];
    this.tell("session.snapshot", this.snapshot());
  }
}
