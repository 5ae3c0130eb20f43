/**
 * A call of a tool that waits for a person: exactly what would be done, what follows from each answer, the answers; and
 * afterwards what became of it. The texts of a question are inert already: what could hide or move text is spelled out.
 */
import { type FormEvent, type ReactNode, useId, useState } from "react";
import { useSentences } from "../language";
import { type Asked, isPending } from "../questions";
import type { Decision, Question } from "../wire";
import { Icon } from "./Icon";
import { saySeconds, useSecondsUntil } from "./seconds";

export type Decide = (decision: Decision) => void;

export function QuestionCard({ asked, decide, children }: { asked: Asked; decide: Decide; children?: ReactNode }) {
  const say = useSentences();
  const title = useId();
  const { question } = asked;
  const pending = isPending(question);
  return (
    <section
      className={pending ? "question" : "question settled"}
      data-question={question.id}
      data-state={question.state}
      aria-labelledby={title}
    >
      <header>
        <Icon name={pending ? "question" : isAllowed(question) ? "check" : "close"} />
        <h3 id={title}>{say(pending ? "askTitle" : "askedTitle", { tool: question.tool })}</h3>
        {children}
      </header>
      {question.shell && <p className="shell">{say("askShell")}</p>}
      <pre className="exactly" tabIndex={0}>
        {whatOf(question).join("\n")}
      </pre>
      {question.preview && <Preview text={question.preview} />}
      {pending && <Facts question={question} />}
      {pending ? <Answers asked={asked} decide={decide} /> : <Outcome asked={asked} />}
      {asked.error && (
        <p className="problem" role="alert">
          {say("askNotCounted", { reason: asked.error.message || asked.error.code })}
        </p>
      )}
    </section>
  );
}

/** The programs, else the arguments as they are. */
function whatOf({ commands, args, tool }: Question): string[] {
  if (commands.length > 0) return commands;
  const fields = typeof args === "object" && args !== null ? Object.entries(args) : [];
  if (fields.length === 0) return [tool];
  return fields.map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
}

function Preview({ text }: { text: string }) {
  const isDiff = /^@@ -/m.test(text);
  const kind = (line: string) => {
    if (!isDiff || /^(\+\+\+|---) /.test(line)) return "";
    return line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "";
  };
  return (
    <pre className="preview" tabIndex={0}>
      {text.split("\n").map((line, index) => (
        <span key={index} className={kind(line)}>
          {`${line}\n`}
        </span>
      ))}
    </pre>
  );
}

function Facts({ question }: { question: Question }) {
  const say = useSentences();
  const { cwd, env, subjects, reason, rule, prefix } = question;
  // The folder itself is said already.
  const touched = subjects.filter((subject) => !cwd || subject !== "path .");
  const facts: [string, string][] = [];
  if (cwd) facts.push([say("askIn"), cwd]);
  if (env.length > 0) facts.push([say("askWith"), env.join("\n")]);
  if (touched.length > 0) facts.push([say("askTouches"), touched.join("\n")]);
  facts.push([say("askWhy"), reason]);
  facts.push([say("askAlwaysMeans"), rule ?? say("askNoRule")]);
  if (prefix) facts.push([say("askPrefixMeans"), prefix.rule]);
  return (
    <dl>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Answers({ asked, decide }: { asked: Asked; decide: Decide }) {
  const say = useSentences();
  const [telling, setTelling] = useState(false);
  const [reason, setReason] = useState("");
  const { id, rule, prefix, expiresAt } = asked.question;
  const left = useSecondsUntil(expiresAt);
  const field = useId();
  const deny = (event: FormEvent) => {
    event.preventDefault();
    const told = reason.trim();
    decide(told === "" ? { id, decision: "deny" } : { id, decision: "deny", reason: told });
  };
  return (
    <form className="answers" onSubmit={deny} aria-busy={asked.sending}>
      <fieldset disabled={asked.sending}>
        <button type="button" className="choice yes" onClick={() => decide({ id, decision: "allow-once" })}>
          {say("allowOnce")}
        </button>
        {rule && (
          <button type="button" className="choice" onClick={() => decide({ id, decision: "allow-always" })}>
            {say("allowAlways")}
          </button>
        )}
        {prefix && (
          <button
            type="button"
            className="choice"
            onClick={() => decide({ id, decision: "allow-always", prefix: prefix.words })}
          >
            {say("allowPrefix")}
          </button>
        )}
        <button type="submit" className="choice no">
          {say("deny")}
        </button>
        {telling && (
          <div className="reason">
            <label htmlFor={field}>{say("denyReason")}</label>
            <input id={field} value={reason} autoFocus maxLength={500} onChange={(event) => setReason(event.target.value)} />
          </div>
        )}
      </fieldset>
      <p className="left">
        <span>{asked.sending ? say("askSending") : say("askLeft", { time: saySeconds(say, left) })}</span>
        {!telling && !asked.sending && (
          <button type="button" className="quiet" onClick={() => setTelling(true)}>
            {say("denyWhy")}
          </button>
        )}
      </p>
    </form>
  );
}

function isAllowed({ state }: Question): boolean {
  return state === "approved" || state === "used";
}

function Outcome({ asked: { question, mine } }: { asked: Asked }) {
  const say = useSentences();
  const { answerReason: reason, rule } = question;
  return (
    <p className="outcome" role="status">
      {words()}
    </p>
  );

  function words(): string {
    if (question.state === "expired") return say("askExpired");
    if (question.state === "cancelled") return say("askCancelled");
    const allowed = isAllowed(question);
    if (mine === undefined) return say(allowed ? "allowedElsewhere" : "deniedElsewhere");
    if (mine === "allow-always" && allowed) return rule ? say("allowedAlways", { rule }) : say("allowed");
    if (allowed) return say("allowed");
    return reason ? say("deniedWhy", { reason }) : say("denied");
  }
}
