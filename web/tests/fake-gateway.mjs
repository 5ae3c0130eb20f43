/**
 * A stand-in for the gateway that speaks its API from memory, for `npm run dev` and for the screenshots. It serves
 * `dist/` under the same policy the gateway sends. Nothing here proves anything: the tests in tests/browser use the
 * real program.
 */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const DIST = fileURLToPath(new URL("../dist", import.meta.url));
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
const ANSWER = `Here is a short plan.

1. **Check the gate**: run \`tidegate status\` and read the first line.
2. Look at the *queue*; nothing should wait longer than a minute.
   - the inbox
   - the outbox
3. If something is stuck, ask for its story:

\`\`\`sh
tidegate runs show 0190c3 --events
# what was accepted, tried, and sent
\`\`\`

> Nothing that was acknowledged is lost.

More at https://example.org/tides.`;

/** `delayMs` is the pause between two pieces of an answer. */
export function fakeGateway({ delayMs = 30, sessions = {}, loggedIn = true } = {}) {
  const state = { sessions: new Map(Object.entries(sessions)), streams: new Set(), loggedIn, delayMs, keys: new Map() };
  const server = createServer((request, response) => {
    route(state, request, response).catch((error) => {
      console.error(error);
      response.destroy();
    });
  });
  return { server, state, send: (name, event, data) => tell(state, name, event, data) };
}

function session(state, name) {
  const found = state.sessions.get(name) ?? { title: "", messages: [], runs: [], updatedAt: Date.now() };
  state.sessions.set(name, found);
  return found;
}

async function route(state, request, response) {
  const url = new URL(request.url, "http://localhost");
  const [, version, kind, name, verb] = url.pathname.split("/").slice(1).map(decodeURIComponent);
  if (url.pathname === "/login") {
    state.loggedIn = true;
    response.writeHead(303, { location: "/" }).end();
    return;
  }
  if (!url.pathname.startsWith("/api/")) return file(url.pathname, response);
  if (kind === "login") {
    const { code } = await body(request);
    if (code !== "good") return json(response, 401, { error: { code: "LOGIN_CODE_INVALID", message: "no such code" } });
    state.loggedIn = true;
    return json(response, 204);
  }
  if (version !== "v1" || !state.loggedIn) return json(response, 401, { error: { code: "LOGIN", message: "log in" } });
  if (kind === "logout") {
    state.loggedIn = false;
    return json(response, 204);
  }
  if (kind === "me") return json(response, 200, { name: "harbour", version: "0.1.0", agent: "Marina" });
  if (kind === "runs") return abort(state, name, response);
  if (!name) return list(state, response);
  if (verb === "messages") return post(state, name, await body(request), response);
  return events(state, name, response);
}

function list(state, response) {
  const sessions = [...state.sessions].map(([name, { title, updatedAt, runs }]) => ({
    name,
    title,
    updatedAt,
    running: runs.some((run) => run.state === "running"),
  }));
  json(response, 200, { sessions: sessions.sort((a, b) => b.updatedAt - a.updatedAt) });
}

function post(state, name, { text, key }, response) {
  if (text.length > 2000) {
    return json(response, 413, { error: { code: "TOO_LONG", message: "the message is longer than 2,000 characters" } });
  }
  const known = state.keys.get(key);
  if (known) return json(response, 200, { runId: known });
  const owner = session(state, name);
  const run = { runId: newId(), state: "queued", text, key, at: Date.now(), attempt: 1, partial: null };
  state.keys.set(key, run.runId);
  owner.runs.push(run);
  owner.title ||= text.slice(0, 40);
  owner.updatedAt = Date.now();
  tell(state, name, "run", { ...run, partial: undefined });
  json(response, 202, { runId: run.runId });
  work(state, name);
}

async function work(state, name) {
  const owner = session(state, name);
  if (owner.working) return;
  owner.working = true;
  for (let run; (run = owner.runs.find(({ state: stands }) => stands === "queued")); ) {
    run.state = "running";
    tell(state, name, "run", { ...run, partial: undefined });
    for (const [index, text] of (ANSWER.match(/\S+\s*/g) ?? []).entries()) {
      await new Promise((resolve) => setTimeout(resolve, state.delayMs));
      if (run.state !== "running") break;
      run.partial = { text: (run.partial?.text ?? "") + text, seq: index + 1 };
      tell(state, name, "delta", { runId: run.runId, attempt: 1, seq: index + 1, text });
    }
    if (run.state === "running") finish(state, name, run);
  }
  owner.working = false;
}

function finish(state, name, run) {
  const owner = session(state, name);
  const next = (owner.messages.at(-1)?.seq ?? 0) + 1;
  const messages = [
    { seq: next, role: "user", text: run.text, at: run.at, runId: run.runId },
    { seq: next + 1, role: "assistant", text: run.partial?.text ?? "", at: Date.now(), runId: run.runId },
  ];
  owner.messages.push(...messages);
  owner.runs = owner.runs.filter((other) => other !== run);
  run.state = "completed";
  tell(state, name, "run", { ...run, partial: undefined });
  tell(state, name, "done", { runId: run.runId, messages });
}

function abort(state, runId, response) {
  for (const [name, { runs }] of state.sessions) {
    for (const run of runs.filter((candidate) => candidate.runId === runId)) {
      run.state = "aborted";
      tell(state, name, "run", { ...run, partial: undefined });
    }
  }
  json(response, 204);
}

function events(state, name, response) {
  const { messages, runs } = session(state, name);
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  const stream = { name, response };
  state.streams.add(stream);
  response.write(frame("snapshot", { session: name, messages, runs }));
  const ping = setInterval(() => response.write(frame("ping", {})), 15_000);
  response.on("close", () => {
    clearInterval(ping);
    state.streams.delete(stream);
  });
}

function tell(state, name, event, data) {
  for (const stream of state.streams) if (stream.name === name) stream.response.write(frame(event, data));
}

const frame = (event, data) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

/** Ids in the order of their making, as the gateway's are. */
function newId() {
  const time = Date.now().toString(16).padStart(12, "0");
  const rest = randomBytes(10).toString("hex");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${rest.slice(0, 3)}-8${rest.slice(3, 6)}-${rest.slice(6, 18)}`;
}

async function body(request) {
  let text = "";
  for await (const piece of request) text += piece;
  return JSON.parse(text);
}

function json(response, status, value) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(value === undefined ? undefined : JSON.stringify(value));
}

async function file(path, response) {
  const name = path === "/" ? "/index.html" : normalize(path);
  try {
    const bytes = await readFile(join(DIST, name));
    const type = TYPES[extname(name)] ?? "application/octet-stream";
    response.writeHead(200, { "content-type": type, "content-security-policy": "default-src 'self'" }).end(bytes);
  } catch {
    response.writeHead(404).end();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { server } = fakeGateway();
  server.listen(4310, "127.0.0.1", () => console.log("http://127.0.0.1:4310/"));
}
