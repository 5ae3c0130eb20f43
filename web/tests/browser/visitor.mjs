/**
 * Someone with a browser: pages that are watched all the time for lines shown twice, errors, violations of the
 * content policy and requests to anywhere else.
 */
import assert from "node:assert/strict";

const WAIT_MS = 20_000;

/** Runs in the page before its own scripts: looks after every change of the document. */
function watch() {
  const look = () => {
    const own = [...document.querySelectorAll('[data-speaker="user"] .bubble')].map((bubble) => bubble.textContent);
    const runs = [...document.querySelectorAll('[data-speaker="agent"]')].map((row) => row.dataset.run);
    for (const [kind, values] of Object.entries({ own, runs })) {
      const twice = values.find((value, index) => values.indexOf(value) !== index);
      if (twice) window.tell(`${kind} shown twice: ${twice}`);
    }
    const growing = document.querySelector('[data-phase="streaming"] .markdown')?.textContent;
    if (growing && growing !== window.lastGrown) {
      window.lastGrown = growing;
      (window.grown ??= []).push(growing);
    }
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, characterData: true });
  document.addEventListener("securitypolicyviolation", (event) => window.tell(`policy: ${event.violatedDirective}`));
}

export class Visitor {
  /** `outages`: whether requests of this test may fail because the gateway is away. */
  static async arrive(test, browser, gateway, { outages = false } = {}) {
    const context = await browser.newContext({ locale: "en-GB" });
    const visitor = new Visitor(context, gateway, outages);
    await context.exposeBinding("tell", (_, complaint) => visitor.complaints.add(complaint));
    await context.addInitScript(watch);
    context.on("page", (page) => visitor.guard(page));
    test.after(() => context.close());
    return visitor;
  }

  constructor(context, gateway, outages) {
    Object.assign(this, { context, gateway, outages, complaints: new Set() });
  }

  guard(page) {
    page.on("pageerror", (error) => this.complaints.add(`page error: ${error}`));
    page.on("request", (request) => {
      if (new URL(request.url()).origin !== this.gateway.origin) this.complaints.add(`request to ${request.url()}`);
    });
    page.on("websocket", (socket) => {
      const { host, pathname } = new URL(socket.url());
      const own = new URL(this.gateway.origin).host;
      if (host !== own || pathname !== "/api/v1/socket") this.complaints.add(`socket to ${socket.url()}`);
    });
    page.on("console", (message) => {
      const text = message.text();
      const refused = /^Failed to load resource: the server responded with a status of (401|503)/.test(text);
      const away = this.outages && /^(Failed to load resource: net::ERR_|WebSocket connection to )/.test(text);
      if (["error", "warning"].includes(message.type()) && !refused && !away) this.complaints.add(`console: ${text}`);
    });
  }

  /** A page that logged in with the gateway's link. */
  async logIn() {
    const page = await this.context.newPage();
    await page.goto(this.gateway.link);
    await connected(page);
    return page;
  }

  /** Fails if anything was wrong on any page at any moment. */
  satisfied() {
    assert.deepEqual([...this.complaints], []);
  }
}

export async function connected(page) {
  await page.locator('[data-connection="connected"]').waitFor({ timeout: WAIT_MS });
}

export async function say(page, text) {
  await page.locator("#message").fill(text);
  await page.keyboard.press("Enter");
}

/** The rows as a reader sees them: `["user", status, text]` and `["agent", phase, text]`. */
export function transcript(page) {
  return page.evaluate(() =>
    [...document.querySelectorAll("[data-speaker]")].map((row) => {
      const { speaker, status, phase } = row.dataset;
      const text = row.querySelector(".bubble, .markdown")?.textContent ?? "";
      return [speaker, status ?? phase, text];
    }),
  );
}

/** Waits until the page shows these questions, each answered once and in this order; returns the answers. */
export async function answered(page, questions) {
  const shape = questions.flatMap((text) => [`user answered ${text}`, "agent final"]);
  const reached = async () => {
    const rows = await transcript(page);
    return { rows, now: rows.map(([who, how, text]) => (who === "user" ? `${who} ${how} ${text}` : `${who} ${how}`)) };
  };
  for (const end = Date.now() + WAIT_MS; Date.now() < end; ) {
    const { rows, now } = await reached();
    if (now.join("\n") === shape.join("\n")) {
      const answers = rows.filter(([who]) => who === "agent").map(([, , text]) => text);
      for (const [index, text] of answers.entries()) {
        assert.ok(text.includes(questions[index]), `answer ${index} should repeat its question: ${text}`);
      }
      return answers;
    }
    await page.waitForTimeout(50);
  }
  assert.deepEqual((await reached()).now, shape);
  return [];
}

/** Waits until an answer has grown by several pieces and is not finished. */
export async function streaming(page) {
  const isGrowing = () => {
    const text = document.querySelector('[data-phase="streaming"] .markdown')?.textContent ?? "";
    return text.length > 30;
  };
  await page.waitForFunction(isGrowing, undefined, { timeout: WAIT_MS, polling: 20 });
}

export async function status(page, text, wanted) {
  const row = page.locator(`[data-speaker="user"][data-status="${wanted}"]`, { hasText: text });
  await row.waitFor({ timeout: WAIT_MS });
}
