/**
 * OpenClaw's Control UI, served by the gateway from the npm package's folder, in a real browser.
 */
import { access } from "node:fs/promises";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { clientOf, exchanges } from "./proxy.mjs";
import { expect, step, until } from "./steps.mjs";
import { openclaw } from "./commands.mjs";

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export async function page(house, proxy, env, results) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: FLAGS });
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const tab = await context.newPage();
    const complaints = [];
    tab.on("console", (line) => {
      // Its own settings file is one that a gateway may have; without it the page takes what it is told in the handshake.
      if (line.type() !== "error" || line.location().url.endsWith("/control-ui-config.json")) return;
      complaints.push(`${line.text()} (${line.location().url})`);
    });
    tab.on("pageerror", (error) => complaints.push(`page: ${error.message}`));
    await visit({ house, proxy, env, tab, complaints, shot: (name) => tab.screenshot({ path: join(results, `${name}.png`) }) });
  } finally {
    await browser.close();
  }
}

const QUESTION = "The page asks about the tide";
/** A dot. */
const PICTURE = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");

const theirs = (proxy) => proxy.sockets.filter((socket) => clientOf(socket) === "openclaw-control-ui");

async function visit({ house, proxy, env, tab, complaints, shot }) {
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

  // Another client's conversation, for the list.
  const begun = await openclaw(env, house.theirs, "agent", "--session-key", "agent:main:work", "--message", "A question of another client");
  expect(begun.code === 0, begun.all);
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
    await say(QUESTION);
    await shows("the answer", /High water is at 19:40/);
    await shot("2-answered");
  });
  await step("the Control UI shows the question once", async () => {
    await until("an idle page", async () => !/Working|Sending message/i.test(await text()));
    const found = (await text()).split(QUESTION).length - 1;
    // Once in the conversation and at most once as its title.
    expect(found <= 2, `it stands there ${found} times`);
  });
  await step("the Control UI leaves “Working…” after the answer", async () => {
    await until("an idle page", async () => !/Working|Sending message|Thinking/i.test(await text()));
    await shot("3-idle");
  });
  await step("the Control UI shows the history after a reload", async () => {
    await tab.reload();
    await composer().waitFor({ timeout: 60_000 });
    await shows("the question of before", new RegExp(QUESTION));
    await shows("the answer of before", /High water is at 19:40/);
    await shot("4-reloaded");
  });
  await step("the Control UI lists a conversation that somebody else began", async () => {
    await shows("the other conversation in the list", /A question of another client/);
    await shot("5-listed");
  });
  await step("the Control UI sends a picture", async () => {
    await tab.locator("input[type=file]").first().setInputFiles({ name: "dot.png", mimeType: "image/png", buffer: PICTURE });
    await say("What is on this picture of the tide?");
    const sent = await until("the picture", () => exchanges(theirs(proxy)).find(({ method, params, answers }) => method === "chat.send" && params.attachments?.length && answers.length));
    expect(sent.answers[0].ok, JSON.stringify(sent.answers));
    await until("an idle page", async () => !/Working|Sending message/i.test(await text()));
    await shot("5-picture");
  });
  await step("the Control UI stops a slow answer", async () => {
    await say("Please answer slowly");
    await shows("the beginning of the answer", /Line 1 of a long answer/);
    await tab.getByRole("button", { name: /stop/i }).first().click();
    await until("the abort", () => exchanges(theirs(proxy)).some(({ method, answers }) => /abort/.test(method) && answers.some((answer) => answer.ok)));
    await until("an idle page", async () => !/Working|Sending message/i.test(await text()));
    await shot("6-stopped");
  });
  await step("the Control UI shows an approval, and the answer there counts", async () => {
    await say("Please run the command");
    await shows("the question", /touch approved-by-the-page/);
    await shot("7-approval");
    await tab.getByRole("button", { name: "Allow once", exact: true }).first().click();
    await shows("what the agent says after it", /That is all\./);
    await shot("8-approved");
    await access(join(house.home, "agents", "main", "workspace", "approved-by-the-page"));
  });
  await step("the Control UI meets nothing unknown", async () => {
    const refused = exchanges(theirs(proxy)).filter(({ answers }) => answers.some((answer) => !answer.ok));
    expect(refused.length === 0, JSON.stringify(refused, null, 1).slice(0, 3000));
    expect(complaints.length === 0, complaints.join("\n"));
  });
}
