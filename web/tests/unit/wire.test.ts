/**
 * The event format, the answers of the API, the pauses between tries, the login code, the catalogue.
 */
import { expect, test } from "vitest";
import { codeFrom, refusal } from "../../src/api";
import { fill, languages, pickLanguage } from "../../src/catalogue";
import { EventParser } from "../../src/sse";
import { pauseMs } from "../../src/stream";

const TEXT = 'event: run\ndata: {"a":\ndata: 1}\n\n: a comment\nevent: ping\ndata:\n\r\ndata: plain\r\n\r\n\n';

test("events are the same wherever the bytes are cut", () => {
  const whole = new EventParser().push(TEXT);
  expect(whole).toEqual([
    { event: "run", data: '{"a":\n1}' },
    { event: "ping", data: "" },
    { event: "message", data: "plain" },
  ]);
  for (let first = 0; first <= TEXT.length; first += 1) {
    for (let second = first; second <= TEXT.length; second += 1) {
      const parser = new EventParser();
      const pieces = [TEXT.slice(0, first), TEXT.slice(first, second), TEXT.slice(second)];
      expect(pieces.flatMap((piece) => parser.push(piece)), `cut at ${first} and ${second}`).toEqual(whole);
    }
  }
});

test("a refusal says whether to log in, try again or give up", async () => {
  const body = JSON.stringify({ error: { code: "X", message: "why" } });
  const answer = (status: number, headers: Record<string, string> = {}) => refusal(new Response(body, { status, headers }));
  const error = { code: "X", message: "why" };
  expect(await answer(401)).toEqual({ kind: "login", error });
  expect(await answer(413)).toEqual({ kind: "final", status: 413, error });
  expect(await answer(503, { "retry-after": "2" })).toEqual({ kind: "again", error, afterMs: 2000 });
  expect(await answer(429)).toEqual({ kind: "again", error });
  const html = await refusal(new Response("<html>", { status: 502 }));
  expect(html).toEqual({ kind: "again", error: { code: "HTTP_502", message: "HTTP 502" } });
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
