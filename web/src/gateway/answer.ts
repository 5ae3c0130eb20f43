/**
 * What an answer of the gateway means for whoever asked: it worked, log in, try again, or give up. It never retries by
 * itself.
 */
import type { ErrorBody } from "../wire";

/** `again`: nothing was decided, the same call may be repeated. `final`: repeating it gives the same answer. */
export type Answer<T> =
  | { kind: "ok"; value: T }
  | { kind: "login"; error: ErrorBody }
  | { kind: "again"; error: ErrorBody; afterMs?: number }
  | { kind: "final"; error: ErrorBody };

/** An error as the socket carries it. */
export interface Problem extends ErrorBody {
  retryable?: boolean;
  retryAfterMs?: number;
}

export function refused(problem: Problem): Exclude<Answer<never>, { kind: "ok" }> {
  const { retryable, retryAfterMs, ...error } = problem;
  if (error.code === "UNAUTHORIZED") return { kind: "login", error };
  // A gateway that is busy or broke down is asked again; one that says what is wrong with the request is believed.
  if (retryable === true || isOwnFault(error)) {
    return retryAfterMs === undefined ? { kind: "again", error } : { kind: "again", error, afterMs: retryAfterMs };
  }
  return { kind: "final", error };
}

export function unreachable(message: string): Answer<never> {
  return { kind: "again", error: { code: "UNREACHABLE", message } };
}

/** Whether the gateway, or what stands before it, failed without having decided anything. */
export function isOwnFault({ code }: ErrorBody): boolean {
  return code.startsWith("HTTP_5") || code === "INTERNAL" || code.startsWith("STORAGE_");
}
