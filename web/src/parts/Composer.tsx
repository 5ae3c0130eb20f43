/**
 * Where a person writes. Enter sends, Shift+Enter begins a line; an Enter that ends an input method's word does
 * neither. What was written and not sent is kept a session, so that a reload does not lose it.
 */
import { type KeyboardEvent, useEffect, useLayoutEffect, useRef, useState } from "react";
import { useSentences } from "../language";
import { Icon } from "./Icon";

interface Props {
  session: string;
  agent: string;
  running: string | undefined;
  stopping: boolean;
  send(text: string): void;
  stop(runId: string): void;
}

const TALLEST_PX = 220;
const draftName = (session: string) => `tidegate.draft.${session}`;

function readDraft(session: string): string {
  try {
    return sessionStorage.getItem(draftName(session)) ?? "";
  } catch {
    return "";
  }
}

function writeDraft(session: string, text: string): void {
  try {
    if (text === "") sessionStorage.removeItem(draftName(session));
    else sessionStorage.setItem(draftName(session), text);
  } catch {
    // The draft lasts as long as the page.
  }
}

/** Give it `key={session}`: each conversation has its own draft. */
export function Composer({ session, agent, running, stopping, send, stop }: Props) {
  const say = useSentences();
  const [text, setText] = useState(() => readDraft(session));
  const field = useRef<HTMLTextAreaElement>(null);
  const empty = text.trim() === "";

  useEffect(() => {
    // A phone would raise its keyboard over the conversation.
    if (matchMedia("(hover: hover)").matches) field.current?.focus();
  }, []);
  useEffect(() => writeDraft(session, text), [session, text]);
  useLayoutEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, TALLEST_PX)}px`;
  }, [text]);

  const submit = () => {
    if (empty) return;
    send(text.trim());
    setText("");
    field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    submit();
  };

  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <label className="unseen" htmlFor="message">
        {say("messageLabel")}
      </label>
      <textarea
        id="message"
        ref={field}
        rows={1}
        value={text}
        placeholder={say("placeholder", { agent })}
        aria-describedby="keys"
        enterKeyHint="send"
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
      />
      {running !== undefined && (
        <button type="button" className="round stop" disabled={stopping} onClick={() => stop(running)}>
          <Icon name="stop" />
          <span className="unseen">{say(stopping ? "stopping" : "stop")}</span>
        </button>
      )}
      <button type="submit" className="round send" disabled={empty} aria-label={say("send")} title={say("send")}>
        <Icon name="send" />
      </button>
      <p id="keys" className="keys">
        {say("keys")}
      </p>
    </form>
  );
}
