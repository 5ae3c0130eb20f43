/**
 * The page in a real browser against the real gateway: logging in, streaming, reloading, killing the gateway.
 * Whatever happens, each line is there once.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch } from "./chromium.mjs";
import { Gateway } from "./gateway.mjs";
import { answered, connected, say, status, streaming, transcript, Visitor } from "./visitor.mjs";

/** Long enough for an answer of many pieces: the offline model repeats its input. */
const long = (name) => `${name} ${"the tide comes and the tide goes ".repeat(6)}end of ${name}`;
const SLOW = { delayMs: 150 };

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

test("the link logs in once; a code can be pasted; logging out asks for one again", async (t) => {
  const gateway = await Gateway.start(t);
  const first = await Visitor.arrive(t, browser, gateway);
  const page = await first.logIn();
  assert.equal(new URL(page.url()).pathname, "/");
  await page.reload();
  await connected(page);

  const second = await Visitor.arrive(t, browser, gateway);
  const again = await second.context.request.get(gateway.link);
  assert.ok(!again.ok(), `the used link answered ${again.status()}`);
  const stranger = await second.context.newPage();
  await stranger.goto(gateway.origin);
  const field = stranger.locator("#code");
  await field.fill(gateway.link);
  await stranger.keyboard.press("Enter");
  await stranger.locator("#login-problem:not(:empty)").waitFor();
  await field.fill(await gateway.newLink());
  await stranger.keyboard.press("Enter");
  await connected(stranger);

  await stranger.getByRole("button", { name: "Log out" }).click();
  await field.waitFor();
  first.satisfied();
  second.satisfied();
});

test("an answer grows piece by piece and then stands", async (t) => {
  const gateway = await Gateway.start(t, SLOW);
  const visitor = await Visitor.arrive(t, browser, gateway);
  const page = await visitor.logIn();
  const question = long("grow");
  await say(page, question);
  const [answer] = await answered(page, [question]);
  const grown = await page.evaluate(() => window.grown);
  assert.ok(grown.length >= 5, `seen ${grown.length} stages`);
  for (const stage of grown) assert.ok(answer.startsWith(stage), `${stage} is no beginning of ${answer}`);
  visitor.satisfied();
});

test("an answer can be stopped, and the next question is answered", async (t) => {
  const gateway = await Gateway.start(t, SLOW);
  const visitor = await Visitor.arrive(t, browser, gateway);
  const page = await visitor.logIn();
  const question = long("stop");
  await say(page, question);
  await streaming(page);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await status(page, question, "stopped");
  await say(page, "short");
  await status(page, "short", "answered");
  visitor.satisfied();
});

test("a reload in the middle of an answer loses and doubles nothing", async (t) => {
  const gateway = await Gateway.start(t, SLOW);
  const visitor = await Visitor.arrive(t, browser, gateway);
  const page = await visitor.logIn();
  const questions = [long("one"), long("two")];
  for (const question of questions) await say(page, question);
  await streaming(page);
  await page.reload();
  await streaming(page);
  await answered(page, questions);
  await page.reload();
  await answered(page, questions);
  visitor.satisfied();
});

test("a gateway killed in the middle of an answer and started again gives exactly one", async (t) => {
  const gateway = await Gateway.start(t, SLOW);
  const visitor = await Visitor.arrive(t, browser, gateway, { outages: true });
  const page = await visitor.logIn();
  const questions = ["before", long("killed"), "queued behind it"];
  await say(page, questions[0]);
  await answered(page, questions.slice(0, 1));
  await say(page, questions[1]);
  await say(page, questions[2]);
  await streaming(page);
  await status(page, questions[2], "queued");
  await gateway.kill();
  await page.locator('[data-connection="waiting"]').waitFor();
  await gateway.restart();
  await connected(page);
  await answered(page, questions);
  await page.reload();
  await answered(page, questions);
  visitor.satisfied();
});

test("what is written while the gateway is down is sent once it is back, exactly once", async (t) => {
  const gateway = await Gateway.start(t);
  const visitor = await Visitor.arrive(t, browser, gateway, { outages: true });
  const page = await visitor.logIn();
  await gateway.kill();
  await page.locator('[data-connection="waiting"]').waitFor();
  const questions = ["first while away", "second while away"];
  for (const question of questions) await say(page, question);
  for (const question of questions) await status(page, question, "waiting");
  await gateway.restart();
  await answered(page, questions);
  await page.reload();
  await answered(page, questions);
  assert.deepEqual(await leftInStorage(page), []);
  visitor.satisfied();
});

test("a message whose acknowledgement was lost is not doubled, not even over a reload", async (t) => {
  const gateway = await Gateway.start(t);
  const visitor = await Visitor.arrive(t, browser, gateway, { outages: true });
  const page = await visitor.logIn();
  let mode = "deaf";
  let accepted = 0;
  // The gateway gets every message, the page hears of none.
  await page.routeWebSocket("**/api/v1/socket", (socket) => {
    const server = socket.connectToServer();
    const sent = new Set();
    socket.onMessage(async (text) => {
      const { id, method } = JSON.parse(text);
      if (method === "message.send") sent.add(id);
      // A slow way there: the log, which has the line already, must not be shown beside the message that asks again.
      if (method === "message.send" && mode === "slow") await new Promise((resolve) => setTimeout(resolve, 400));
      server.send(text);
    });
    server.onMessage((text) => {
      const { id, event } = JSON.parse(text);
      const tells = event?.startsWith("session.") || event?.startsWith("run.");
      if (mode === "deaf" && sent.has(id)) {
        accepted += 1;
        return socket.close();
      }
      return mode === "deaf" && tells ? undefined : socket.send(text);
    });
  });
  await page.reload();
  await connected(page);
  await say(page, "lost word");
  await status(page, "lost word", "waiting");
  assert.ok(accepted > 0);
  assert.equal((await leftInStorage(page)).length, 1);
  mode = "slow";
  await page.reload();
  await answered(page, ["lost word"]);
  assert.deepEqual(await leftInStorage(page), []);
  visitor.satisfied();
});

test("ten tabs show the same, whoever writes", async (t) => {
  const gateway = await Gateway.start(t, SLOW);
  const visitor = await Visitor.arrive(t, browser, gateway);
  const tabs = [await visitor.logIn()];
  while (tabs.length < 10) {
    const tab = await visitor.context.newPage();
    await tab.goto(gateway.origin);
    tabs.push(tab);
  }
  for (const tab of tabs) await connected(tab);
  const questions = [long("first"), long("last")];
  await say(tabs[0], questions[0]);
  await streaming(tabs[9]);
  await say(tabs[9], questions[1]);
  for (const tab of tabs) await answered(tab, questions);
  const shown = await Promise.all(tabs.map(transcript));
  for (const other of shown) assert.deepEqual(other, shown[0]);
  visitor.satisfied();
});

test("conversations are separate, listed, and found again by their address", async (t) => {
  const gateway = await Gateway.start(t);
  const visitor = await Visitor.arrive(t, browser, gateway);
  const page = await visitor.logIn();
  await say(page, "in the main one");
  await answered(page, ["in the main one"]);
  await page.getByRole("button", { name: "New conversation" }).first().click();
  await page.locator(".empty").waitFor();
  await say(page, "in the new one");
  await answered(page, ["in the new one"]);
  await page.reload();
  await answered(page, ["in the new one"]);
  const list = page.locator(".sidebar li button");
  await page.waitForFunction(() => document.querySelectorAll(".sidebar li button").length === 2);
  await list.nth(1).click();
  await answered(page, ["in the main one"]);
  visitor.satisfied();
});

test("the page may load nothing from elsewhere", async (t) => {
  const gateway = await Gateway.start(t);
  const response = await fetch(gateway.origin);
  assert.match(response.headers.get("content-security-policy") ?? "", /default-src 'self'/);
  const html = await response.text();
  assert.doesNotMatch(html, /<style|<script(?![^>]*\ssrc=)|\sstyle=|https?:\/\//);
});

function leftInStorage(page) {
  return page.evaluate(() => Object.keys(localStorage).filter((name) => name.startsWith("tidegate.unsent.")));
}
