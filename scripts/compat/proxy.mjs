/**
 * Stands between OpenClaw's clients and the gateway, passes everything on as it is, and keeps every frame of their sockets.
 * It only tells the gateway's own address where its own stands, since the gateway wants to see that.
 */
import { createServer, request } from "node:http";
import { WebSocket, WebSocketServer } from "ws";

const LARGEST = 64 * 1024 * 1024;

export class Proxy {
  static async open(target) {
    const proxy = new Proxy(target);
    await new Promise((listening) => proxy.server.listen(0, "127.0.0.1", listening));
    proxy.address = `http://127.0.0.1:${proxy.server.address().port}`;
    return proxy;
  }

  constructor(target) {
    this.target = new URL(target);
    /** A socket each: `{path, frames: [{from: "client" | "gateway", frame}], closed}`. */
    this.sockets = [];
    this.server = createServer((incoming, outgoing) => this.pass(incoming, outgoing));
    const door = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: LARGEST });
    this.server.on("upgrade", (incoming, socket, head) => {
      door.handleUpgrade(incoming, socket, head, (client) => this.join(incoming, client));
    });
  }

  headers(incoming) {
    const headers = { ...incoming.headers, host: this.target.host };
    if (headers.origin === this.address) headers.origin = this.target.origin;
    return headers;
  }

  pass(incoming, outgoing) {
    const { method, url: path } = incoming;
    const onward = request({ host: this.target.hostname, port: this.target.port, method, path, headers: this.headers(incoming) });
    onward.on("response", (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    incoming.pipe(onward);
  }

  join(incoming, client) {
    const kept = { path: incoming.url, frames: [], closed: null };
    this.sockets.push(kept);
    const { origin } = this.headers(incoming);
    const gateway = new WebSocket(`ws://${this.target.host}${incoming.url}`, {
      perMessageDeflate: false,
      maxPayload: LARGEST,
      headers: { "user-agent": incoming.headers["user-agent"] ?? "", ...(origin ? { origin } : {}) },
    });
    const waiting = [];
    gateway.on("open", () => waiting.splice(0).forEach((text) => gateway.send(text)));
    client.on("message", (bytes) => {
      const text = bytes.toString();
      kept.frames.push({ from: "client", frame: JSON.parse(text) });
      if (gateway.readyState === WebSocket.OPEN) gateway.send(text);
      else waiting.push(text);
    });
    gateway.on("message", (bytes) => {
      const text = bytes.toString();
      kept.frames.push({ from: "gateway", frame: JSON.parse(text) });
      if (client.readyState === WebSocket.OPEN) client.send(text);
    });
    const usable = (code) => code === 1000 || (code >= 1001 && code <= 1014 && ![1004, 1005, 1006].includes(code)) || code >= 3000;
    gateway.on("close", (code, reason) => {
      kept.closed ??= { by: "gateway", code, reason: reason.toString() };
      if (usable(code)) client.close(code, reason);
      else client.terminate();
    });
    client.on("close", (code, reason) => {
      kept.closed ??= { by: "client", code, reason: reason.toString() };
      if (usable(code)) gateway.close(code, reason);
      else gateway.terminate();
    });
    gateway.on("error", () => client.terminate());
    client.on("error", () => gateway.terminate());
  }

  async close() {
    this.server.closeAllConnections();
    await new Promise((closed) => this.server.close(closed));
  }
}

/** Who a socket belongs to, as it said itself: `cli`, `openclaw-tui`, `openclaw-control-ui` … */
export function clientOf(socket) {
  const hello = socket.frames.find(({ from, frame }) => from === "client" && frame.method === "connect");
  return hello?.frame.params?.client?.id ?? "nobody";
}

/** Requests with their answers, in the order in which they were sent: `{method, params, answers: [frame]}`. */
export function exchanges(sockets) {
  return sockets.flatMap((socket) => {
    const asked = new Map();
    for (const { from, frame } of socket.frames) {
      if (from === "client" && frame.type === "req") {
        asked.set(frame.id, { client: clientOf(socket), method: frame.method, params: frame.params, answers: [] });
      } else if (from === "gateway" && frame.type === "res") {
        asked.get(frame.id)?.answers.push(frame);
      }
    }
    return [...asked.values()];
  });
}
