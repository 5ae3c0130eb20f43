/**
 * Pictures of the page in its main states, written to tests/shots, for a person to look at: `npm run shots`.
 */
import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { launch } from "./browser/chromium.mjs";
import { fakeGateway } from "./fake-gateway.mjs";

const FOLDER = fileURLToPath(new URL("./shots/", import.meta.url));
const WIDE = { width: 1180, height: 780 };
const PHONE = { width: 360, height: 740 };
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

const working = {
  runId: "01890000-0000-7000-8000-000000000021",
  state: "running",
  text: "Are the tests green? If so, push the branch.",
  at: minutes(1),
  attempt: 1,
  partial: { text: "All 214 tests pass. I push the branch now.", seq: 1 },
};
const done = "01890000-0000-7000-8000-000000000022";
const TOOLS = [
  ["read", "docs/release.md", true, "# Release\n\n1. Run the tests.\n2. Push the branch.", 12],
  ["exec", "cargo nextest run --workspace", true, "Summary: 214 tests run: 214 passed", 48_200],
  ["web_fetch", "https://ci.example.org/status", false, "the host did not answer in 10 s", 10_000],
  ["exec", "git push origin release/2.4"],
];
const question = {
  id: "01890000-0000-7000-8000-000000000031",
  agent: "main",
  session: "main/gate",
  run: working.runId,
  tool: "exec",
  state: "pending",
  requester: "model",
  reason: "git push changes things elsewhere, and no rule allows it yet",
  args: { command: "git push origin release/2.4" },
  commands: ["/usr/bin/git push origin release/2.4"],
  shell: false,
  cwd: "/home/marina/harbour",
  env: [],
  subjects: ["path .", "host git.example.org"],
  rule: "/usr/bin/git push origin release/2.4",
  prefix: { words: 1, rule: "/usr/bin/git push …" },
  createdAt: minutes(0),
  expiresAt: minutes(-5),
};
const edit = {
  ...question,
  id: "01890000-0000-7000-8000-000000000032",
  session: "agent:main:telegram:direct:4711",
  run: "01890000-0000-7000-8000-000000000099",
  tool: "edit",
  reason: "writing outside of the workspace asks every time",
  args: { path: "/etc/motd" },
  commands: [],
  cwd: undefined,
  subjects: ["path /etc/motd"],
  preview: "--- a/etc/motd\n+++ b/etc/motd\n@@ -1,2 +1,2 @@\n Welcome to the harbour.\n-High water at 14:10.\n+High water at 02:35.",
  rule: undefined,
  prefix: undefined,
};

/** What the tools of a run did, as its subscribers hear it. */
function tellTools(name, runId, tools) {
  for (const [index, [tool, gist, ok, text, durationMs]] of tools.entries()) {
    const call = { runId, attempt: 1, callId: `c${index}` };
    tell(name, "session.tool", { ...call, phase: "start", name: tool, gist });
    if (text !== undefined) tell(name, "session.tool", { ...call, phase: "result", name: tool, ok, text, durationMs });
  }
}

function conversations() {
  const at = minutes(20);
  const text = "The lock is at **4.1 m**, and the gate opens at 02:35. I wrote it down in `tides.md`.";
  return {
    gate: { title: "Push the release branch", messages: [], runs: [working], updatedAt: minutes(1) },
    tides: {
      title: "When does the gate open?",
      messages: [
        { seq: 1, role: "user", text: "When does the gate open tonight? Write it down.", at, runId: done },
        { seq: 2, role: "assistant", text, at, runId: done },
      ],
      runs: [],
      updatedAt: minutes(20),
    },
    main: { title: "Plan my day around three tasks", messages: [], runs: [], updatedAt: Date.now() },
    kiel: { title: "Weather at the harbour", messages: [], runs: [failed], updatedAt: minutes(3) },
    zh: { title: "潮汐时间表", messages: [], runs: [], updatedAt: minutes(300) },
    long: { title: "A long question about the order of lines in a queue", messages: [], runs: [], updatedAt: minutes(900) },
  };
}

await mkdir(FOLDER, { recursive: true });
const browser = await launch();
const { server, state, tell } = fakeGateway({ delayMs: 15, sessions: conversations() });
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
  state.away = true;
  for (const { socket } of state.sockets) socket.destroy();
  await ask(page, "Are you still there?");
  await page.locator('[data-status="waiting"]').waitFor();
  await page.locator(".pill.waiting", { hasText: /in [2-9]/ }).waitFor();
});
state.away = false;
const gate = { path: "/#/gate" };
const atWork = (act = async () => undefined) => async (page) => {
  await idle(page);
  await page.locator('[data-run]').waitFor();
  tellTools("gate", working.runId, TOOLS);
  await page.locator('[data-tool="web_fetch"][data-state="failed"]').waitFor();
  await act(page);
};
await picture("tools-light", gate, atWork((page) => page.locator('[data-tool="web_fetch"] summary').click()));
state.approvals = [question];
await picture("question-light", gate, atWork());
await picture("question-dark", { ...gate, colorScheme: "dark" }, atWork((page) => page.getByRole("button", { name: "Deny and say why" }).click()));
await picture("question-phone-light", { ...gate, viewport: PHONE, touch: true }, atWork());
await picture("question-phone-dark-zh", { ...gate, viewport: PHONE, touch: true, colorScheme: "dark", locale: "zh-CN" }, atWork());
await picture("question-answered-light", gate, atWork(async (page) => {
  await page.getByRole("button", { name: "Allow once" }).click();
  await page.locator(".question.settled").waitFor();
}));
state.approvals = [edit];
const overTides = async (page) => {
  await finals(page, 1);
  tellTools("tides", done, [...TOOLS.slice(0, 3), ["write", "tides.md", true, "wrote 1 line", 8]]);
  await page.locator(".deeds > summary").click();
};
await picture("question-elsewhere-light", { path: "/#/tides" }, overTides);
await picture("question-elsewhere-phone", { path: "/#/tides", viewport: PHONE, touch: true }, overTides);
state.approvals = [];
await picture("tools-over-dark", { path: "/#/tides", colorScheme: "dark" }, overTides);
await picture("refused-light", { path: "/#/refused" }, (page) => page.locator(".cannot-open").waitFor());
await picture("starting-dark", { colorScheme: "dark" }, async (page) => {
  await idle(page);
  state.isSilent = true;
  await page.reload();
  await page.locator(".starting").waitFor();
});
state.isSilent = false;
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
