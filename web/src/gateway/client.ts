/**
 * The gateway over one socket: calls with deadlines, broadcasts, and conversations followed live. It owns what must
 * survive a break: broadcasts are taken up where they were left, subscriptions begin again by themselves, and a call
 * whose answer is lost says that it may be made again. It knows nothing of the page, and never repeats a call.
 */
import { type Answer, refused, unreachable } from "./answer";
import { Follow, type FollowListener } from "./follow";
import { type AnswerFrame, type EventFrame, type Frame, request } from "./frames";
import { type Connection, Link, type World } from "./link";
import type { Hello, NativeEvents as Events, NativeMethods as Methods } from "./methods";

export interface ClientListener {
  connection(connection: Connection): void;
  hello(hello: Hello): void;
  /** What was read before may be out of date: at the first connection, and whenever broadcasts were lost for good. */
  readAgain(): void;
  /** Nobody is logged in here; the client has stopped. */
  loginNeeded(): void;
}

type Params<M extends keyof Methods> = Methods[M]["params"];
type Result<M extends keyof Methods> = Methods[M]["result"];
export type Call = <M extends keyof Methods>(
  method: M,
  params: Params<M>,
  settle: (answer: Answer<Result<M>>) => void,
) => void;

interface Pending {
  settle(answer: Answer<unknown>): void;
  timer: ReturnType<typeof setTimeout>;
}

const DEADLINE_MS = 20_000;

export class Client {
  private readonly link: Link;
  private readonly pending = new Map<string, Pending>();
  private readonly handlers = new Map<string, Set<(payload: never) => void>>();
  private readonly follows = new Set<Follow>();
  private hello: Hello | undefined;
  /** The last broadcast of an unbroken row, and the process that counts: from there they are taken up. */
  private heard: { bootId: string; seq: number } | undefined;
  /** What was missed is being told again. */
  private resuming = false;
  private requests = 0;

  constructor(
    private readonly world: World,
    private readonly listener: ClientListener,
  ) {
    this.link = new Link(world, {
      connection: (connection) => listener.connection(connection),
      up: (hello) => this.up(hello),
      down: () => this.down(),
      frame: (frame) => this.frame(frame),
      stranger: () => this.loginNeeded(),
    });
  }

  start(): void {
    this.link.start();
  }

  /** Lets go of everything; what comes after another `start` has nothing to do with what was before. */
  stop(): void {
    for (const follow of this.follows) follow.close();
    this.link.stop();
    this.heard = undefined;
  }

  /** The network or the page came back. */
  nudge(): void {
    this.link.nudge();
  }

  /** Every outcome is a value. Without a connection, or when it breaks, the call may be made again. */
  call<M extends keyof Methods>(method: M, params: Params<M>, { deadlineMs = DEADLINE_MS } = {}): Promise<Answer<Result<M>>> {
    return new Promise((resolve) => this.request(method, params, resolve, deadlineMs));
  }

  /** Hears a broadcast, each once, until the returned function is called. */
  on<E extends keyof Events>(event: E, handler: (payload: Events[E]) => void): () => void {
    const known = this.handlers.get(event) ?? new Set();
    this.handlers.set(event, known.add(handler));
    return () => {
      known.delete(handler);
    };
  }

  /** Follows a conversation until it is closed, over every break. */
  follow(session: string, listener: FollowListener): Follow {
    const call: Call = (method, params, settle) => this.request(method, params, settle, DEADLINE_MS);
    const follow: Follow = new Follow(session, listener, {
      call,
      random: () => this.world.random(),
      ended: () => this.follows.delete(follow),
    });
    this.follows.add(follow);
    if (this.hello) follow.up();
    return follow;
  }

  private request<M extends keyof Methods>(
    method: M,
    params: Params<M>,
    settle: (answer: Answer<Result<M>>) => void,
    deadlineMs: number,
  ): void {
    if (!this.hello) return settle(unreachable("there is no connection to the gateway"));
    const { maxFrameBytes, maxRequests } = this.hello.policy;
    if (this.pending.size >= maxRequests) return settle(unreachable("too many requests are under way"));
    this.requests += 1;
    const id = String(this.requests);
    const text = request(id, method, params);
    // The gateway would end the connection, and the same request would end the next one too.
    if (new TextEncoder().encode(text).length > maxFrameBytes) {
      const message = `the request is larger than ${Math.floor(maxFrameBytes / 1024)} KiB`;
      return settle({ kind: "final", error: { code: "PAYLOAD_TOO_LARGE", message } });
    }
    const timer = setTimeout(() => this.settle(id, unreachable("no answer came in time")), deadlineMs);
    this.pending.set(id, { settle: settle as Pending["settle"], timer });
    if (!this.link.send(text)) this.settle(id, unreachable("the connection is closing"));
    return undefined;
  }

  private settle(id: string, answer: Answer<unknown>): void {
    const waiting = this.pending.get(id);
    if (!waiting) return;
    this.pending.delete(id);
    clearTimeout(waiting.timer);
    waiting.settle(answer);
  }

  private up(hello: Hello): void {
    this.hello = hello;
    this.listener.hello(hello);
    this.takeUp(hello);
    for (const follow of this.follows) follow.up();
  }

  private down(): void {
    this.hello = undefined;
    this.resuming = false;
    for (const follow of this.follows) follow.down();
    for (const id of [...this.pending.keys()]) this.settle(id, unreachable("the connection to the gateway was lost"));
  }

  /** Broadcasts go on where they were left; those of another process have nothing to do with what was heard. */
  private takeUp({ server, seq }: Hello): void {
    if (this.heard?.bootId !== server.bootId) {
      this.heard = { bootId: server.bootId, seq };
      this.listener.readAgain();
    } else if (this.heard.seq !== seq) this.resume();
  }

  /** Asks for what was missed. If the gateway does not have it any more, what is known must be read anew. */
  private resume(): void {
    const { hello, heard, resuming } = this;
    if (!hello || !heard || resuming) return;
    this.resuming = true;
    const settle = (answer: Answer<Result<"events.resume">>) => {
      // A connection that broke before it was told everything is followed by one that asks from the same place.
      if (this.hello !== hello) return;
      this.resuming = false;
      if (answer.kind === "ok" && answer.value.resumed) return;
      if (answer.kind === "ok") heard.seq = Math.max(heard.seq, answer.value.seq);
      this.listener.readAgain();
    };
    this.request("events.resume", { bootId: heard.bootId, afterSeq: heard.seq }, settle, DEADLINE_MS);
  }

  private frame(frame: Frame): void {
    if (frame.type === "res") return this.answered(frame);
    if (frame.sub !== undefined) {
      for (const follow of this.follows) follow.take(frame);
      return undefined;
    }
    return this.broadcast(frame);
  }

  private answered(frame: AnswerFrame): void {
    const answer: Answer<unknown> = frame.ok ? { kind: "ok", value: frame.payload } : refused(frame.error);
    this.settle(frame.id, answer);
    if (answer.kind === "login") this.loginNeeded();
  }

  private loginNeeded(): void {
    this.stop();
    this.listener.loginNeeded();
  }

  private broadcast({ event, payload, seq }: EventFrame): void {
    if (seq !== undefined && !this.isNext(seq)) return;
    if (event === "missed") this.listener.readAgain();
    for (const handler of [...(this.handlers.get(event) ?? [])]) handler(payload as never);
  }

  /** Each number once and in order: one that comes too early is told again with those before it. */
  private isNext(seq: number): boolean {
    const { heard } = this;
    if (!heard || seq <= heard.seq) return false;
    if (seq > heard.seq + 1) {
      this.resume();
      return false;
    }
    heard.seq = seq;
    return true;
  }
}
