/**
 * Names the page makes up: the key of a message, and the conversation that does not exist yet.
 */

/** A random key; `randomUUID` exists on secure origins only, and a gateway in the home network has none. */
export function newKey(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function newSession(now: number): string {
  return `chat-${now.toString(36)}-${newKey().slice(0, 4)}`;
}
