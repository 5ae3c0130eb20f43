/**
 * The page's one store: who is logged in, the conversation list, the open conversation, the connection. It wires the
 * event stream and the outbox to the reducer; components read it and call its verbs. It never touches the document.
 */
import * as api from "./api";
import { Outbox, OutboxStorage, type Storage, type Stored, storedEntry } from "./outbox";
import { type Action, type Conversation, emptyConversation, reduce } from "./state";
import { type Connection, pauseMs, SessionStream } from "./stream";
import type { ErrorBody, Me, SessionRow } from "./wire";

export interface View {
  phase: "starting" | "login" | "ready";
  me: Me | undefined;
  sessions: SessionRow[];
  conversation: Conversation;
  connection: Connection;
  /** The run a person asked to stop and whose end has not come yet. */
  stopping: string | undefined;
}

/** How long a connection waits for unsent messages to be tried. */
const FLUSH_MS = 1500;

export class Chat {
  private view: View;
  private readonly listeners = new Set<() => void>();
  private readonly outbox: Outbox;
  private stream: SessionStream | undefined;
  private listing: Promise<void> | undefined;
  private failures = 0;
  private restart: ReturnType<typeof setTimeout> | undefined;

  constructor(session: string, storage: Storage) {
    const connection: Connection = { state: "connecting" };
    const conversation = emptyConversation(session);
    this.view = { phase: "starting", me: undefined, sessions: [], conversation, connection, stopping: undefined };
    const toOpen = (action: Action) => (message: Stored) => this.toSession(message.session, action);
    this.outbox = new Outbox(new OutboxStorage(storage), api.post, {
      sending: (message) => toOpen({ type: "sending", key: message.key })(message),
      waiting: (message) => toOpen({ type: "waiting", key: message.key })(message),
      refused: (message, error) => toOpen({ type: "refused", key: message.key, error })(message),
      acknowledged: (message, runId) => this.acknowledged(message, runId),
      loginNeeded: () => this.loginNeeded(),
    });
  }

  readonly subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  };

  readonly current = () => this.view;

  /** Asks who we are; opens the conversation, or the login screen. */
  async start(): Promise<void> {
    const answer = await api.me();
    if (answer.kind === "ok") {
      this.failures = 0;
      this.set({ me: answer.value, phase: "ready" });
      this.outbox.restore(Date.now());
      this.open(this.view.conversation.session);
      return;
    }
    if (answer.kind === "login") return this.set({ phase: "login" });
    const pause = pauseMs(this.failures, Math.random());
    this.failures += 1;
    this.set({ connection: { state: "waiting", until: Date.now() + pause } });
    this.restart = setTimeout(() => void this.start(), pause);
  }

  async login(pasted: string): Promise<ErrorBody | undefined> {
    const answer = await api.login(api.codeFrom(pasted));
    if (answer.kind !== "ok") return answer.error;
    await this.start();
    return undefined;
  }

  async logout(): Promise<void> {
    const answer = await api.logout();
    if (answer.kind === "ok" || answer.kind === "login") this.loginNeeded();
  }

  open(session: string): void {
    this.stream?.close();
    this.set({ conversation: reduce(this.view.conversation, { type: "open", session, unsent: this.outbox.unsent(session) }) });
    this.stream = new SessionStream(session, {
      beforeConnect: () => this.outbox.triedOnce(FLUSH_MS),
      connection: (connection) => this.connected(connection),
      event: (event) => this.onEvent(event),
      loginNeeded: () => this.loginNeeded(),
      unknownSession: () => {
        this.dispatch({ type: "snapshot", data: { session, messages: [], runs: [] } });
        this.set({ connection: { state: "connected" } });
      },
    });
    void this.list();
  }

  send(text: string): void {
    const message: Stored = { session: this.view.conversation.session, key: newKey(), text, at: Date.now() };
    this.dispatch({ type: "typed", message: { key: message.key, text, at: message.at, state: "sending" } });
    this.outbox.add(message);
  }

  /** Sends a refused message again, under its own key. */
  resend(key: string): void {
    this.dispatch({ type: "sending", key });
    this.outbox.retry(key);
  }

  discard(key: string): void {
    this.outbox.remove(key);
    this.dispatch({ type: "dropped", key });
  }

  async stop(runId: string): Promise<void> {
    this.set({ stopping: runId });
    const answer = await api.abort(runId);
    if (answer.kind !== "ok" && this.view.stopping === runId) this.set({ stopping: undefined });
  }

  /** The network or the page came back. */
  nudge(): void {
    if (this.view.phase === "starting" && this.restart !== undefined) {
      clearTimeout(this.restart);
      this.restart = undefined;
      void this.start();
    }
    if (this.view.phase !== "ready") return;
    this.stream?.nudge();
    this.outbox.flush();
    void this.list();
  }

  /** Another tab wrote to or removed from the storage. */
  onStorage(name: string | null, value: string | null): void {
    const entry = storedEntry(name, value);
    if (!entry || this.view.phase !== "ready") return;
    const { key, message } = entry;
    if (message) {
      this.toSession(message.session, { type: "typed", message: { key, text: message.text, at: message.at, state: "sending" } });
      this.outbox.adopt(message, Date.now());
    } else {
      this.outbox.remove(key);
      this.dispatch({ type: "dropped", key });
    }
  }

  /** Reads the conversation list anew; calls made meanwhile share the answer. */
  list(): Promise<void> {
    this.listing ??= api.sessions().then((answer) => {
      this.listing = undefined;
      if (answer.kind === "ok") this.set({ sessions: answer.value.sessions });
    });
    return this.listing;
  }

  private onEvent(event: Action): void {
    this.dispatch(event);
    if (event.type !== "delta") void this.list();
    if (this.view.conversation.gap) this.stream?.reconnect();
  }

  private connected(connection: Connection): void {
    if (connection.state === "connecting") this.dispatch({ type: "connecting" });
    // A pause that is over stays on show until the next try has an outcome: the notice must not flicker.
    const first = this.view.connection.state === "connected" || !this.view.conversation.ready;
    if (connection.state !== "connecting" || first) this.set({ connection });
    if (connection.state === "connected") this.outbox.flush();
  }

  private acknowledged(message: Stored, runId: string): void {
    this.toSession(message.session, { type: "acknowledged", key: message.key, runId });
    // A session that the gateway did not know until now has events from here on.
    this.stream?.connectNow();
    void this.list();
  }

  private loginNeeded(): void {
    this.stream?.close();
    this.stream = undefined;
    this.set({ phase: "login" });
  }

  private toSession(session: string, action: Action): void {
    if (session === this.view.conversation.session) this.dispatch(action);
  }

  private dispatch(action: Action): void {
    const before = this.view.conversation;
    const conversation = reduce(before, action);
    if (conversation === before) return;
    const kept = new Set(conversation.unsent.map(({ key }) => key));
    const { stopping } = this.view;
    const stops = conversation.runs.some((run) => run.runId === stopping && run.state === "running");
    this.set({ conversation, stopping: stops ? stopping : undefined });
    // What the gateway was seen to hold needs no copy here.
    if (conversation.session === before.session) {
      for (const { key } of before.unsent) if (!kept.has(key)) this.outbox.remove(key);
    }
  }

  private set(change: Partial<View>): void {
    this.view = { ...this.view, ...change };
    for (const listener of this.listeners) listener();
  }
}

/** A random key; `randomUUID` exists on secure origins only, and a gateway in the home network has none. */
export function newKey(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The name of a conversation that does not exist yet. */
export function newSession(now: number): string {
  return `chat-${now.toString(36)}-${newKey().slice(0, 4)}`;
}
