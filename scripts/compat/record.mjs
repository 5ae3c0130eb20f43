/**
 * What the clients sent, and the shape of what they got, as fixtures that `make test` replays against a real gateway.
 * One file a client. Ids, tokens, keys and signatures are left out: whoever replays puts in its own.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { clientOf, exchanges } from "./proxy.mjs";

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
/** Their content is the operator's; that they are objects is all that clients can rely on. */
const OPAQUE = new Set(["config", "parsed", "sourceConfig", "resolved", "runtimeConfig", "schema", "arguments", "args", "channels", "details"]);
/** Not sent to a gateway that is shared with other tests, or answered only in the moment in which it was recorded. */
const LEFT_OUT = new Set(["connect", "exec.approval.resolve"]);

function kind(value) {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** What a value looks like: objects key by key, one shape for all items of a list, else the name of its type. */
export function shape(value, name) {
  switch (kind(value)) {
    case "array":
      return value.length ? [value.map((item) => shape(item)).reduce(merge)] : [];
    case "object":
      if (OPAQUE.has(name)) return "object";
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, shape(inner, key)]));
    default:
      return kind(value);
  }
}

/** The shape that both have: keys that are always there, types that each may be. */
function merge(one, other) {
  if (kind(one) === "string" && kind(other) === "string") {
    return [...new Set([...one.split("|"), ...other.split("|")])].sort().join("|");
  }
  if (kind(one) === "array" && kind(other) === "array") {
    if (!one.length || !other.length) return one.length ? one : other;
    return [merge(one[0], other[0])];
  }
  if (kind(one) === "object" && kind(other) === "object") {
    const both = Object.keys(one).filter((key) => key in other);
    return Object.fromEntries(both.map((key) => [key, merge(one[key], other[key])]));
  }
  return "any";
}

/** Parameters without what belongs to one run. */
function plain(value) {
  switch (kind(value)) {
    case "string":
      return ID.test(value) ? "$id" : value;
    case "array":
      return value.map(plain);
    case "object":
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
    default:
      return value;
  }
}

function connectOf(socket) {
  const { params } = socket.frames.find(({ frame }) => frame.method === "connect").frame;
  const kept = plain(params);
  if (kept.auth) kept.auth = Object.fromEntries(Object.keys(kept.auth).map((key) => [key, "$token"]));
  if (kept.device) kept.device = "$device";
  delete kept.client.instanceId;
  return kept;
}

/** Requests that differ in their method or in which parameters they have. */
function requests(asked) {
  const kept = new Map();
  for (const { method, params = {}, answers } of asked) {
    if (LEFT_OUT.has(method) || !answers.length || !answers.every((answer) => answer.ok)) continue;
    const name = `${method} ${Object.keys(params).sort().join(",")}`;
    const shapes = answers.map((answer) => shape(answer.payload));
    const known = kept.get(name);
    if (known) known.answers = known.answers.map((before, at) => (shapes[at] === undefined ? before : merge(before, shapes[at])));
    else kept.set(name, { method, params: plain(params), answers: shapes });
  }
  return [...kept.values()];
}

/** What an event is about, in one word. */
function eventName({ event, payload }) {
  const detail = { agent: () => [payload.stream, payload.data.phase], chat: () => [payload.state], "session.message": () => [payload.message.role], "sessions.changed": () => [payload.phase] };
  return [event, ...(detail[event]?.() ?? [])].filter(Boolean).join(":");
}

/** The order in which a message's answer and its events first came, and what the events look like. */
function story(socket) {
  const sent = socket.frames.findIndex(({ from, frame }) => from === "client" && frame.method === "chat.send");
  if (sent < 0) return {};
  const { id, params } = socket.frames[sent].frame;
  const [order, events] = [[], {}];
  for (const { frame } of socket.frames.slice(sent + 1)) {
    const name = frame.id === id ? "res" : frame.type === "event" && frame.payload?.runId === params.idempotencyKey ? eventName(frame) : undefined;
    if (!name) continue;
    if (!order.includes(name)) order.push(name);
    if (frame.type === "event") events[name] = name in events ? merge(events[name], shape(frame.payload)) : shape(frame.payload);
  }
  return { order, events };
}

export async function record(sockets, folder, version) {
  await mkdir(folder, { recursive: true });
  const clients = new Map();
  for (const socket of sockets) {
    const client = clientOf(socket);
    if (client !== "nobody") clients.set(client, [...(clients.get(client) ?? []), socket]);
  }
  for (const [client, own] of clients) {
    const scopes = [...new Set(own.flatMap((socket) => connectOf(socket).scopes ?? []))];
    const told = own.find((socket) => socket.frames.some(({ frame }) => frame.method === "chat.send"));
    const fixture = {
      recordedFrom: version,
      connect: { ...connectOf(own[0]), scopes },
      hello: own.flatMap(({ frames }) => frames.filter(({ frame }) => frame.payload?.type === "hello-ok").map(({ frame }) => shape(frame.payload))).reduce(merge),
      requests: requests(exchanges(own)),
      ...(told ? { send: story(told) } : {}),
    };
    await writeFile(join(folder, `${client}.json`), `${JSON.stringify(fixture, null, 1)}\n`);
  }
}
