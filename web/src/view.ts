/**
 * The rows a reader sees, computed from a conversation: who spoke, in which order, and how each own message fares.
 * Pure; it owns the order of lines, failed runs, waiting runs and unsent messages on the screen.
 */
import { type Conversation, isOver, type Run, type Unsent } from "./state";
import type { ErrorBody, Line, Summary } from "./wire";

export type Status =
  | "sending"
  | "waiting"
  | "refused"
  | "queued"
  | "running"
  | "answered"
  | "failed"
  | "stopped"
  | "interrupted";

export interface UserRow {
  speaker: "user";
  id: string;
  text: string;
  at: number;
  status: Status;
  error?: ErrorBody;
  /** Present while the message is ours to send again under the same key. */
  unsentKey?: string;
  /** True when asking again makes sense: it ended without an answer and was not repeated since. */
  retry: boolean;
}

export interface AgentRow {
  speaker: "agent";
  id: string;
  runId: string;
  text: string;
  at: number;
  phase: "thinking" | "streaming" | "final";
}

/** Nobody's words: the conversation was summed up here. */
export interface NoteRow {
  speaker: "note";
  id: string;
  at: number;
}

export type Row = UserRow | AgentRow | NoteRow;

const TIME_ORDERED = /^[0-9a-f]{8}-[0-9a-f]{4}-7/i;

/** Whether `a` was accepted after `b`: run ids carry their time; ids that do not are compared by their clock. */
function isLater(a: { runId: string; at: number }, b: { runId: string; at: number }): boolean {
  if (TIME_ORDERED.test(a.runId) && TIME_ORDERED.test(b.runId)) return a.runId > b.runId;
  return a.at > b.at;
}

export function rows(conversation: Conversation): Row[] {
  const { lines, summaries, runs, unsent } = conversation;
  const byId = new Map(runs.map((run) => [run.runId, run]));
  const asked = new Set(lines.filter(({ role }) => role === "user").map(({ runId }) => runId));
  const answered = new Set(lines.filter(({ role }) => role === "assistant").map(({ runId }) => runId));

  const over = runs.filter((run) => isOver(run));
  const active = runs.filter((run) => !isOver(run)).sort(byTurn);
  const out: Row[] = [];
  // A run that ended without an answer belongs before the first line of a run accepted after it.
  for (const [index, line] of lines.entries()) {
    const previous = lines[index - 1];
    out.push(...notes(summaries, previous?.seq ?? 0, line.seq));
    if (previous?.runId !== line.runId) {
      for (const run of take(over, (candidate) => isLater(line, candidate) && !asked.has(candidate.runId))) {
        out.push(...runRows(run, asked, answered));
      }
    }
    out.push(lineRow(line, byId.get(line.runId), answered));
    const isLastOfRun = lines[index + 1]?.runId !== line.runId;
    if (isLastOfRun) {
      for (const run of take(over, ({ runId }) => runId === line.runId)) out.push(...runRows(run, asked, answered));
    }
  }
  out.push(...notes(summaries, lines.at(-1)?.seq ?? 0, Number.POSITIVE_INFINITY));
  for (const run of [...over, ...active]) out.push(...runRows(run, asked, answered));
  out.push(...unsent.map(unsentRow));
  return withRetry(out);
}

/** The notes between two lines of the log. */
function notes(summaries: Summary[], after: number, before: number): NoteRow[] {
  const between = summaries.filter(({ seq }) => seq > after && seq < before);
  return between.map(({ seq, at }) => ({ speaker: "note", id: `s${seq}`, at }));
}

/** Removes and returns what matches. */
function take(runs: Run[], matches: (run: Run) => boolean): Run[] {
  const taken = runs.filter(matches);
  for (const run of taken) runs.splice(runs.indexOf(run), 1);
  return taken;
}

function byTurn(a: Run, b: Run): number {
  if (a.state !== b.state) return a.state === "running" ? -1 : 1;
  if (a.runId === b.runId) return 0;
  return isLater(a, b) ? 1 : -1;
}

function lineRow(line: Line, run: Run | undefined, answered: Set<string>): Row {
  if (line.role === "assistant") {
    return { speaker: "agent", id: `l${line.seq}`, runId: line.runId, text: line.text, at: line.at, phase: "final" };
  }
  const status = run ? runStatus(run) : answered.has(line.runId) ? "answered" : "interrupted";
  const row: UserRow = { speaker: "user", id: `l${line.seq}`, text: line.text, at: line.at, status, retry: false };
  return run?.error ? { ...row, error: run.error } : row;
}

/** What of a run is not in the log: the question, unless its line is there, and the answer as far as it came. */
function runRows(run: Run, asked: Set<string>, answered: Set<string>): Row[] {
  const out: Row[] = [];
  const { runId, text, at } = run;
  if (!asked.has(runId)) {
    const row: UserRow = { speaker: "user", id: `u${runId}`, text, at, status: runStatus(run), retry: false };
    out.push(run.error ? { ...row, error: run.error } : row);
  }
  const said = run.partial?.text ?? "";
  if (isOver(run)) {
    if (said !== "" && !answered.has(runId)) {
      out.push({ speaker: "agent", id: `a${runId}`, runId, text: said, at, phase: "final" });
    }
  } else if (run.state === "running") {
    const phase = said === "" ? "thinking" : "streaming";
    out.push({ speaker: "agent", id: `a${runId}`, runId, text: said, at, phase });
  }
  return out;
}

function unsentRow(message: Unsent): UserRow {
  const { key, text, at, state } = message;
  const row: UserRow = { speaker: "user", id: `k${key}`, text, at, status: state, unsentKey: key, retry: false };
  return message.error ? { ...row, error: message.error } : row;
}

function runStatus(run: Run): Status {
  switch (run.state) {
    case "completed":
      return "answered";
    case "aborted":
      return "stopped";
    default:
      return run.state;
  }
}

function withRetry(out: Row[]): Row[] {
  const later = new Set<string>();
  for (const row of out.toReversed()) {
    if (row.speaker !== "user") continue;
    const ended = row.status === "failed" || row.status === "interrupted" || row.status === "stopped";
    row.retry = row.status === "refused" || (ended && !later.has(row.text));
    later.add(row.text);
  }
  return out;
}

/** The run that can be stopped, if any. */
export function runningRun(conversation: Conversation): Run | undefined {
  return conversation.runs.find((run) => run.state === "running");
}
