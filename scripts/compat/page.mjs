/**
 * OpenClaw's Control UI, served by the gateway from the npm package's folder, in a real browser.
 */
import { access } from "node:fs/promises";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { clientOf, exchanges } from "./proxy.mjs";
import { expect, step, until } from "./steps.mjs";

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export async function page(house, proxy, results) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: FLAGS });
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const tab = await context.newPage();
    const complaints = [];
    tab.on("console", (line) => {
      if (line.type() === "error" || line.type() === "warning") complaints.push(`${line.text()} (${line.location().url})`);
    });
    tab.on("pageerror", (error) => complaints.push(`page: ${error.message}`));
    await visit({ house, proxy, tab, complaints, shot: (name) => tab.screenshot({ path: join(results, `${name}.png`) }) });
  } finally {
    await browser.close();
  }
}

const theirs = (proxy) => proxy.sockets.filter((socket) => clientOf(socket) === "openclaw-control-ui");

async function visit({ house, proxy, tab, complaints, shot }) {
  const text = () => tab.evaluate(() => document.body.innerText);
  const shows = async (what, pattern, ms) => {
    let seen = "";
    await until(what, async () => pattern.test((seen = await text())), ms).catch((error) => {
      throw new Error(`${error.message}; the page:\n${seen.slice(0, 3000)}`);
    });
  };
  const composer = () => tab.locator("textarea").last();
  const say = async (message) => {
    await composer().fill(message);
    await composer().press("Enter");
  };

  await step("the Control UI connects", async () => {
    await tab.goto(`${proxy.address}/control-ui/#token=${house.token}`);
    await composer().waitFor({ timeout: 60_000 });
    await until("a handshake", () => theirs(proxy).some((socket) => socket.frames.some(({ frame }) => frame.payload?.type === "hello-ok")));
    await shot("1-connected");
  });
  await step("the Control UI lists sessions", async () => {
    await until("sessions.list", () => exchanges(theirs(proxy)).some(({ method, answers }) => method === "sessions.list" && answers.some((answer) => answer.ok)));
  });
  await step("the Control UI sends a message and shows the answer", async () => {
    await say("When is the tide high?");
    await shows("the answer", /High water is at 19:40/);
    await shot("2-answered");
  });
  await step("the Control UI leaves “Working…” after the answer", async () => {
    await until("an idle page", async () => !/Working|Sending message|Thinking/i.test(await text()));
    await shot("3-idle");
  });
  await step("the Control UI shows the history after a reload", async () => {
    await tab.reload();
    await composer().waitFor({ timeout: 60_000 });
    await shows("the question of before", /When is the tide high\?/);
    await shows("the answer of before", /High water is at 19:40/);
    await shot("4-reloaded");
  });
}
