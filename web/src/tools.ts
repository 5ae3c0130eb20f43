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
  return { callId, attempt, name: name ?? "", gist: gist ?? "", text: "", state: "running" };
}

/** In the place of the call of the same id, or at the end. */
function put(tools: Tool[], tool: Tool): Tool[] {
  const index = tools.findIndex(({ callId }) => callId === tool.callId);
  return index < 0 ? [...tools, tool].slice(-MOST) : tools.with(index, tool);
}
