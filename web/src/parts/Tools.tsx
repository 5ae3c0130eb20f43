/**
 * What an agent does besides speaking: one line a tool call, with its output behind it. While it works every call is in
 * view; afterwards they step back behind one line.
 */
import { useSentences } from "../language";
import type { ToolRow } from "../view";
import { Icon, type IconName } from "./Icon";
import { sayDuration } from "./seconds";

export function Tools({ tools, isOver }: { tools: ToolRow[]; isOver: boolean }) {
  const say = useSentences();
  const list = (
    <ul className="tools">
      {tools.map((tool) => (
        <li key={tool.callId}>
          <ToolLine tool={tool} />
        </li>
      ))}
    </ul>
  );
  if (!isOver || tools.length < 2) return list;
  const failed = tools.filter(({ state }) => state === "failed").length;
  return (
    <details className="deeds">
      <summary>
        <Icon name="chevron" />
        {failed > 0 ? say("usedToolsFailed", { n: tools.length, failed }) : say("usedTools", { n: tools.length })}
      </summary>
      {list}
    </details>
  );
}

const icons: Record<Exclude<ToolRow["state"], "running">, IconName> = {
  ok: "check",
  failed: "close",
  asking: "question",
  unknown: "dash",
};

const sentences = {
  running: "toolRunning",
  ok: "toolOk",
  failed: "toolFailed",
  asking: "toolAsking",
  unknown: "toolUnknown",
} as const;

function ToolLine({ tool }: { tool: ToolRow }) {
  const say = useSentences();
  const { state, name, gist, text, durationMs } = tool;
  const stands = say(sentences[state]);
  const note = durationMs === undefined ? stands : sayDuration(say, durationMs);
  return (
    <details className={`tool ${state}`} data-tool={name} data-state={state}>
      <summary>
        <span className="sign" title={stands}>
          {state === "running" ? <i className="spin" /> : <Icon name={icons[state]} />}
          <span className="unseen">{stands}</span>
        </span>
        <span className="tool-name">{name}</span>
        <span className="gist">{gist}</span>
        <span className="took" aria-hidden={durationMs === undefined}>
          {note}
        </span>
        <Icon name="chevron" />
      </summary>
      <div className="tool-more">
        {gist !== "" && <pre className="asked-for">{gist}</pre>}
        {/* A long output scrolls by keyboard too. */}
        {text.trim() === "" ? <p>{say("toolSilent")}</p> : <pre tabIndex={0}>{text.trimEnd()}</pre>}
      </div>
    </details>
  );
}
