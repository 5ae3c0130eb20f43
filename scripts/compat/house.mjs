/**
 * The gateway of a run, and the home of OpenClaw's programs beside it: both in temporary folders, on free ports.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const READY_MS = 60_000;
export const OPENCLAW = join(HERE, "node_modules", "openclaw");

const SLOW = Array.from({ length: 60 }, (_, at) => `Line ${at + 1} of a long answer.`).join("\n");

/** What the model says: a scripted one, so that a run needs no network and no vendor. */
const SCRIPT = {
  turns: [
    { when: "tide", say: "High water is at **19:40**." },
    { when: "slowly", say: SLOW, delayMs: 400 },
    {
      when: "run the command",
      say: "I have to ask first.",
      calls: [{ id: "call-1", name: "exec", arguments: { command: "touch approved-by-the-page" } }],
    },
    { say: "That is all." },
  ],
};

export class House {
  static async open() {
    const folder = await mkdtemp(join(tmpdir(), "tidegate-compat-"));
    const house = new House(folder);
    try {
      await house.start();
    } catch (error) {
      await house.close();
      throw error;
    }
    return house;
  }

  constructor(folder) {
    this.folder = folder;
    this.home = join(folder, "tidegate");
    this.theirs = join(folder, "openclaw");
  }

  async start() {
    const config = {
      gateway: { controlUi: { root: join(OPENCLAW, "dist", "control-ui") } },
      models: { providers: { demo: { api: "scripted", script: "script.json" } } },
      agents: { defaults: { model: { primary: "demo/tides" } } },
      tools: { profile: "coding", exec: { host: "gateway", ask: "always" } },
    };
    await mkdir(this.home, { mode: 0o700 });
    await mkdir(this.theirs, { mode: 0o700 });
    await writeFile(join(this.home, "config.json5"), JSON.stringify(config));
    await writeFile(join(this.home, "script.json"), JSON.stringify(SCRIPT));
    const env = { ...process.env, TIDEGATE_HOME: this.home };
    this.child = spawn(process.env.TIDEGATE_BIN, ["gateway", "run", "--json", "--port", "0"], {
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.complaints = "";
    this.child.stderr.on("data", (bytes) => {
      this.complaints = (this.complaints + bytes).slice(-4000);
    });
    const line = await this.firstLine();
    this.origin = new URL(JSON.parse(line).url).origin;
    this.token = (await readFile(join(this.home, "credentials", "local-token"), "utf8")).trim();
  }

  async firstLine() {
    const lines = createInterface({ input: this.child.stdout });
    const ended = new Promise((_, reject) => {
      this.child.once("error", reject);
      this.child.once("exit", (code) => reject(new Error(`the gateway ended with ${code}: ${this.complaints}`)));
      setTimeout(() => reject(new Error(`the gateway said nothing: ${this.complaints}`)), READY_MS).unref();
    });
    ended.catch(() => undefined);
    const [line] = await Promise.race([once(lines, "line"), ended]);
    lines.on("line", () => undefined);
    return line;
  }

  /** What OpenClaw's programs are started with: a home of their own that points at the gateway behind `address`. */
  async environment(address) {
    const config = { gateway: { mode: "remote", remote: { url: address.replace("http", "ws"), token: this.token } } };
    const file = join(this.theirs, "openclaw.json");
    await writeFile(file, JSON.stringify(config));
    const { PATH, LANG, TERM } = process.env;
    return {
      PATH: `${dirname(process.execPath)}:${PATH}`,
      LANG: LANG ?? "C.UTF-8",
      TERM: TERM ?? "xterm-256color",
      HOME: this.theirs,
      OPENCLAW_STATE_DIR: this.theirs,
      OPENCLAW_CONFIG_PATH: file,
      NO_PROXY: "127.0.0.1",
      no_proxy: "127.0.0.1",
      NO_COLOR: "1",
    };
  }

  async close() {
    const { child } = this;
    if (child && child.exitCode === null && child.signalCode === null) {
      const exit = once(child, "exit");
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), 30_000);
      await exit;
      clearTimeout(timer);
    }
    await rm(this.folder, { recursive: true, force: true });
  }
}
