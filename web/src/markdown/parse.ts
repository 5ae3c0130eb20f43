/**
 * The small part of Markdown that answers use, parsed into plain data: paragraphs, headings, lists, quotes, code
 * fences. Pure and total: any text gives blocks, an unfinished stream too. It never produces HTML.
 */

export type Block =
  | { type: "paragraph"; text: string }
  | { type: "heading"; level: number; text: string }
  | { type: "code"; language: string; text: string }
  | { type: "quote"; blocks: Block[] }
  | { type: "rule" }
  | { type: "list"; ordered: boolean; start: number; items: Block[][] };

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const ITEM = /^( {0,3})([-*+]|(\d{1,9})[.)])( +|$)(.*)$/;
/** Deeper nesting than this is shown flat, so that no input can exhaust the stack. */
const DEEPEST = 12;

export function parseBlocks(text: string, depth = 0): Block[] {
  const lines = text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n");
  const blocks: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (line.trim() === "") {
      at += 1;
      continue;
    }
    const [block, next] = readBlock(lines, at, depth);
    blocks.push(block);
    at = next;
  }
  return blocks;
}

function readBlock(lines: string[], at: number, depth: number): [Block, number] {
  const line = lines[at] ?? "";
  const fence = FENCE.exec(line);
  if (fence) return readFence(lines, at, fence[1] ?? "```", fence[2] ?? "");
  const heading = HEADING.exec(line);
  if (heading) return [{ type: "heading", level: heading[1]?.length ?? 1, text: heading[2] ?? "" }, at + 1];
  if (RULE.test(line)) return [{ type: "rule" }, at + 1];
  if (depth < DEEPEST && QUOTE.test(line)) return readQuote(lines, at, depth);
  if (depth < DEEPEST && ITEM.test(line)) return readList(lines, at, depth);
  return readParagraph(lines, at);
}

/** A fence that is still open reaches to the end: that is how code looks while it streams. */
function readFence(lines: string[], at: number, mark: string, language: string): [Block, number] {
  const close = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}\\s*$`);
  let end = at + 1;
  while (end < lines.length && !close.test(lines[end] ?? "")) end += 1;
  return [{ type: "code", language, text: lines.slice(at + 1, end).join("\n") }, end + 1];
}

function readQuote(lines: string[], at: number, depth: number): [Block, number] {
  const inner: string[] = [];
  let end = at;
  for (; end < lines.length; end += 1) {
    const quoted = QUOTE.exec(lines[end] ?? "");
    if (!quoted) break;
    inner.push(quoted[1] ?? "");
  }
  return [{ type: "quote", blocks: parseBlocks(inner.join("\n"), depth + 1) }, end];
}

function readList(lines: string[], at: number, depth: number): [Block, number] {
  const first = ITEM.exec(lines[at] ?? "");
  const ordered = first?.[3] !== undefined;
  const items: string[][] = [];
  // What is at least two columns deeper than the first mark belongs to the item above it.
  const inside = (first?.[1]?.length ?? 0) + 2;
  let indent = 0;
  let end = at;
  for (; end < lines.length; end += 1) {
    const line = lines[end] ?? "";
    const item = ITEM.exec(line);
    const spaces = line.length - line.trimStart().length;
    const current = items.at(-1);
    if (current && line.trim() === "") {
      const following = lines.slice(end + 1).find((later) => later.trim() !== "") ?? "";
      if (!continues(following, inside, ordered)) break;
      current.push("");
    } else if (current && spaces >= inside) {
      current.push(line.slice(Math.min(spaces, indent)));
    } else if (item && (item[3] !== undefined) === ordered && !RULE.test(line)) {
      indent = (item[1]?.length ?? 0) + (item[2]?.length ?? 1) + Math.min(Math.max(item[4]?.length ?? 1, 1), 4);
      items.push([item[5] ?? ""]);
    } else if (current && !item && !startsBlock(line) && current.at(-1) !== "") {
      current.push(line.trimStart());
    } else {
      break;
    }
  }
  const blocks = items.map((item) => parseBlocks(item.join("\n"), depth + 1));
  return [{ type: "list", ordered, start: Number(first?.[3] ?? 1), items: blocks }, end];
}

function continues(line: string, inside: number, ordered: boolean): boolean {
  if (line === "") return false;
  if (line.length - line.trimStart().length >= inside) return true;
  const item = ITEM.exec(line);
  return item !== null && (item[3] !== undefined) === ordered && !RULE.test(line);
}

function startsBlock(line: string): boolean {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line);
}

function readParagraph(lines: string[], at: number): [Block, number] {
  let end = at + 1;
  while (end < lines.length) {
    const line = lines[end] ?? "";
    // A number begins a list inside a paragraph only when it is 1: "in the year\n1984. …" is a sentence.
    const item = ITEM.exec(line);
    const list = item !== null && item[5] !== "" && (item[3] === undefined || item[3] === "1");
    if (line.trim() === "" || startsBlock(line) || list) break;
    end += 1;
  }
  const text = lines.slice(at, end).map((line) => line.trimStart());
  return [{ type: "paragraph", text: text.join("\n") }, end];
}
