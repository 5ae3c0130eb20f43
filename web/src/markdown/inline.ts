/**
 * What stands inside a line of Markdown: code, bold, italic, struck text, links. Pure; links leave only with an
 * address that is safe to open, everything else stays the text it was.
 */

export type Inline =
  | { type: "text"; text: string }
  | { type: "code"; text: string }
  | { type: "strong" | "emphasis" | "struck"; children: Inline[] }
  | { type: "link"; href: string; children: Inline[] };

const TOKEN = new RegExp(
  [
    String.raw`\\(?<escaped>[\\\x60*_{}\[\]()#+\-.!~>|])`,
    String.raw`(?<ticks>\x60+)(?<code>[^\x60]|[^\x60][\s\S]*?[^\x60])\k<ticks>(?!\x60)`,
    String.raw`!?\[(?<label>[^\[\]]*)\]\((?<href>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+"[^"]*")?\)`,
    String.raw`<(?<angle>(?:https?:\/\/|mailto:)[^\s<>]+)>`,
    String.raw`(?<bare>\bhttps?:\/\/[^\s<>"']+)`,
    String.raw`\*\*(?<strong>\S(?:[\s\S]*?\S)??)\*\*(?!\*)`,
    String.raw`(?<![\w_])__(?<strong2>\S(?:[\s\S]*?\S)??)__(?![\w_])`,
    String.raw`~~(?<struck>\S(?:[\s\S]*?\S)??)~~`,
    String.raw`\*(?<emphasis>[^\s*](?:[^*]*?[^\s*])??)\*(?!\*)`,
    String.raw`(?<![\w_])_(?<emphasis2>[^\s_](?:[^_]*?[^\s_])??)_(?![\w_])`,
  ].join("|"),
  "g",
);

/** Longer stretches than this are shown as they are: the cost of reading marks must stay bounded. */
const LONGEST = 8_000;
const DEEPEST = 6;

export function parseInline(text: string, depth = 0): Inline[] {
  if (text.length > LONGEST || depth > DEEPEST) return [{ type: "text", text }];
  const out: Inline[] = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [inline, length] = readToken(match, depth);
    plain(out, text.slice(end, match.index));
    out.push(inline);
    plain(out, match[0].slice(length));
    end = match.index + match[0].length;
  }
  plain(out, text.slice(end));
  return joined(out);
}

/** The inline of a token, and how much of the matched text it took. */
function readToken(match: RegExpMatchArray, depth: number): [Inline, number] {
  const whole = match[0];
  const group = match.groups ?? {};
  const inner = (text: string) => parseInline(text, depth + 1);
  if (group.escaped !== undefined) return [{ type: "text", text: group.escaped }, whole.length];
  if (group.code !== undefined) return [{ type: "code", text: unpadded(group.code) }, whole.length];
  if (group.href !== undefined) {
    const href = safeHref(group.href);
    if (!href) return [{ type: "text", text: whole }, whole.length];
    const label = group.label || href;
    return [{ type: "link", href, children: unlinked(inner(label)) }, whole.length];
  }
  const address = group.angle ?? (group.bare === undefined ? undefined : trimmed(group.bare));
  if (address !== undefined) {
    const href = safeHref(address);
    const length = group.angle === undefined ? address.length : whole.length;
    if (!href) return [{ type: "text", text: whole.slice(0, length) }, length];
    return [{ type: "link", href, children: [{ type: "text", text: address }] }, length];
  }
  const strong = group.strong ?? group.strong2;
  if (strong !== undefined) return [{ type: "strong", children: inner(strong) }, whole.length];
  if (group.struck !== undefined) return [{ type: "struck", children: inner(group.struck) }, whole.length];
  return [{ type: "emphasis", children: inner(group.emphasis ?? group.emphasis2 ?? "") }, whole.length];
}

/** Only addresses that open a page or a mail; no `javascript:`, no `data:`, nothing relative to the gateway. */
export function safeHref(href: string): string | undefined {
  try {
    const url = new URL(href);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

/** A bare address ends before the punctuation of the sentence around it. */
function trimmed(address: string): string {
  const cut = address.replace(/[.,;:!?*_~'"。，；：！？）】」]+$/u, "");
  if (cut.endsWith(")") && !cut.includes("(")) return trimmed(cut.slice(0, -1));
  return cut;
}

function unpadded(code: string): string {
  return code.startsWith(" ") && code.endsWith(" ") && code.trim() !== "" ? code.slice(1, -1) : code;
}

/** A link inside a link's label is only its text. */
function unlinked(inlines: Inline[]): Inline[] {
  return inlines.flatMap((inline) => (inline.type === "link" ? inline.children : [inline]));
}

function plain(out: Inline[], text: string): void {
  if (text !== "") out.push({ type: "text", text });
}

function joined(inlines: Inline[]): Inline[] {
  const out: Inline[] = [];
  for (const inline of inlines) {
    const last = out.at(-1);
    if (inline.type === "text" && last?.type === "text") out[out.length - 1] = { type: "text", text: last.text + inline.text };
    else out.push(inline);
  }
  return out;
}
