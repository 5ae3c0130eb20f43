/**
 * The page's one store: who is logged in, the conversation list, the open conversation, what waits for an answer, the
 * connection. It wires the gateway's client and the outbox to the reducers; components read it and call its verbs. It
 * never touches the document.
 */
import * as api from "./api";
import { Client } from "./gateway/client";
import type { Follow } from "./gateway/follow";
import type { Connection, World } from "./gateway/link";
import { newKey } from "./names";
import { Outbox, OutboxStorage, type Storage, type Stored, storedEntry } from "./outbox";
import * as questions from "./questions";
import { type Action, type Conversation, emptyConversation, reduce } from "./state";
import type { Decision, ErrorBody, Me, SessionRow } from "./wire";

export interface View {
  phase: "starting" | "login" | "ready";
  me: Me | undefined;
  sessions: SessionRow[];
  conversation: Conversation;
  questions: questions.Questions;
  connection: Connection;
  /** The run a person asked to stop and whose end has not come yet. */
  stopping: string | undefined;
  /** Why the open conversation cannot be shown. */
  problem: ErrorBody | undefined;
}

/** How long a subscription waits for unsent messages to be tried. */
const FLUSH_MS = 1500;
/** Conversations in the list, and how long it stays as it is however much happens. */
const LISTED = 200;
const LIST_PAUSE_MS = 500;

export class Chat {
  private view: View;
  private readonly listeners = new Set<() => void>();
  private readonly outbox: Outbox;
  private readonly client: Client;
  private follow: Follow | undefined;
  private listing: "idle" | "reading" | "again" = "idle";

  constructor(session: string, storage: Storage, world: World) {
    this.view = {
      phase: "starting",
      me: undefined,
      sessions: [],
      conversation: emptyConversation(session),
      questions: [],
      connection: { state: "connecting" },
      stopping: undefined,
      problem: undefined,
    };
    this.client = new Client(world, {
      connection: (connection) => this.connected(connection),
      hello: ({ me }) => this.entered(me),
      readAgain: () => this.readAgain(),
      loginNeeded: () => this.loginNeeded(),
    });
    this.client.on("sessions.changed", () => void this.list());
    this.client.on("approval.asked", ({ approval }) => this.set({ questions: questions.told(this.view.questions, approval) }));
    this.client.on("approval.settled", ({ approval }) => this.set({ questions: questions.told(this.view.questions, approval) }));
    this.outbox = this.newOutbox(storage);
  }

  private newOutbox(storage: Storage): Outbox {
    const post = (session: string, text: string, key: string) => this.client.call("message.send", { session, text, key });
    return new Outbox(new OutboxStorage(storage), post, {
      sending: ({ session, key }) => this.toSession(session, { type: "sending", key }),
      waiting: ({ session, key }) => this.toSession(session, { type: "waiting", key }),
      refused: ({ session, key }, error) => this.toSession(session, { type: "refused", key, error }),
      acknowledged: ({ session, key }, runId) => this.toSession(session, { type: "acknowledged", key, runId }),
      loginNeeded: () => undefined,
    });
  }

  readonly subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  };

  readonly current = () => this.view;

  /** Asks who we are, so that a stranger sees the login screen and no failing socket; then connects. */
  async start(): Promise<void> {
    const answer = await api.me();
    if (answer.kind === "login") return this.set({ phase: "login" });
    if (answer.kind === "ok") this.set({ me: answer.value });
    return this.client.start();
  }

  async login(pasted: string): Promise<ErrorBody | undefined> {
    const answer = await api.login(api.codeFrom(pasted));
    if (answer.kind !== "ok") return answer.error;
    await this.start();
    return undefined;
  }

  async logout(): Promise<void> {
    const answer = await api.logout();
    if (answer.kind !== "ok" && answer.kind !== "login") return;
    this.client.stop();
    this.loginNeeded();
  }

  open(session: string): void {
    this.follow?.close();
    const conversation = reduce(this.view.conversation, { type: "open", session, unsent: this.outbox.unsent(session) });
    this.set({ conversation, problem: undefined, questions: questions.seen(this.view.questions) });
    this.follow = this.client.follow(session, {
      before: () => this.outbox.triedOnce(FLUSH_MS),
      asking: () => this.dispatch({ type: "connecting" }),
      event: (event) => {
        this.dispatch(event);
        if (event.type === "snapshot") this.set({ problem: undefined });
        if (this.view.conversation.gap) this.follow?.again();
      },
      refused: (problem) => this.set({ problem }),
    });
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
    const answer = await this.client.call("run.abort", { runId });
    if (answer.kind !== "ok" && this.view.stopping === runId) this.set({ stopping: undefined });
  }

  /** Answers a question. Of two answers the first counts; the gateway says which that was. */
  async decide(decision: Decision): Promise<void> {
    const { id } = decision;
    this.set({ questions: questions.answering(this.view.questions, id, decision.decision) });
    const answer = await this.client.call("approval.decide", decision);
    const known = this.view.questions;
    if (answer.kind === "again") return this.set({ questions: questions.lost(known, id, answer.error) });
    if (answer.kind !== "ok") return this.set({ questions: questions.refused(known, id, answer.error) });
    const { won, approval } = answer.value;
    return this.set({ questions: won ? questions.told(known, approval) : questions.overtaken(known, approval) });
  }

  dismiss(id: string): void {
    this.set({ questions: questions.dismissed(this.view.questions, id) });
  }

  /** The network or the page came back. */
  nudge(): void {
    this.client.nudge();
  }

  /** Tries again to show a conversation that could not be shown. */
  openAgain(): void {
    this.set({ problem: undefined });
    this.follow?.again();
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

  private entered(me: Me): void {
    const { phase } = this.view;
    this.set({ me, phase: "ready" });
    if (phase !== "ready") {
      this.outbox.restore(Date.now());
      this.open(this.view.conversation.session);
    }
    this.outbox.flush();
  }

  private readAgain(): void {
    void this.list();
    void this.ask();
  }

  /** Reads the conversation list anew. What changes meanwhile is read once more, after a moment. */
  private async list(): Promise<void> {
    if (this.listing !== "idle") {
      this.listing = "again";
      return;
    }
    this.listing = "reading";
    const answer = await this.client.call("sessions.list", { limit: LISTED });
    if (answer.kind === "ok") this.set({ sessions: answer.value.sessions });
    setTimeout(() => this.listed(), LIST_PAUSE_MS);
  }

  private listed(): void {
    const again = this.listing === "again";
    this.listing = "idle";
    if (again) void this.list();
  }

  private async ask(): Promise<void> {
    const answer = await this.client.call("approval.list", {});
    if (answer.kind === "ok") this.set({ questions: questions.listed(this.view.questions, answer.value.approvals) });
  }

  private connected(connection: Connection): void {
    // A pause that is over stays on show until the next try has an outcome: the notice must not flicker.
    const first = this.view.connection.state === "connected" || this.view.phase === "login";
    if (connection.state !== "connecting" || first) this.set({ connection });
  }

  private loginNeeded(): void {
    this.follow?.close();
    this.follow = undefined;
    this.set({ phase: "login", questions: [], sessions: [] });
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
