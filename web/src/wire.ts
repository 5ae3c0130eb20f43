/**
 * The shapes the gateway speaks at `/api/v1`, as the page reads them. No behaviour lives here.
 */

export type RunState = "queued" | "running" | "completed" | "failed" | "aborted" | "interrupted";

export interface ErrorBody {
  code: string;
  message: string;
  hint?: string;
}

/** Who answers here: `GET /api/v1/me`. */
export interface Me {
  name: string;
  version: string;
  agent: string;
}

/** One row of the conversation list: `GET /api/v1/sessions`. */
export interface SessionRow {
  name: string;
  title: string;
  updatedAt: number;
  running: boolean;
}

/** A line of the durable log. `key` is the idempotency key of the message that began the run, where known. */
export interface Line {
  seq: number;
  role: "user" | "assistant";
  text: string;
  at: number;
  runId: string;
  key?: string;
}

/** Here the agent's memory of what came before became a summary; readers still see all of it. */
export interface Summary {
  seq: number;
  at: number;
}

/** What a run has said so far; `seq` is the number of the last delta in it, and the first delta is number 1. */
export interface Partial {
  text: string;
  seq: number;
}

/** A change of a run's state. `text` is what the person wrote. */
export interface RunEvent {
  runId: string;
  state: RunState;
  text: string;
  key?: string;
  at: number;
  attempt: number;
  error?: ErrorBody;
}

export interface RunRow extends RunEvent {
  partial: Partial | null;
}

export interface Snapshot {
  session: string;
  messages: Line[];
  /** Absent when there are none. */
  summaries?: Summary[];
  runs: RunRow[];
}

export interface Delta {
  runId: string;
  attempt: number;
  seq: number;
  text: string;
}

export interface Done {
  runId: string;
  messages: Line[];
  summaries?: Summary[];
}

/** Everything the event stream of a session says, by the name of the event. */
export type ServerEvent =
  | { type: "snapshot"; data: Snapshot }
  | { type: "run"; data: RunEvent }
  | { type: "delta"; data: Delta }
  | { type: "done"; data: Done };
