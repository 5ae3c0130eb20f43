/**
 * Questions of other conversations and of the command line: they wait for the same person, whatever is open here.
 */
import { useSentences } from "../language";
import { type Asked, isPending } from "../questions";
import { Icon } from "./Icon";
import { type Decide, QuestionCard } from "./QuestionCard";

interface Props {
  others: Asked[];
  decide: Decide;
  dismiss(id: string): void;
}

export function OtherQuestions({ others, decide, dismiss }: Props) {
  const say = useSentences();
  if (others.length === 0) return null;
  const waiting = others.filter(({ question }) => isPending(question));
  return (
    <section className="others" aria-label={say("otherQuestions")}>
      <p className="unseen" role="status">
        {waiting.map(({ question }) => say("askTitle", { tool: question.tool })).join(" ")}
      </p>
      {others.map((asked) => (
        <QuestionCard key={asked.question.id} asked={asked} decide={decide}>
          <span className="from">{say("askFrom", { agent: asked.question.agent, session: asked.question.session })}</span>
          {!isPending(asked.question) && (
            <button type="button" className="plain" aria-label={say("dismiss")} onClick={() => dismiss(asked.question.id)}>
              <Icon name="close" />
            </button>
          )}
        </QuestionCard>
      ))}
    </section>
  );
}
