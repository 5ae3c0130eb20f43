/**
 * OpenClaw's terminal in a real one: tmux holds the screen, types, and shows what stands there.
 */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { clientOf, exchanges } from "./proxy.mjs";
import { expect, step, until } from "./steps.mjs";
import { OPENCLAW } from "./house.mjs";

const run = promisify(execFile);
const START_MS = 90_000;

class Screen {
  constructor(folder, env) {
    this.base = ["-S", join(folder, "tmux.sock"), "-f", "/dev/null"];
    this.env = env;
  }

  tmux(...words) {
    return run("tmux", [...this.base, ...words], { env: this.env });
  }

  start(words) {
    return this.tmux("new-session", "-d", "-x", "110", "-y", "40", "-s", "tui", ...words);
  }

  async text() {
    return (await this.tmux("capture-pane", "-p", "-t", "tui")).stdout;
  }

  async type(text) {
    await this.tmux("send-keys", "-t", "tui", "-l", text);
    await this.tmux("send-keys", "-t", "tui", "Enter");
  }

  async shows(what, pattern, ms) {
    let text = "";
    await until(what, async () => pattern.test((text = await this.text())), ms).catch((error) => {
      throw new Error(`${error.message}; the screen:\n${text}`);
    });
    return text;
  }

  /** Ends the server of this screen and what runs in it. */
  close() {
    return this.tmux("kill-server").catch(() => undefined);
  }
}

export async function terminal(house, proxy, env, results) {
  const screen = new Screen(house.folder, env);
  const words = [process.execPath, join(OPENCLAW, "openclaw.mjs"), "tui", "--url", proxy.address.replace("http", "ws"), "--token", house.token];
  try {
    await step("openclaw tui connects", async () => {
      await screen.start(words);
      await screen.shows("a connected terminal", /connected/i, START_MS);
    });
    await step("openclaw tui sends a message and shows the answer", async () => {
      await screen.type("When is the tide high?");
      await screen.shows("the answer", /19:40/);
    });
    await step("openclaw tui is idle again after the answer", async () => {
      await screen.shows("an idle terminal", /\bidle\b/i);
    });
    await step("openclaw tui stops a slow answer", async () => {
      await screen.type("Please answer slowly");
      await screen.shows("the beginning of the answer", /Line 1 of a long answer/);
      await screen.tmux("send-keys", "-t", "tui", "Escape");
      await screen.shows("the abort", /abort/i);
    });
    await step("openclaw tui shows no line about something unknown", async () => {
      const text = await screen.text();
      expect(!/unknown method|invalid .* params/i.test(text), text);
      const sockets = proxy.sockets.filter((socket) => clientOf(socket) === "openclaw-tui");
      const refused = exchanges(sockets).filter(({ answers }) => answers.some((answer) => !answer.ok));
      expect(refused.length === 0, JSON.stringify(refused, null, 1).slice(0, 3000));
    });
    await writeFile(join(results, "terminal.txt"), await screen.text().catch(() => ""));
  } finally {
    await screen.close();
  }
}
