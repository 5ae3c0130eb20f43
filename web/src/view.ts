/**
 * The rows a reader sees, computed from a conversation: who spoke, in which order, and how each own message fares.
 * Pure; it owns the order of lines, failed runs, waiting runs and unsent messages on the screen.
 */
import { type Asked, isPending, type Questions } from "./questions";
import { type Conversation, isOver, type Run, type Unsent } from "./state";
import type { Tool } from "./tools";
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
  /** `over`: the run ended without a word; what it did is all there is to show. */
  phase: "thinking" | "streaming" | "final" | "over";
  tools: ToolRow[];
  questions: Asked[];
}

/** `unknown`: the run went on or ended without telling what came of the call. */
export interface ToolRow extends Omit<Tool, "state"> {
  state: Tool["state"] | "asking" | "unknown";
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

export function rows(conversation: Conversation, questions: Questions = []): Row[] {
  return withRetry(withDeeds(spoken(conversation), conversation, questions));
}

/** What was said, and how it stands. */
function spoken(conversation: Conversation): Row[] {
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
  return out;
}

/** Puts what a run did, and what it asks, at its first words. One that did something and said nothing keeps its place. */
function withDeeds(out: Row[], { runs, tools }: Conversation, questions: Questions): Row[] {
  const shown = new Set<string>();
  return out.filter((row) => {
    if (row.speaker !== "agent") return true;
    if (!shown.has(row.runId)) {
      shown.add(row.runId);
      const run = runs.find(({ runId }) => runId === row.runId);
      row.questions = questions.filter(({ question }) => question.run === row.runId);
      row.tools = (tools[row.runId] ?? []).map((tool) => toolRow(tool, run, row.questions));
    }
    return row.phase !== "over" || row.tools.length + row.questions.length > 0;
  });
}

function toolRow(tool: Tool, run: Run | undefined, questions: Asked[]): ToolRow {
  if (tool.state !== "running") return tool;
  if (!run || isOver(run) || tool.attempt < run.attempt) return { ...tool, state: "unknown" };
  const waits = questions.some(({ question }) => isPending(question) && question.tool === tool.name);
  return waits ? { ...tool, state: "asking" } : tool;
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
    return agentRow(`l${line.seq}`, line, line.text, "final");
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
  const phase = !isOver(run) ? (said === "" ? "thinking" : "streaming") : said === "" ? "over" : "final";
  const hasWords = isOver(run) ? !answered.has(runId) : run.state === "running";
  if (hasWords) out.push(agentRow(`a${runId}`, run, said, phase));
  return out;
}

function agentRow(id: string, { runId, at }: { runId: string; at: number }, text: string, phase: AgentRow["phase"]): AgentRow {
  return { speaker: "agent", id, runId, text, at, phase, tools: [], questions: [] };
}

function unsentRow(message: Unsent): UserRow {
  const { key, text, at, state } = message;
  const row: UserRow = { speaker: "user", id: `k${key}`, text, at, status: state, unsentKey: key, retry: false };
  return message.error ? { ...row, error: message.error } : row;
}

function runStatus(run: Run): Status {
  switch (run.state) {
    // What joined another run is answered by that one.
    case "completed":
    case "joined":
      return "answered";
    case "aborted":
      return "stopped";
    case "queued":
    case "running":
    case "failed":
      return run.state;
    default:
      return "interrupted";
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

/**
 * Questions that belong to none of the rows: another conversation's, or of no conversation. Those that somebody else
 * answered need no eye here.
 */
export function elsewhere(shown: Row[], questions: Questions): Asked[] {
  const here = new Set(shown.flatMap((row) => (row.speaker === "agent" ? row.questions : [])));
  return questions.filter((asked) => !here.has(asked) && (isPending(asked.question) || asked.mine !== undefined));
}

/** The run that can be stopped, if any. */
export function runningRun(conversation: Conversation): Run | undefined {
  return conversation.runs.find((run) => run.state === "running");
}
