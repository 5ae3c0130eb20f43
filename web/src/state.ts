/**
 * What one conversation holds, and how every event changes it. It owns the rule that no line is lost or doubled:
 * log lines are known by `seq`, runs by `runId`, own unsent messages by `key`. A pure reducer: it never sends, stores
 * or reads the clock.
 */
import { type Tool, withNews } from "./tools";
import type { Delta, Done, ErrorBody, Line, RunEvent, RunRow, ServerEvent, Snapshot, Summary, ToolNews } from "./wire";

/** A message the gateway has not acknowledged yet. It may have arrived all the same: its key makes repeating safe. */
export interface Unsent {
  key: string;
  text: string;
  at: number;
  state: "sending" | "waiting" | "refused";
  error?: ErrorBody;
}

/**
 * A run as the page knows it. `proof` says by what: `stream` by the gateway's events, `answer` only by the answer to
 * our own message, `stale` by an answer from before the present subscription. A new snapshot that does not name a stale
 * one has it in the part of the log that is not shown.
 */
export interface Run extends RunRow {
  proof: "stream" | "answer" | "stale";
}

export interface Conversation {
  session: string;
  /** False until the first snapshot: an empty page and an unknown one must not look alike. */
  ready: boolean;
  lines: Line[];
  /** Where the log was summed up, by `seq` among the lines. */
  summaries: Summary[];
  runs: Run[];
  unsent: Unsent[];
  /** What each run used, by its id. */
  tools: Record<string, Tool[]>;
  /** Runs known to be answered and in the log: later words about them change nothing. */
  done: string[];
  /** Set when a delta is missing: only a new snapshot can mend it. */
  gap: boolean;
}

export type Action =
  | ServerEvent
  | { type: "open"; session: string; unsent: Unsent[] }
  | { type: "connecting" }
  | { type: "typed"; message: Unsent }
  | { type: "sending"; key: string }
  | { type: "waiting"; key: string }
  | { type: "refused"; key: string; error: ErrorBody }
  | { type: "acknowledged"; key: string; runId: string }
  | { type: "dropped"; key: string };

export function emptyConversation(session: string, unsent: Unsent[] = []): Conversation {
  return { session, ready: false, lines: [], summaries: [], runs: [], unsent, tools: {}, done: [], gap: false };
}

export function reduce(state: Conversation, action: Action): Conversation {
  switch (action.type) {
    case "open":
      return emptyConversation(action.session, action.unsent);
    case "connecting":
      return { ...state, gap: false, runs: state.runs.map(aged) };
    case "snapshot":
      return onSnapshot(state, action.data, action.after);
    case "run":
      return onRun(state, action.data);
    case "delta":
      return onDelta(state, action.data);
    case "tool":
      return onTool(state, action.data);
    case "done":
      return onDone(state, action.data);
    case "typed":
      return onTyped(state, action.message);
    case "sending":
      return withUnsent(state, action.key, ({ error: _, ...message }) => ({ ...message, state: "sending" }));
    case "waiting":
      return withUnsent(state, action.key, (message) => ({ ...message, state: "waiting" }));
    case "refused":
      return withUnsent(state, action.key, (message) => ({ ...message, state: "refused", error: action.error }));
    case "acknowledged":
      return onAcknowledged(state, action.key, action.runId);
    case "dropped":
      return { ...state, unsent: state.unsent.filter((message) => message.key !== action.key) };
  }
}

function aged(run: Run): Run {
  return run.proof === "answer" ? { ...run, proof: "stale" } : run;
}

/**
 * A snapshot replaces everything derived; one of the lines after `after` leaves those before. What was acknowledged while
 * it was on its way is not in it yet: kept.
 */
function onSnapshot(state: Conversation, snapshot: Snapshot, after = 0): Conversation {
  if (snapshot.session !== state.session) return state;
  const isKept = ({ seq }: { seq: number }) => seq <= after;
  const lines = bySeq(state.lines.filter(isKept), snapshot.messages);
  const summaries = bySeq(state.summaries.filter(isKept), snapshot.summaries ?? []);
  const runs: Run[] = [];
  for (const run of snapshot.runs) {
    if (!runs.some((known) => known.runId === run.runId)) runs.push({ ...run, proof: "stream" });
  }
  const named = new Set([...runs.map((run) => run.runId), ...lines.map((line) => line.runId)]);
  const late = state.runs.filter((run) => run.proof === "answer" && !named.has(run.runId));
  // The snapshot may be younger than the events behind it: those of an answered run change nothing any more.
  const answered = lines.filter(({ role, runId }) => role === "assistant" && !runs.some((run) => run.runId === runId));
  const done = [...new Set(answered.map(({ runId }) => runId))];
  const tools = Object.fromEntries(Object.entries(state.tools).filter(([runId]) => named.has(runId)));
  return arrived({ ...state, ready: true, lines, summaries, runs: [...runs, ...late], tools, done, gap: false });
}

function onRun(state: Conversation, event: RunEvent): Conversation {
  if (state.done.includes(event.runId)) return state;
  const known = state.runs.find((run) => run.runId === event.runId);
  if (!known) {
    const run: Run = { ...event, partial: null, proof: "stream" };
    return arrived({ ...state, runs: [...state.runs, run] });
  }
  if (event.attempt < known.attempt) return state;
  const { error: _, ...before } = known;
  const partial = event.attempt > known.attempt ? null : known.partial;
  return arrived(withRun(state, { ...before, ...event, partial, proof: "stream" }));
}

/** A higher attempt begins its text anew, a repeated delta is nothing new, and a missing one is a gap. */
function onDelta(state: Conversation, delta: Delta): Conversation {
  if (!state.ready || state.done.includes(delta.runId)) return state;
  const run = state.runs.find((known) => known.runId === delta.runId);
  if (!run) return { ...state, gap: true };
  if (isOver(run) || delta.attempt < run.attempt) return state;
  const before = delta.attempt === run.attempt ? run.partial : null;
  if (before !== null && delta.seq <= before.seq) return state;
  if (delta.seq > (before?.seq ?? 0) + 1) return { ...state, gap: true };
  const partial = { text: (before?.text ?? "") + delta.text, seq: delta.seq };
  return withRun(state, { ...run, attempt: delta.attempt, state: "running", partial });
}

/** Tools change nothing in the log: what is missed of them is not shown, and told again from a run's beginning. */
function onTool(state: Conversation, news: ToolNews): Conversation {
  if (!state.ready) return state;
  const before = state.tools[news.runId] ?? [];
  const after = withNews(before, news);
  return after === before ? state : { ...state, tools: { ...state.tools, [news.runId]: after } };
}

/** The committed lines take the place of the provisional bubble. A run that ended badly stays to say so. */
function onDone(state: Conversation, event: Done): Conversation {
  const lines = bySeq(state.lines, event.messages);
  const summaries = bySeq(state.summaries, event.summaries ?? []);
  const run = state.runs.find((known) => known.runId === event.runId);
  const endedBadly = run !== undefined && isOver(run) && run.state !== "completed";
  if (endedBadly) return arrived({ ...state, lines, summaries });
  // What joined it is among its lines.
  const runs = state.runs.filter((known) => known.runId !== event.runId && known.state !== "joined");
  const unsent = state.unsent.filter((message) => message.key !== run?.key);
  return arrived({ ...state, lines, summaries, runs, unsent, done: [...state.done, event.runId] });
}

function onTyped(state: Conversation, message: Unsent): Conversation {
  const known = state.unsent.some(({ key }) => key === message.key) || state.runs.some(({ key }) => key === message.key);
  return known ? state : { ...state, unsent: [...state.unsent, message] };
}

/** The answer to our message: from here on the gateway keeps the message, and its run stands in for it. */
function onAcknowledged(state: Conversation, key: string, runId: string): Conversation {
  const message = state.unsent.find((known) => known.key === key);
  const unsent = state.unsent.filter((known) => known.key !== key);
  const known =
    state.done.includes(runId) ||
    state.runs.some((run) => run.runId === runId) ||
    state.lines.some((line) => line.runId === runId);
  if (!message || known) return { ...state, unsent };
  const { text, at } = message;
  const run: Run = { runId, key, text, at, state: "queued", attempt: 0, partial: null, proof: "answer" };
  return { ...state, unsent, runs: [...state.runs, run] };
}

/** Own messages that the gateway is seen to hold are no longer unsent. */
function arrived(state: Conversation): Conversation {
  const keys = new Set<string | null | undefined>(state.runs.map(({ key }) => key));
  const unsent = state.unsent.filter((message) => !keys.has(message.key));
  return unsent.length === state.unsent.length ? state : { ...state, unsent };
}

/** Both together in the order of the log, each place of it once. */
function bySeq<T extends { seq: number }>(known: T[], more: T[]): T[] {
  const places = new Map([...known, ...more].map((entry) => [entry.seq, entry]));
  return [...places.values()].sort((a, b) => a.seq - b.seq);
}

function withRun(state: Conversation, run: Run): Conversation {
  return { ...state, runs: state.runs.map((known) => (known.runId === run.runId ? run : known)) };
}

function withUnsent(state: Conversation, key: string, change: (message: Unsent) => Unsent): Conversation {
  return { ...state, unsent: state.unsent.map((message) => (message.key === key ? change(message) : message)) };
}

export function isOver(run: { state: RunRow["state"] }): boolean {
  return run.state !== "queued" && run.state !== "running";
}
