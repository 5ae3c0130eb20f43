/**
 * The tools a run used, as far as this page heard of them: what each was asked for, how it stands, what came of it.
 * Pure; the log of the gateway has the whole of it.
 */
import type { ToolNews } from "./wire";

export interface Tool {
  callId: string;
  attempt: number;
  name: string;
  /** What it was asked for, in a line. */
  gist: string;
  /** What it said: the end of it while it runs, the beginning once it is over. */
  text: string;
  state: "running" | "ok" | "failed";
  durationMs?: number;
}

/** Characters kept of what a tool that runs says. */
const KEPT = 4000;
/** Calls kept of one run. */
const MOST = 200;

export function withNews(tools: Tool[], news: ToolNews): Tool[] {
  const known = tools.find(({ callId }) => callId === news.callId);
  if (known && news.attempt < known.attempt) return tools;
  const isNew = !known || news.attempt > known.attempt;
  switch (news.phase) {
    case "start":
      return isNew ? put(tools, begun(news)) : tools;
    case "update":
      if (isNew || known.state !== "running") return tools;
      return put(tools, { ...known, text: (known.text + (news.text ?? "")).slice(-KEPT) });
    case "result": {
      const before = isNew ? begun(news) : known;
      const over: Tool = { ...before, text: news.text ?? "", state: news.ok === false ? "failed" : "ok" };
      return put(tools, typeof news.durationMs === "number" ? { ...over, durationMs: news.durationMs } : over);
    }
  }
}

function begun({ callId, attempt, name, gist }: ToolNews): Tool {
  return { callId, attempt, name: name ?? "", gist: gistOf(gist ?? ""), text: "", state: "running" };
}

/** Arguments that say what a call is about, the most telling first. */
const TELLING = "command cmd path file url query pattern task message text name sessionKey prompt".split(" ");

/** What a call is about, from its arguments: they are JSON in a line, and cut when there are many. */
export function gistOf(args: string): string {
  const fields = [...args.matchAll(/"(\w+)":"((?:[^"\\]|\\.)*)("|…?$)/g)].map(([, name, value]) => [name, plain(value ?? "")]);
  const find = (wanted: string) => fields.find(([name]) => name === wanted)?.[1];
  const about = TELLING.map(find).find((value) => value !== undefined);
  const action = find("action");
  if (action !== undefined) return about === undefined ? action : `${action} ${about}`;
  return about ?? (args === "{}" ? "" : args);
}

/** A piece of JSON text as people read it; one that was cut inside an escape stays as it is. */
function plain(text: string): string {
  try {
    return (JSON.parse(`"${text.replace(/…$/, "")}"`) as string) + (text.endsWith("…") ? "…" : "");
  } catch {
    return text;
  }
}

/** In the place of the call of the same id, or at the end. */
function put(tools: Tool[], tool: Tool): Tool[] {
  const index = tools.findIndex(({ callId }) => callId === tool.callId);
  return index < 0 ? [...tools, tool].slice(-MOST) : tools.with(index, tool);
}
