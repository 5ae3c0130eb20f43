/**
 * The frames of the socket as texts: one request out, answers and events in. A text that is no frame is nothing: a
 * newer gateway may say what this page does not know.
 */
import type { Problem } from "./answer";

export interface EventFrame {
  type: "event";
  event: string;
  payload: unknown;
  /** The number among everything the gateway broadcasts. */
  seq?: number;
  /** The subscription it belongs to, and the number in it. */
  sub?: string;
  n?: number;
}

export type AnswerFrame =
  | { type: "res"; id: string; ok: true; payload: unknown }
  | { type: "res"; id: string; ok: false; error: Problem };

export type Frame = EventFrame | AnswerFrame;

export function request(id: string, method: string, params: unknown): string {
  return JSON.stringify({ type: "req", id, method, params });
}

export function parse(text: string): Frame | undefined {
  let frame: unknown;
  try {
    frame = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isRecord(frame)) return undefined;
  return frame["type"] === "event" ? event(frame) : frame["type"] === "res" ? answer(frame) : undefined;
}

function event(frame: Record<string, unknown>): EventFrame | undefined {
  const { event: name, payload, seq, sub, n } = frame;
  if (typeof name !== "string") return undefined;
  const out: EventFrame = { type: "event", event: name, payload };
  if (typeof seq === "number") out.seq = seq;
  if (typeof sub === "string") out.sub = sub;
  if (typeof n === "number") out.n = n;
  return out;
}

function answer(frame: Record<string, unknown>): AnswerFrame | undefined {
  const { id, ok, payload, error } = frame;
  if (typeof id !== "string") return undefined;
  if (ok === true) return { type: "res", id, ok, payload };
  if (!isRecord(error) || typeof error["code"] !== "string") return undefined;
  return { type: "res", id, ok: false, error: { message: "", ...error } as unknown as Problem };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
