/**
 * The server's side of WebSockets for the stand-in gateway: text messages, pings and the end. Nothing more.
 */
import { createHash } from "node:crypto";
import { EventEmitter } from "node:events";

const NAME = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const TEXT = 1;
const CLOSE = 8;
const PING = 9;
const PONG = 10;

/** Answers the upgrade of an HTTP server; emits `text` and `close`. */
export class FakeSocket extends EventEmitter {
  constructor(request, socket) {
    super();
    this.socket = socket;
    this.rest = Buffer.alloc(0);
    const accept = createHash("sha1").update(request.headers["sec-websocket-key"] + NAME).digest("base64");
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
    );
    socket.on("data", (bytes) => this.read(bytes));
    socket.on("error", () => undefined);
    socket.on("close", () => this.emit("close"));
  }

  send(text) {
    this.write(TEXT, Buffer.from(text));
  }

  destroy() {
    this.socket.destroy();
  }

  write(kind, body) {
    const head = [0x80 | kind];
    if (body.length < 126) head.push(body.length);
    else if (body.length < 65_536) head.push(126, body.length >> 8, body.length & 255);
    else head.push(127, 0, 0, 0, 0, ...[24, 16, 8, 0].map((shift) => (body.length >>> shift) & 255));
    if (!this.socket.destroyed) this.socket.write(Buffer.concat([Buffer.from(head), body]));
  }

  read(bytes) {
    this.rest = Buffer.concat([this.rest, bytes]);
    for (let frame = this.next(); frame; frame = this.next()) {
      if (frame.kind === TEXT) this.emit("text", frame.body.toString());
      if (frame.kind === PING) this.write(PONG, frame.body);
      if (frame.kind === CLOSE) {
        this.write(CLOSE, frame.body);
        this.socket.end();
      }
    }
  }

  /** The next whole frame; a browser's are masked and, of this size, never in pieces. */
  next() {
    const { rest } = this;
    if (rest.length < 2) return undefined;
    const short = rest[1] & 127;
    const wide = short === 126 ? 2 : short === 127 ? 8 : 0;
    const start = 2 + wide + 4;
    if (rest.length < start) return undefined;
    const length = wide === 0 ? short : rest.readUIntBE(wide === 8 ? 4 : 2, wide === 8 ? 6 : 2);
    if (rest.length < start + length) return undefined;
    const mask = rest.subarray(start - 4, start);
    const body = Buffer.from(rest.subarray(start, start + length)).map((byte, index) => byte ^ mask[index % 4]);
    this.rest = rest.subarray(start + length);
    return { kind: rest[0] & 15, body };
  }
}
