/**
 * Pictures of the page in its main states, written to tests/shots, for a person to look at: `npm run shots`.
 */
import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { launch } from "./browser/chromium.mjs";
import { fakeGateway } from "./fake-gateway.mjs";

const FOLDER = fileURLToPath(new URL("./shots/", import.meta.url));
const WIDE = { width: 1180, height: 780 };
const PHONE = { width: 390, height: 780 };
const minutes = (n) => Date.now() - n * 60_000;
const failed = {
  runId: "01890000-0000-7000-8000-000000000009",
  state: "failed",
  text: "What is the weather in Kiel?",
  at: minutes(3),
  attempt: 3,
  partial: null,
  error: { code: "MODEL_UNAVAILABLE", message: "the model did not answer in 60 s", hint: "Try again, or run `tidegate models test`." },
};

function conversations() {
  return {
    main: { title: "Plan my day around three tasks", messages: [], runs: [], updatedAt: Date.now() },
    kiel: { title: "Weather at the harbour", messages: [], runs: [failed], updatedAt: minutes(3) },
    zh: { title: "潮汐时间表", messages: [], runs: [], updatedAt: minutes(300) },
    long: { title: "A long question about the order of lines in a queue", messages: [], runs: [], updatedAt: minutes(900) },
  };
}

await mkdir(FOLDER, { recursive: true });
const browser = await launch();
const { server, state } = fakeGateway({ delayMs: 15, sessions: conversations() });
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const origin = `http://127.0.0.1:${server.address().port}`;

async function picture(name, { viewport = WIDE, colorScheme = "light", locale = "en-GB", path = "/", touch = false }, act) {
  const context = await browser.newContext({ viewport, colorScheme, locale, hasTouch: touch, isMobile: touch });
  const page = await context.newPage();
  page.on("console", (message) => message.type() === "error" && console.log(name, message.text()));
  await page.goto(origin + path);
  await act(page);
  await page.screenshot({ path: `${FOLDER}${name}.png` });
  await context.close();
}

const idle = (page) => page.locator(".pill.connected").waitFor();
const ask = async (page, text) => {
  await page.locator("#message").fill(text);
  await page.keyboard.press("Enter");
};
const finals = (page, count) => page.waitForFunction((n) => document.querySelectorAll('[data-phase="final"]').length >= n, count);

await picture("empty-light", {}, idle);
await picture("answer-light", {}, async (page) => {
  await ask(page, "Is everything all right at the gate? Please make a short plan.");
  await finals(page, 1);
});
await picture("answer-dark", { colorScheme: "dark" }, (page) => finals(page, 1));
await picture("scrolled-light", {}, async (page) => {
  await ask(page, "And tomorrow?");
  await finals(page, 2);
  await page.locator(".messages").evaluate((element) => element.scrollTo(0, 40));
  await page.locator(".latest").waitFor();
});
state.delayMs = 40;
await picture("streaming-dark", { colorScheme: "dark", path: "/#/stream" }, async (page) => {
  await ask(page, "Tell me more.");
  await ask(page, "And what about the outbox?");
  await page.waitForFunction(() => document.querySelector('[data-phase="streaming"]')?.textContent.includes("stuck"));
});
await picture("failed-light", { path: "/#/kiel" }, async (page) => {
  await idle(page);
  await ask(page, "x".repeat(2001).replace(/(.{8})/g, "$1 "));
  await page.locator('[data-status="refused"]').waitFor();
});
await picture("failed-dark", { path: "/#/kiel", colorScheme: "dark" }, idle);
await picture("phone-empty-zh", { viewport: PHONE, locale: "zh-CN", path: "/#/zh", touch: true }, idle);
await picture("phone-answer-light", { viewport: PHONE, touch: true }, (page) => finals(page, 2));
await picture("phone-drawer-dark", { viewport: PHONE, touch: true, colorScheme: "dark" }, async (page) => {
  await idle(page);
  await page.locator(".top .drawer-only").click();
  await page.locator(".drawer-open").waitFor();
  await page.waitForTimeout(400);
});
await picture("reconnecting-light", {}, async (page) => {
  await finals(page, 2);
  for (const stream of state.streams) stream.response.destroy();
  await page.route("**/api/**", (route) => route.abort());
  await ask(page, "Are you still there?");
  await page.locator('[data-status="waiting"]').waitFor();
  await page.locator(".pill.waiting", { hasText: /in [2-9]/ }).waitFor();
});
state.loggedIn = false;
await picture("login-light", {}, (page) => page.locator("#code").waitFor());
await picture("login-phone-dark-zh", { viewport: PHONE, colorScheme: "dark", locale: "zh-CN" }, async (page) => {
  await page.locator("#code").fill("wrong");
  await page.keyboard.press("Enter");
  await page.locator(".problem:not(:empty)").waitFor();
});
await browser.close();
server.closeAllConnections();
server.close();
