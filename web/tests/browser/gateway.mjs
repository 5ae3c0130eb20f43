/**
 * A real gateway for a test: the program at TIDEGATE_BIN on a home of its own and a free port, killed and started
 * again as the test wants. It needs a debug build, whose offline model can be slowed down.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

const READY_MS = 20_000;

function program() {
  const path = process.env.TIDEGATE_BIN;
  if (!path) throw new Error("TIDEGATE_BIN must be the path of a debug build: cargo build -p tidegate-cli");
  return path;
}

export class Gateway {
  /** `delayMs`: how long the offline model waits before each piece of its answer. `config`: what the home is set to. */
  static async start(test, { delayMs = 0, config } = {}) {
    const home = await mkdtemp(join(tmpdir(), "tidegate-web-"));
    if (config) await writeFile(join(home, "config.json5"), JSON.stringify(config), { mode: 0o600 });
    const gateway = new Gateway(home, delayMs);
    test.after(async () => {
      await gateway.kill();
      // What a killed gateway had started may write for another moment.
      await rm(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    });
    await gateway.run(0);
    return gateway;
  }

  constructor(home, delayMs) {
    this.home = home;
    this.env = { ...process.env, TIDEGATE_HOME: home, TIDEGATE_OFFLINE_DELAY_MS: String(delayMs), RUST_BACKTRACE: "1" };
  }

  /** Starts the program and waits until it says where it listens. */
  async run(port) {
    const words = ["up", "--json", "--port", String(port)];
    this.child = spawn(program(), words, { env: this.env, stdio: ["ignore", "pipe", "pipe"] });
    let complaints = "";
    this.child.stderr.on("data", (bytes) => {
      complaints = (complaints + bytes).slice(-4000);
    });
    const line = await firstLine(this.child, () => complaints);
    const { url, link } = JSON.parse(line);
    this.origin = new URL(url).origin;
    this.link = link;
  }

  /** Ends it as a power cut would. */
  async kill() {
    const { child } = this;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
  }

  /** Starts it again where it was: same home, same port. */
  async restart() {
    await this.run(Number(new URL(this.origin).port));
  }

  /** What a command of the program prints, run beside the gateway in the same home. */
  async command(...words) {
    const { stdout } = await promisify(execFile)(program(), words, { env: this.env });
    return stdout;
  }

  /** Another login link. */
  async newLink() {
    const printed = await this.command("gateway", "link");
    const found = /https?:\/\/\S*code=[^\s"']+/.exec(printed);
    if (!found) throw new Error(`gateway link printed no link: ${printed}`);
    return found[0];
  }
}

async function firstLine(child, complaints) {
  const lines = createInterface({ input: child.stdout });
  const ended = new Promise((_, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`the gateway ended with ${code}: ${complaints()}`)));
    setTimeout(() => reject(new Error(`the gateway said nothing for ${READY_MS} ms: ${complaints()}`)), READY_MS).unref();
  });
  ended.catch(() => undefined);
  const [line] = await Promise.race([once(lines, "line"), ended]);
  // Whatever it says later must not fill the pipe.
  lines.on("line", () => undefined);
  return line;
}
