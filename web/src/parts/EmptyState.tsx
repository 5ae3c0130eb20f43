/**
 * What a conversation without messages shows: what this is, and three things to try.
 */
import { useSentences } from "../language";
import { Mark } from "./Icon";

export function EmptyState({ agent, ask }: { agent: string; ask(text: string): void }) {
  const say = useSentences();
  return (
    <section className="empty">
      <Mark />
      <h2>{say("emptyTitle", { agent })}</h2>
      <p>{say("emptyBody")}</p>
      <ul>
        {(["tryPlan", "tryExplain", "tryDraft"] as const).map((sentence) => (
          <li key={sentence}>
            <button type="button" onClick={() => ask(say(sentence))}>
              {say(sentence)}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
