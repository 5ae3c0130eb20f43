/**
 * The conversation's rows. It keeps the newest in view while the reader is at the end, leaves them alone when they
 * scrolled up, and tells a screen reader of finished answers, not of every word.
 */
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { useSentences } from "../language";
import type { Conversation } from "../state";
import { isPending } from "../questions";
import type { ErrorBody } from "../wire";
import type { Row } from "../view";
import { EmptyState } from "./EmptyState";
import { Icon } from "./Icon";
import { MessageRow, type RowVerbs } from "./MessageRow";

interface Props {
  conversation: Conversation;
  shown: Row[];
  /** Why the conversation cannot be shown. */
  problem: ErrorBody | undefined;
  openAgain(): void;
  agent: string;
  verbs: RowVerbs;
}

/** Closer to the end than this counts as being there. */
const NEAR_PX = 80;

export function Messages({ conversation, shown, problem, openAgain, agent, verbs }: Props) {
  const say = useSentences();
  const scroller = useRef<HTMLDivElement>(null);
  const { atEnd, toEnd } = useEnd(scroller, conversation.session, shown);
  const empty = conversation.ready && shown.length === 0;
  return (
    <div className="messages-frame">
      <div className="messages" ref={scroller} tabIndex={-1}>
        <div className="column" aria-busy={!conversation.ready}>
          {problem && <Refused problem={problem} openAgain={openAgain} />}
          {!conversation.ready && !problem && shown.length === 0 && <Loading />}
          {empty && <EmptyState agent={agent} ask={verbs.ask} />}
          {shown.map((row) => (
            <MessageRow key={row.id} row={row} agent={agent} verbs={verbs} />
          ))}
        </div>
      </div>
      <Announcer shown={shown} agent={agent} ready={conversation.ready} session={conversation.session} />
      {!atEnd && (
        <button type="button" className="latest" onClick={toEnd}>
          <Icon name="down" /> {say("latest")}
        </button>
      )}
    </div>
  );
}

function Loading() {
  const say = useSentences();
  return (
    <p className="loading">
      <i className="spin" /> {say("loading")}
    </p>
  );
}

function Refused({ problem, openAgain }: { problem: ErrorBody; openAgain(): void }) {
  const say = useSentences();
  return (
    <section className="cannot-open" role="alert">
      <Icon name="alert" />
      <h2>{say("cannotOpen")}</h2>
      <p>{problem.message || problem.code}</p>
      {problem.hint && <p>{problem.hint}</p>}
      <button type="button" className="small" onClick={openAgain}>
        <Icon name="retry" /> {say("retry")}
      </button>
    </section>
  );
}

function useEnd(scroller: React.RefObject<HTMLDivElement | null>, session: string, shown: Row[]) {
  const [atEnd, setAtEnd] = useState(true);
  const follows = useRef(true);
  const own = shown.filter((row) => row.speaker === "user").length;

  const toEnd = () => {
    follows.current = true;
    setAtEnd(true);
    const element = scroller.current;
    if (element) element.scrollTop = element.scrollHeight;
  };
  useEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const look = () => {
      const near = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX;
      follows.current = near;
      setAtEnd(near);
    };
    // Content or window may change its height without a scroll.
    const grow = new ResizeObserver(() => {
      if (follows.current) element.scrollTop = element.scrollHeight;
    });
    grow.observe(element);
    if (element.firstElementChild) grow.observe(element.firstElementChild);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      grow.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, [scroller]);
  // Whoever sends or opens something wants to see it.
  useLayoutEffect(toEnd, [session, own]);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element && follows.current) element.scrollTop = element.scrollHeight;
  }, [shown]);
  return { atEnd, toEnd };
}

function Announcer({ shown, agent, ready, session }: { shown: Row[]; agent: string; ready: boolean; session: string }) {
  const say = useSentences();
  const last = shown.at(-1);
  const [said, setSaid] = useState("");
  const known = useRef<{ session: string; id: string } | undefined>(undefined);
  useEffect(() => {
    if (!ready) return;
    const question = last?.speaker === "agent" ? last.questions.find((asked) => isPending(asked.question))?.question : undefined;
    const id = last ? `${last.id}${last.speaker === "agent" ? last.phase : ""}${question?.id ?? ""}` : "";
    const first = known.current?.session !== session;
    const same = known.current?.id === id;
    known.current = { session, id };
    if (first || same || last?.speaker !== "agent") return;
    if (question) return setSaid(say("askTitle", { tool: question.tool }));
    setSaid(last.phase === "final" ? say("answerFrom", { agent, text: last.text || say("silent") }) : say("thinking", { agent }));
  }, [last, ready, session, agent, say]);
  return (
    <div className="unseen" aria-live="polite" role="log">
      {said}
    </div>
  );
}
