/**
 * A stand-in for the gateway that speaks its socket from memory, for `npm run dev` and for the screenshots. It serves
 * `dist/` under the same policy the gateway sends. Nothing here proves anything: the tests in tests/browser use the
 * real program.
 */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { FakeSocket } from "./fake-socket.mjs";

const DIST = fileURLToPath(new URL("../dist", import.meta.url));
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
const ME = { name: "harbour", version: "0.1.0", agent: "Marina" };
const TICK_MS = 15_000;
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
  const state = { sessions: new Map(Object.entries(sessions)), sockets: new Set(), approvals: [], keys: new Map() };
  Object.assign(state, { loggedIn, delayMs, seq: 0, away: false, isSilent: false });
  const server = createServer((request, response) => {
    route(state, request, response).catch((error) => {
      console.error(error);
      response.destroy();
    });
  });
  server.on("upgrade", (request, socket) => {
    if (!state.loggedIn || state.away) return socket.destroy();
    // The upgrade is never answered: the page goes on looking for its gateway.
    if (state.isSilent) return undefined;
    return welcome(state, new FakeSocket(request, socket));
  });
  return { server, state, tell: (name, event, data) => tell(state, name, event, data), broadcast: (...what) => broadcast(state, ...what) };
}

function session(state, name) {
  const found = state.sessions.get(name) ?? { title: "", messages: [], runs: [], updatedAt: Date.now() };
  state.sessions.set(name, found);
  return found;
}

async function route(state, request, response) {
  const { pathname } = new URL(request.url, "http://localhost");
  if (state.away) return response.destroy();
  if (pathname === "/login" || pathname === "/api/v1/login") {
    const { code } = pathname === "/login" ? { code: "good" } : await body(request);
    if (code !== "good") return json(response, 401, { error: { code: "LOGIN_CODE_INVALID", message: "no such code" } });
    state.loggedIn = true;
    return pathname === "/login" ? response.writeHead(303, { location: "/" }).end() : json(response, 204);
  }
  if (!pathname.startsWith("/api/")) return file(pathname, response);
  if (!state.loggedIn) return json(response, 401, { error: { code: "UNAUTHORIZED", message: "log in" } });
  if (pathname === "/api/v1/logout") state.loggedIn = false;
  return pathname === "/api/v1/me" ? json(response, 200, ME) : json(response, 204);
}

function welcome(state, socket) {
  const connection = { socket, subs: new Map() };
  state.sockets.add(connection);
  const policy = { tickMs: TICK_MS, maxFrameBytes: 512 * 1024, maxQueuedBytes: 1536 * 1024, maxRequests: 64 };
  const server = { name: "fake", version: ME.version, bootId: "boot", connId: newId() };
  emit(connection, "hello", { protocol: 1, server, seq: state.seq, me: ME, policy, methods: Object.keys(methods), events: [] });
  const ticking = setInterval(() => emit(connection, "tick", { at: Date.now() }), TICK_MS);
  socket.on("text", (text) => answer(state, connection, JSON.parse(text)));
  socket.on("close", () => {
    clearInterval(ticking);
    state.sockets.delete(connection);
  });
}

function answer(state, connection, { id, method, params }) {
  const reply = (outcome) => connection.socket.send(JSON.stringify({ type: "res", id, ...outcome }));
  const later = [];
  try {
    const known = methods[method] ?? refuse("NOT_FOUND", `there is no method ${method}`);
    reply({ ok: true, payload: known(state, params, { connection, afterwards: (act) => later.push(act) }) });
    for (const act of later) act();
  } catch ({ code, message, ...rest }) {
    reply({ ok: false, error: { code, message, ...rest } });
  }
}

function refuse(code, message) {
  throw Object.assign(new Error(message), { code });
}

const methods = {
  "sessions.list": (state) => ({
    sessions: [...state.sessions]
      .map(([name, { title, updatedAt, runs }]) => ({ name, title, updatedAt, running: runs.some(isUnderWay) }))
      .sort((a, b) => b.updatedAt - a.updatedAt),
  }),
  "session.subscribe": (state, { session: name }, { connection, afterwards }) => {
    if (name === "refused") refuse("FORBIDDEN", "this conversation belongs to another agent");
    const { messages, runs } = session(state, name);
    const sub = newId();
    connection.subs.set(sub, { name, n: 0 });
    afterwards(() => toSub(connection, sub, "session.snapshot", { session: name, sessionId: `log-${name}`, messages, runs }));
    return { sub };
  },
  "session.unsubscribe": (_, { sub }, { connection }) => {
    connection.subs.delete(sub);
    return {};
  },
  "events.resume": (state) => ({ resumed: false, seq: state.seq }),
  "message.send": (state, { session: name, text, key }, { afterwards }) => {
    if (text.length > 2000) refuse("PAYLOAD_TOO_LARGE", "the message is longer than 2,000 characters");
    const known = state.keys.get(key);
    if (known) return { runId: known, replayed: true };
    const owner = session(state, name);
    const run = { runId: newId(), state: "queued", text, key, at: Date.now(), attempt: 1, partial: null };
    state.keys.set(key, run.runId);
    owner.runs.push(run);
    owner.title ||= text.slice(0, 40);
    owner.updatedAt = Date.now();
    afterwards(() => changed(state, name, run));
    afterwards(() => work(state, name));
    return { runId: run.runId, replayed: false };
  },
  "run.abort": (state, { runId }) => {
    for (const [name, { runs }] of state.sessions) {
      for (const run of runs.filter((candidate) => candidate.runId === runId)) {
        run.state = "aborted";
        changed(state, name, run);
      }
    }
    return {};
  },
  "approval.list": (state) => ({ approvals: state.approvals }),
  "approval.decide": (state, { id, decision, reason }) => {
    const approval = state.approvals.find((candidate) => candidate.id === id) ?? refuse("NOT_FOUND", "no such question");
    const won = approval.state === "pending";
    if (won) Object.assign(approval, { state: decision === "deny" ? "denied" : "approved", answerReason: reason });
    if (won) broadcast(state, "approval.settled", { approval });
    return { won, approval };
  },
};

const isUnderWay = (run) => run.state === "queued" || run.state === "running";

async function work(state, name) {
  const owner = session(state, name);
  if (owner.working) return;
  owner.working = true;
  for (let run; (run = owner.runs.find(({ state: stands }) => stands === "queued")); ) {
    run.state = "running";
    changed(state, name, run);
    for (const [index, text] of (ANSWER.match(/\S+\s*/g) ?? []).entries()) {
      await new Promise((resolve) => setTimeout(resolve, state.delayMs));
      if (run.state !== "running") break;
      run.partial = { text: (run.partial?.text ?? "") + text, seq: index + 1 };
      tell(state, name, "session.delta", { runId: run.runId, attempt: 1, seq: index + 1, text });
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
  changed(state, name, run);
  tell(state, name, "session.done", { runId: run.runId, messages });
}

function changed(state, name, { partial: _, ...run }) {
  tell(state, name, "session.run", run);
  broadcast(state, "run.changed", { session: name, run });
  broadcast(state, "sessions.changed", { session: name, reason: isUnderWay(run) ? "asked" : "ended" });
}

function tell(state, name, event, payload) {
  for (const connection of state.sockets) {
    for (const [sub, of] of connection.subs) if (of.name === name) toSub(connection, sub, event, payload);
  }
}

function toSub(connection, sub, event, payload) {
  const counted = connection.subs.get(sub);
  if (!counted) return;
  counted.n += 1;
  emit(connection, event, payload, { sub, n: counted.n });
}

function broadcast(state, event, payload) {
  state.seq += 1;
  for (const connection of state.sockets) emit(connection, event, payload, { seq: state.seq });
}

function emit({ socket }, event, payload, more = {}) {
  socket.send(JSON.stringify({ type: "event", event, payload, ...more }));
}

/** Ids in the order of their making, as the gateway's are. */
export function newId() {
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
