/**
 * Short ways to write a conversation's events in tests, and to read what a reader would see.
 */
import { type Action, emptyConversation, reduce, type Conversation } from "../../src/state";
import type { Line, RunEvent, RunRow, Snapshot } from "../../src/wire";
import { rows } from "../../src/view";

/** Run ids that carry their order, as the gateway's do. */
export const id = (n: number) => `01890000-0000-7000-8000-00000000000${n}`;

export function line(seq: number, role: Line["role"], text: string, run: number): Line {
  return { seq, role, text, at: seq * 100, runId: id(run) };
}

export function run(n: number, state: RunRow["state"], more: { [K in keyof RunRow]?: RunRow[K] } = {}): RunRow {
  return { runId: id(n), state, text: `q${n}`, key: `k${n}`, at: n * 100, attempt: 1, partial: null, ...more };
}

export function runEvent(n: number, state: RunRow["state"], more: { [K in keyof RunEvent]?: RunEvent[K] } = {}): Action {
  const { partial: _, ...data } = run(n, state);
  return { type: "run", data: { ...data, ...more } };
}

export function snapshot(messages: Line[] = [], runs: RunRow[] = []): Action {
  const data: Snapshot = { session: "main", messages, runs };
  return { type: "snapshot", data };
}

export const delta = (n: number, attempt: number, seq: number, text: string): Action => ({
  type: "delta",
  data: { runId: id(n), attempt, seq, text },
});

export const done = (n: number, ...messages: Line[]): Action => ({ type: "done", data: { runId: id(n), sessionId: "log-1", messages } });

export const typed = (n: number): Action => ({
  type: "typed",
  message: { key: `k${n}`, text: `q${n}`, at: n * 100, state: "sending" },
});

export const acknowledged = (n: number): Action => ({ type: "acknowledged", key: `k${n}`, runId: id(n) });

export const connecting: Action = { type: "connecting" };

export function play(...actions: Action[]): Conversation {
  return actions.reduce(reduce, emptyConversation("main"));
}

/** Each row as `speaker(state): text`. */
export function seen(conversation: Conversation): string[] {
  return rows(conversation).map((row) => {
    switch (row.speaker) {
      case "user":
        return `user(${row.status}): ${row.text}`;
      case "agent":
        return `agent(${row.phase}): ${row.text}`;
      case "note":
        return "note";
    }
  });
}
