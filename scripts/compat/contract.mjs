/**
 * The protocol's own schema (npm `@openclaw/gateway-protocol`) against what the gateway sent: every frame, and the results
 * and events that the schema describes.
 */
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import Ajv from "ajv";

const SCHEMA = join(dirname(fileURLToPath(import.meta.url)), "node_modules/@openclaw/gateway-protocol/protocol.schema.json");

/** Where the schema's name is not the method's. */
const RESULTS = {
  connect: "HelloOk",
  "agent.identity.get": "AgentIdentityResult",
  "board.get": "BoardSnapshot",
  "sessions.viewers.set": "SessionsViewerPresenceSetResult",
  "sessions.github.options": "SessionGitHubOptionsResult",
};
const EVENTS = { agent: "AgentEvent", chat: "ChatEvent", tick: "TickEvent", shutdown: "ShutdownEvent" };

/** What OpenClaw's own gateway sends beyond its schema, and its clients need. */
const BEYOND = { agent: ["sessionKey", "agentId"] };

const inPascal = (method) => method.split(/[.-]/).map((word) => word[0].toUpperCase() + word.slice(1)).join("");

/**
 * Checks all frames of the gateway. Answers how many were checked and how many keep to the schema, and for each kind that does
 * not, what is wrong.
 */
export async function check(sockets) {
  const schema = JSON.parse(await readFile(SCHEMA, "utf8"));
  delete schema.discriminator;
  const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false });
  ajv.addSchema(schema, "protocol");
  const validators = new Map();
  const validator = (name) => {
    if (!(name in schema.definitions)) return undefined;
    if (!validators.has(name)) validators.set(name, ajv.compile({ $ref: `protocol#/definitions/${name}` }));
    return validators.get(name);
  };
  const told = { checked: 0, valid: 0, undescribed: new Set(), problems: new Map() };
  const look = (kind, name, value) => {
    const valid = validator(name);
    if (!valid) return told.undescribed.add(kind);
    told.checked += 1;
    if (valid(value)) return (told.valid += 1);
    const lines = valid.errors.map((error) => `${error.instancePath} ${error.message} ${JSON.stringify(error.params)}`);
    told.problems.set(kind, new Set([...(told.problems.get(kind) ?? []), ...lines]));
  };
  for (const socket of sockets) {
    const asked = new Map();
    for (const { from, frame } of socket.frames) {
      if (from === "client") {
        asked.set(frame.id, frame.method);
        continue;
      }
      look(`frame ${frame.type}`, frame.type === "res" ? "ResponseFrame" : "EventFrame", frame);
      if (frame.type === "event") {
        const beyond = BEYOND[frame.event] ?? [];
        const payload = Object.fromEntries(Object.entries(frame.payload).filter(([key]) => !beyond.includes(key)));
        look(`event ${frame.event}`, EVENTS[frame.event] ?? `${inPascal(frame.event)}Event`, payload);
      } else if (frame.ok) {
        const method = asked.get(frame.id);
        look(method, RESULTS[method] ?? `${inPascal(method)}Result`, frame.payload);
      }
    }
  }
  return told;
}
