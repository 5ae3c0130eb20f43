/**
 * One message on the screen: who spoke, the text, and for an own message how it fares.
 */
import { memo } from "react";
import type { Language } from "../catalogue";
import { useLanguage, useSentences } from "../language";
import { Markdown } from "../markdown/Markdown";
import { isPending } from "../questions";
import type { AgentRow, NoteRow, Row, Status, UserRow } from "../view";
import { CopyButton } from "./CopyButton";
import { Icon, type IconName, Mark } from "./Icon";
import { type Decide, QuestionCard } from "./QuestionCard";
import { Tools } from "./Tools";

export interface RowVerbs {
  decide: Decide;
  resend(key: string): void;
  discard(key: string): void;
  ask(text: string): void;
}

interface Props {
  row: Row;
  agent: string;
  verbs: RowVerbs;
}

function Rendered({ row, agent, verbs }: Props) {
  switch (row.speaker) {
    case "user":
      return <Own row={row} verbs={verbs} />;
    case "agent":
      return <Answer row={row} agent={agent} verbs={verbs} />;
    case "note":
      return <Note row={row} agent={agent} />;
  }
}

/** Rows are made anew with every event; one that says the same as before is not drawn again. */
export const MessageRow = memo(
  Rendered,
  (a, b) => a.agent === b.agent && a.verbs === b.verbs && JSON.stringify(a.row) === JSON.stringify(b.row),
);

function Own({ row, verbs }: { row: UserRow; verbs: RowVerbs }) {
  const say = useSentences();
  const again = () => (row.unsentKey === undefined ? verbs.ask(row.text) : verbs.resend(row.unsentKey));
  return (
    <article className="row own" data-speaker="user" data-status={row.status} aria-label={say("you")}>
      <div className="bubble">{row.text}</div>
      <footer>
        <CopyButton text={row.text} label={say("copy")} />
        <Time at={row.at} />
        <StatusNote row={row} />
        {row.retry && (
          <button type="button" className="small" onClick={again}>
            <Icon name="retry" /> {say("retry")}
          </button>
        )}
        {row.status === "refused" && (
          <button type="button" className="small" onClick={() => row.unsentKey && verbs.discard(row.unsentKey)}>
            {say("discard")}
          </button>
        )}
      </footer>
    </article>
  );
}

const icons: Record<Status, IconName> = {
  sending: "clock",
  waiting: "clock",
  queued: "check",
  running: "check",
  answered: "checks",
  stopped: "stop",
  refused: "alert",
  failed: "alert",
  interrupted: "alert",
};

function StatusNote({ row }: { row: UserRow }) {
  const say = useSentences();
  const reason = row.error ? row.error.message || row.error.code : "";
  const hint = row.error?.hint;
  return (
    <span className={`status ${row.status}`}>
      <Icon name={icons[row.status]} />
      <span className="status-text">
        {sentence()}
        {hint && <span className="hint">{hint}</span>}
      </span>
    </span>
  );

  function sentence(): string {
    if (row.error?.code === "UNCONFIRMED") return say("unconfirmed");
    if (row.status === "interrupted" && reason === "") return say("interruptedPlain");
    return say(row.status, { reason });
  }
}

function Answer({ row, agent, verbs }: { row: AgentRow; agent: string; verbs: RowVerbs }) {
  const say = useSentences();
  const isOver = row.phase === "final" || row.phase === "over";
  return (
    <article className="row answer" data-speaker="agent" data-phase={row.phase} data-run={row.runId} aria-label={agent}>
      <header>
        <Mark />
        <span className="name">{agent}</span>
        {isOver && <Time at={row.at} />}
      </header>
      {row.tools.length > 0 && <Tools tools={row.tools} isOver={isOver} />}
      <Words row={row} agent={agent} />
      {row.questions.map((asked) => (
        <QuestionCard key={asked.question.id} asked={asked} decide={verbs.decide} />
      ))}
      {row.phase === "final" && row.text !== "" && (
        <footer>
          <CopyButton text={row.text} label={say("copy")} />
        </footer>
      )}
    </article>
  );
}

function Words({ row, agent }: { row: AgentRow; agent: string }) {
  const say = useSentences();
  // Then it is the reader's turn, and nothing comes.
  const waits = row.questions.some(({ question }) => isPending(question));
  switch (row.phase) {
    case "over":
      return null;
    case "streaming":
      return <Markdown text={row.text} tail={waits ? undefined : <span className="caret" />} />;
    case "final":
      return row.text === "" ? <p className="silent">{say("silent")}</p> : <Markdown text={row.text} />;
    case "thinking":
      if (waits) return null;
      return (
        <p className="thinking">
          <span className="unseen">{say("thinking", { agent })}</span>
          <i />
          <i />
          <i />
        </p>
      );
  }
}

function Note({ row, agent }: { row: NoteRow; agent: string }) {
  const say = useSentences();
  return (
    <p className="row note" data-speaker="note">
      {say("summedUp", { agent })} <Time at={row.at} />
    </p>
  );
}

function Time({ at }: { at: number }) {
  const { language } = useLanguage();
  const date = new Date(at);
  const today = date.toDateString() === new Date().toDateString();
  const clock: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit" };
  const format = today ? clock : { ...clock, month: "short" as const, day: "numeric" as const };
  return <time dateTime={date.toISOString()}>{date.toLocaleString(locale(language), format)}</time>;
}

/** An English reader's own way to write times, if the browser is English too. */
function locale(language: Language): string {
  if (language === "zh") return "zh-CN";
  return navigator.languages.find((tag) => tag.startsWith("en")) ?? "en";
}
