/**
 * The frames, what answers ask of us, the pauses between tries, the login code, the catalogue.
 */
import { expect, test } from "vitest";
import { codeFrom, refusal } from "../../src/api";
import { fill, languages, pickLanguage } from "../../src/catalogue";
import { refused } from "../../src/gateway/answer";
import { parse, request } from "../../src/gateway/frames";
import { pauseMs } from "../../src/gateway/pause";

test("a refusal says whether to log in, try again or give up", async () => {
  const body = JSON.stringify({ error: { code: "X", message: "why" } });
  const answer = (status: number, headers: Record<string, string> = {}) => refusal(new Response(body, { status, headers }));
  const error = { code: "X", message: "why" };
  expect(await answer(401)).toEqual({ kind: "login", error });
  expect(await answer(413)).toEqual({ kind: "final", error });
  expect(await answer(503, { "retry-after": "2" })).toEqual({ kind: "again", error, afterMs: 2000 });
  expect(await answer(429)).toEqual({ kind: "again", error });
  const html = await refusal(new Response("<html>", { status: 502 }));
  expect(html).toEqual({ kind: "again", error: { code: "HTTP_502", message: "HTTP 502" } });
});

test("an error on the socket says the same", () => {
  const error = { code: "X", message: "why", hint: "so" };
  expect(refused({ ...error, retryable: false })).toEqual({ kind: "final", error });
  expect(refused({ ...error, retryable: true, retryAfterMs: 700 })).toEqual({ kind: "again", error, afterMs: 700 });
  expect(refused({ code: "STORAGE_IO", message: "" }).kind).toBe("again");
  expect(refused({ code: "UNAUTHORIZED", message: "" }).kind).toBe("login");
});

test("a text that is no frame is nothing", () => {
  const texts = ["", "{", "1", "null", "[]", '{"type":"req"}', '{"type":"event"}', '{"type":"res","id":1,"ok":true}'];
  for (const text of [...texts, '{"type":"res","id":"1","ok":false}']) expect(parse(text), text).toBeUndefined();
  const tick = { type: "event", event: "tick", payload: { at: 1 } };
  expect(parse(JSON.stringify({ ...tick, seq: 4, sub: "s1", n: 2, more: 1 }))).toEqual({ ...tick, seq: 4, sub: "s1", n: 2 });
  const error = { code: "X", message: "why" };
  expect(parse(JSON.stringify({ type: "res", id: "1", ok: false, error }))).toEqual({ type: "res", id: "1", ok: false, error });
  expect(JSON.parse(request("1", "me.get", {}))).toEqual({ type: "req", id: "1", method: "me.get", params: {} });
});

test("pauses grow from half a second to ten and are spread over their upper half", () => {
  expect([0, 1, 2, 3, 4, 5, 50].map((n) => pauseMs(n, 1))).toEqual([500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
  expect(pauseMs(0, 0)).toBe(250);
});

test("the login code is found in a link, a part of one, or alone", () => {
  const pasted = ["http://localhost:80/login?code=ab-C1", "  /login?code=ab-C1&x=1 ", "code ?code=ab-C1", "ab-C1\n"];
  expect(pasted.map(codeFrom)).toEqual(["ab-C1", "ab-C1", "ab-C1", "ab-C1"]);
});

test("both languages fill in the same names", () => {
  const names = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(([name]) => name).sort();
  const { en, zh } = languages;
  for (const sentence of Object.keys(en.sentences) as (keyof typeof en.sentences)[]) {
    expect(names(zh.sentences[sentence]), sentence).toEqual(names(en.sentences[sentence]));
    expect(zh.sentences[sentence].trim(), sentence).not.toBe("");
  }
  expect(fill("in {n} s, {x}", { n: 3 })).toBe("in 3 s, {x}");
});

test("the language is the chosen one, else the first the browser prefers and the page speaks", () => {
  expect(pickLanguage("en", ["zh-CN"])).toBe("en");
  expect(pickLanguage(null, ["de", "zh-TW", "en"])).toBe("zh");
  expect(pickLanguage("xx", ["de", "en-GB", "zh"])).toBe("en");
  expect(pickLanguage(null, ["fr"])).toBe("en");
});
