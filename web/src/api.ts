/**
 * What goes over HTTP: logging in and out, and asking who we are. Everything else goes over the socket (gateway/).
 * Every outcome is a value; nothing is tried again here.
 */
import { type Answer, isOwnFault, unreachable } from "./gateway/answer";
import type { ErrorBody, Me } from "./wire";

const DEADLINE_MS = 20_000;

async function call<T>(method: string, path: string, body?: unknown): Promise<Answer<T>> {
  const init: RequestInit = { method, credentials: "same-origin", signal: AbortSignal.timeout(DEADLINE_MS) };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "content-type": "application/json" };
  }
  try {
    const response = await fetch(`/api/v1${path}`, init);
    if (!response.ok) return await refusal(response);
    const text = await response.text();
    return { kind: "ok", value: (text === "" ? undefined : JSON.parse(text)) as T };
  } catch (cause) {
    return unreachable(String(cause));
  }
}

/** Reads what a response that is not a success asks of us. */
export async function refusal(response: Response): Promise<Exclude<Answer<never>, { kind: "ok" }>> {
  const error = await errorBody(response);
  const { status } = response;
  if (status === 401) return { kind: "login", error };
  // A gateway that is away or busy is tried again; one that says what is wrong with the request is believed.
  if (status === 408 || status === 429 || status === 503 || (status >= 500 && isOwnFault(error))) {
    const seconds = Number(response.headers.get("retry-after"));
    return seconds > 0 ? { kind: "again", error, afterMs: seconds * 1000 } : { kind: "again", error };
  }
  return { kind: "final", error };
}

async function errorBody(response: Response): Promise<ErrorBody> {
  const unknown = { code: `HTTP_${response.status}`, message: response.statusText || `HTTP ${response.status}` };
  try {
    const { error } = (await response.json()) as { error?: ErrorBody };
    return typeof error?.message === "string" ? error : unknown;
  } catch {
    return unknown;
  }
}

export const me = () => call<Me>("GET", "/me");
export const login = (code: string) => call<void>("POST", "/login", { code });
export const logout = () => call<void>("POST", "/logout");

/** The code in what a person pasted: the whole link, or the code alone. */
export function codeFrom(pasted: string): string {
  const text = pasted.trim();
  try {
    return new URL(text).searchParams.get("code") ?? text;
  } catch {
    return text.replace(/^.*[?&]code=/, "").replace(/&.*$/, "");
  }
}
