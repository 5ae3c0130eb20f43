/**
 * What the gateway says, by the names the page uses. The shapes are generated from the gateway's own (gateway/methods.ts);
 * no behaviour lives here.
 */
import type { NativeEvents as Events, NativeMethods as Methods } from "./gateway/methods";

type EventName = Extract<keyof Events, `session.${string}`>;

export type Me = Methods["me.get"]["result"];
export type SessionRow = Methods["sessions.list"]["result"]["sessions"][number];
export type Question = Events["approval.asked"]["approval"];
export type Decision = Methods["approval.decide"]["params"];
export type Cursor = { sessionId: string; seq: number };

export type Snapshot = Events["session.snapshot"];
/** A line of the durable log. */
export type Line = Snapshot["messages"][number];
/** Here the agent's memory of what came before became a summary; readers still see all of it. */
export type Summary = { seq: number; at: number };
export type RunRow = Snapshot["runs"][number];
export type RunEvent = Events["session.run"];
/** More of a provisional answer: the first delta of an attempt is number 1. */
export type Delta = Events["session.delta"];
export type Done = Events["session.done"];
export type ToolNews = Events["session.tool"];

/** An error as the page shows it: the gateway's, or one of its own. */
export interface ErrorBody {
  code: string;
  message: string;
  hint?: string | null;
}

/**
 * Everything a subscription to a conversation says. `after`: a partial snapshot has only the lines after this one; those
 * before it stay.
 */
export type ServerEvent =
  | { type: "snapshot"; data: Snapshot; after?: number }
  | { type: "run"; data: RunEvent }
  | { type: "delta"; data: Delta }
  | { type: "tool"; data: ToolNews }
  | { type: "done"; data: Done };

/** The events of a subscription the page acts on; others are for other readers. */
export const TOLD: Partial<Record<EventName, ServerEvent["type"]>> = {
  "session.snapshot": "snapshot",
  "session.run": "run",
  "session.delta": "delta",
  "session.tool": "tool",
  "session.done": "done",
};
