/**
 * What an agent does besides speaking, in a real browser against the real gateway: tools on show, questions answered
 * here and elsewhere; and who may not open the socket.
 */
import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { after, before, test } from "node:test";
import { launch } from "./chromium.mjs";
import { Gateway } from "./gateway.mjs";
import { startModel } from "./model.mjs";
import { connected, say, status, Visitor } from "./visitor.mjs";

const WAIT_MS = 20_000;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** A call that has to be approved, whatever holds commands on this machine. */
const asking = (word) => `CALL exec {"command": "echo ${word}"}`;
const question = (page, state) => page.locator(`[data-question][data-state="${state}"]`);

async function asked(page, word) {
  await say(page, asking(word));
  const card = question(page, "pending");
  await card.waitFor({ timeout: WAIT_MS });
  return card;
}

test("a tool is shown with what it was asked for and what came of it", async (t) => {
  const gateway = await Gateway.start(t, { config: await startModel(t) });
  const visitor = await Visitor.arrive(t, browser, gateway);
  const page = await visitor.logIn();
  await page.locator("#message").fill('CALL time.now {}\nCALL read {"path": "nowhere.md"}');
  await page.keyboard.press("Enter");
  await status(page, "time.now", "answered");
  await page.locator(".deeds > summary").click();
  const clock = page.locator('[data-tool="time.now"]');
  assert.equal(await clock.getAttribute("data-state"), "ok");
  const missing = page.locator('[data-state="failed"]');
  assert.match((await missing.locator(".gist").textContent()) ?? "", /nowhere\.md/);
  await missing.locator("summary").focus();
  await page.keyboard.press("Enter");
  await missing.locator(".tool-more pre", { hasText: /nowhere\.md/ }).first().waitFor();
  visitor.satisfied();
});

test("a question shows the exact command, and what runs is what was allowed", async (t) => {
  const gateway = await Gateway.start(t, { config: await startModel(t) });
  const visitor = await Visitor.arrive(t, browser, gateway);
  const page = await visitor.logIn();
  const card = await asked(page, "allowed-word");
  assert.match((await card.locator(".exactly").textContent()) ?? "", /echo allowed-word/);
  // By keyboard alone.
  const yes = card.getByRole("button", { name: "Allow once" });
  await yes.focus();
  await page.keyboard.press("Enter");
  const settled = page.locator(".question.settled");
  await settled.waitFor({ timeout: WAIT_MS });
  assert.match((await settled.locator(".outcome").textContent()) ?? "", /You allowed it once/);
  await page.locator('[data-tool="exec"]:not([data-state="running"])').waitFor({ timeout: WAIT_MS });
  await status(page, "allowed-word", "answered");
  const trail = await gateway.command("approvals", "list", "--all", "--json");
  assert.match(trail, /allowed-word/);
  assert.match(trail, /"(used|approved)"/);
  visitor.satisfied();
});

test("on a small phone nothing is cut off, and the answers are in reach", async (t) => {
  const gateway = await Gateway.start(t, { config: await startModel(t) });
  const visitor = await Visitor.arrive(t, browser, gateway);
  const page = await visitor.logIn();
  await page.setViewportSize({ width: 360, height: 740 });
  const word = "a-word-that-is-far-too-long-for-the-width-of-a-small-phone-and-has-no-place-to-break".repeat(2);
  const card = await asked(page, word);
  const wide = await page.evaluate(() =>
    [...document.querySelectorAll("main *")]
      .filter((element) => element.getClientRects().length > 0 && element.getBoundingClientRect().right > innerWidth + 0.5)
      .map((element) => element.className),
  );
  assert.deepEqual(wide, []);
  await card.getByRole("button", { name: "Allow once" }).click();
  await page.locator(".question.settled").waitFor({ timeout: WAIT_MS });
  visitor.satisfied();
});

test("a no with its reason reaches the model, and nothing runs", async (t) => {
  const gateway = await Gateway.start(t, { config: await startModel(t) });
  const visitor = await Visitor.arrive(t, browser, gateway);
  const page = await visitor.logIn();
  const card = await asked(page, "refused-word");
  await card.getByRole("button", { name: "Deny and say why" }).click();
  await page.keyboard.type("not on a Friday");
  await page.keyboard.press("Enter");
  await page.locator(".question.settled .outcome", { hasText: "not on a Friday" }).waitFor({ timeout: WAIT_MS });
  await page.locator('[data-tool="exec"][data-state="failed"]').waitFor({ timeout: WAIT_MS });
  assert.match(await gateway.command("approvals", "list", "--all", "--json"), /not on a Friday/);
  visitor.satisfied();
});

test("a question is shown in every tab and conversation, and an answer from elsewhere settles all of them", async (t) => {
  const gateway = await Gateway.start(t, { config: await startModel(t) });
  const visitor = await Visitor.arrive(t, browser, gateway);
  const page = await visitor.logIn();
  const other = await visitor.context.newPage();
  await other.goto(`${gateway.origin}/#/another`);
  await connected(other);
  const card = await asked(page, "elsewhere-word");
  const id = await card.getAttribute("data-question");
  await other.locator(`.others [data-question="${id}"]`).waitFor({ timeout: WAIT_MS });
  assert.match(await other.title(), /^\(1\) /);
  // A page that comes later finds it too.
  await page.reload();
  await question(page, "pending").waitFor({ timeout: WAIT_MS });
  await gateway.command("approvals", "deny", id, "--reason", "no");
  await page.locator(".question.settled .outcome", { hasText: "Denied elsewhere" }).waitFor({ timeout: WAIT_MS });
  await other.locator(".others").waitFor({ state: "detached", timeout: WAIT_MS });
  visitor.satisfied();
});

test("a question outlives a gateway that is killed", async (t) => {
  const gateway = await Gateway.start(t, { config: await startModel(t) });
  const visitor = await Visitor.arrive(t, browser, gateway, { outages: true });
  const page = await visitor.logIn();
  await asked(page, "patient-word");
  await gateway.kill();
  await page.locator('[data-connection="waiting"]').waitFor();
  await gateway.restart();
  await connected(page);
  const card = question(page, "pending");
  await card.getByRole("button", { name: "Allow once" }).click();
  await status(page, "patient-word", "answered");
  visitor.satisfied();
});

test("a foreign origin cannot open the socket, not even with the cookie", async (t) => {
  const gateway = await Gateway.start(t, { config: await startModel(t) });
  const visitor = await Visitor.arrive(t, browser, gateway);
  const page = await visitor.logIn();
  const url = `${gateway.origin.replace("http", "ws")}/api/v1/socket`;
  const tried = (target) =>
    target.evaluate(
      (address) =>
        new Promise((resolve) => {
          const socket = new WebSocket(address);
          socket.onmessage = () => resolve("spoken to");
          socket.onclose = () => resolve("closed");
        }),
      url,
    );
  assert.equal(await tried(page), "spoken to");

  // Another port is another origin, and gets the same cookies.
  const foreign = createServer((_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<p>hello"));
  await new Promise((resolve) => foreign.listen(0, "127.0.0.1", resolve));
  t.after(() => foreign.close());
  const stranger = await visitor.context.newPage();
  const { hostname } = new URL(gateway.origin);
  await stranger.goto(`http://${hostname}:${foreign.address().port}/`);
  assert.equal(await tried(stranger), "closed");
  await stranger.close();

  const cookies = (await visitor.context.cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
  assert.equal(await upgrade(gateway, { cookie: cookies, origin: gateway.origin }), 101);
  assert.equal(await upgrade(gateway, { cookie: cookies, origin: "http://evil.example" }), 403);
  assert.equal(await upgrade(gateway, { cookie: cookies }), 403);
  assert.equal(await upgrade(gateway, { origin: gateway.origin }), 401);
});

/** The status that an upgrade with these headers gets. */
function upgrade(gateway, headers) {
  const asking = {
    connection: "upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
  };
  return new Promise((resolve, reject) => {
    const sent = request(`${gateway.origin}/api/v1/socket`, { headers: { ...asking, ...headers }, agent: false });
    sent.on("upgrade", (response, socket) => {
      socket.destroy();
      resolve(response.statusCode);
    });
    sent.on("response", (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    sent.on("error", reject);
    sent.end();
  });
}
