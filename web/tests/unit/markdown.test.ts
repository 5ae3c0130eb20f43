/**
 * Markdown as data: what is recognised, and that nothing unsafe or endless comes out of any text.
 */
import { expect, test } from "vitest";
import { type Inline, parseInline, safeHref } from "../../src/markdown/inline";
import { parseBlocks } from "../../src/markdown/parse";

const text = (value: string) => ({ type: "text", text: value });
const paragraph = (value: string) => ({ type: "paragraph", text: value });

test("paragraphs, headings, rules and quotes", () => {
  expect(parseBlocks("one\ntwo\n\n## Head #\n---\n> said\n> > deeper\nafter")).toEqual([
    paragraph("one\ntwo"),
    { type: "heading", level: 2, text: "Head" },
    { type: "rule" },
    { type: "quote", blocks: [paragraph("said"), { type: "quote", blocks: [paragraph("deeper")] }] },
    paragraph("after"),
  ]);
});

test("code fences keep their text as it is, and an open one reaches to the end", () => {
  expect(parseBlocks("```rust\nfn a() {\n\n    **b**\n}\n```\nx")).toEqual([
    { type: "code", language: "rust", text: "fn a() {\n\n    **b**\n}" },
    paragraph("x"),
  ]);
  expect(parseBlocks("~~~\n```\nx")).toEqual([{ type: "code", language: "", text: "```\nx" }]);
});

test("lists nest by indent, number from their first, and hold code", () => {
  expect(parseBlocks("- a\n- b\n  - c\n\n    more c\n  - d\n- e")).toEqual([
    {
      type: "list",
      ordered: false,
      start: 1,
      items: [
        [paragraph("a")],
        [
          paragraph("b"),
          { type: "list", ordered: false, start: 1, items: [[paragraph("c"), paragraph("more c")], [paragraph("d")]] },
        ],
        [paragraph("e")],
      ],
    },
  ]);
  expect(parseBlocks("3. x\n   ```\n   y\n   ```\n4. z\ntext\n\nend")).toEqual([
    {
      type: "list",
      ordered: true,
      start: 3,
      items: [[paragraph("x"), { type: "code", language: "", text: "y" }], [paragraph("z\ntext")]],
    },
    paragraph("end"),
  ]);
  expect(parseBlocks("  - a\n  - b")).toEqual([
    { type: "list", ordered: false, start: 1, items: [[paragraph("a")], [paragraph("b")]] },
  ]);
});

test("a year at the start of a line is not a list", () => {
  expect(parseBlocks("in the year\n1984. It was")).toEqual([paragraph("in the year\n1984. It was")]);
});

test("code, bold, italic and struck text", () => {
  expect(parseInline("a `b*c*` **d *e* f** _g_ ~~h~~ snake_case_name 2 * 3 * 4 \\*x\\*")).toEqual([
    text("a "),
    { type: "code", text: "b*c*" },
    text(" "),
    { type: "strong", children: [text("d "), { type: "emphasis", children: [text("e")] }, text(" f")] },
    text(" "),
    { type: "emphasis", children: [text("g")] },
    text(" "),
    { type: "struck", children: [text("h")] },
    text(" snake_case_name 2 * 3 * 4 *x*"),
  ]);
});

test("links, and bare addresses without the punctuation behind them", () => {
  const link = (href: string, label: string): Inline => ({ type: "link", href, children: [{ type: "text", text: label }] });
  expect(parseInline("[x](https://a.example/b_(c)) and (https://a.example/d).")).toEqual([
    link("https://a.example/b_(c)", "x"),
    text(" and ("),
    link("https://a.example/d", "https://a.example/d"),
    text(")."),
  ]);
  expect(parseInline("![alt](https://a.example/p.png)")).toEqual([link("https://a.example/p.png", "alt")]);
});

test("unsafe addresses stay text", () => {
  for (const href of ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "/api/v1/logout", "//x"]) {
    expect(safeHref(href), href).toBeUndefined();
    expect(parseInline(`[x](${href})`).every(({ type }) => type !== "link"), href).toBe(true);
  }
});

test("no visible character is lost, whatever was written", () => {
  const source = "# a *b **c** `d` [e](f) > - 1. ~~ g__h__ ``` \\ \n\n";
  let seed = 7;
  for (let round = 0; round < 400; round += 1) {
    let written = "";
    for (let at = 0; at < 60; at += 1) {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      written += source[seed % source.length];
    }
    const letters = (value: string) => value.replace(/[^a-h]/g, "");
    expect(letters(JSON.stringify(strip(parseBlocks(written)))), written).toBe(letters(written));
  }
});

test("deep nesting and unclosed marks end in time", () => {
  const begin = performance.now();
  parseBlocks(">".repeat(5_000));
  parseBlocks("- ".repeat(5_000));
  parseInline("**a ".repeat(2_000));
  parseInline("[".repeat(7_000));
  parseInline("`a``".repeat(1_900));
  expect(performance.now() - begin).toBeLessThan(2_000);
});

/** Only the texts of a tree, so that its own words are not counted. */
function strip(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(strip);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]): unknown[] => {
    if (name === "text") return typeof inner === "string" ? [inner] : [];
    if (name === "language") return [inner];
    return typeof inner === "object" ? [strip(inner)] : [];
  });
}
