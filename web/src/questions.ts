/**
 * Calls of tools that wait for a person, and what became of those that were asked while this page was open. Pure: the
 * gateway decides which answer counts, this only shows it.
 */
import type { Decision, ErrorBody, Question } from "./wire";

export interface Asked {
  question: Question;
  /** What was answered on this page. */
  mine?: Decision["decision"];
  /** The answer is on its way. */
  sending: boolean;
  /** Why the answer did not count, as far as we know. */
  error?: ErrorBody;
  /** An answer of ours was lost on its way or back: it may have been the one that counted. */
  doubt?: true;
}

export type Questions = readonly Asked[];

/** Questions remembered at most. */
const MOST = 100;

export function isPending({ state }: Question): boolean {
  return state === "pending";
}

/** The gateway's whole list: a question that it does not know any more is over without our hearing how. */
export function listed(known: Questions, list: Question[]): Questions {
  const byId = new Map(list.map((question) => [question.id, question]));
  const kept = known.filter(({ question }) => byId.has(question.id) || !isPending(question));
  return list
    .filter((question) => isPending(question) || kept.some((asked) => asked.question.id === question.id))
    .sort((a, b) => a.createdAt - b.createdAt)
    .reduce(told, kept);
}

/** One question, as the gateway knows it now. What is over stays over, whatever comes late. */
export function told(known: Questions, question: Question): Questions {
  const asked = known.find((other) => other.question.id === question.id);
  if (!asked) return [...known, { question, sending: false }].slice(-MOST);
  if (isPending(question) && !isPending(asked.question)) return known;
  if (isPending(question)) return replaced(known, { ...asked, question });
  const { error: _, ...rest } = asked;
  return replaced(known, { ...rest, question, sending: false });
}

export function answering(known: Questions, id: string, mine: Decision["decision"]): Questions {
  const asked = known.find(({ question }) => question.id === id);
  if (!asked) return known;
  const { error: _, ...rest } = asked;
  return replaced(known, { ...rest, mine, sending: true });
}

/** The answer may not be given. */
export function refused(known: Questions, id: string, error: ErrorBody): Questions {
  const asked = known.find(({ question }) => question.id === id);
  if (!asked || !isPending(asked.question)) return known;
  const { mine: _, ...rest } = asked;
  return replaced(known, { ...rest, sending: false, error });
}

/** Nobody knows whether the answer got through. */
export function lost(known: Questions, id: string, error: ErrorBody): Questions {
  const asked = known.find(({ question }) => question.id === id);
  if (!asked || !isPending(asked.question)) return known;
  return replaced(known, { ...asked, sending: false, error, doubt: true });
}

/** Another answer came first, if it was not an earlier one of ours. */
export function overtaken(known: Questions, question: Question): Questions {
  return told(known, question).map((asked) => {
    if (asked.question.id !== question.id || asked.doubt) return asked;
    const { mine: _, ...rest } = asked;
    return { ...rest, sending: false };
  });
}

/** Another conversation is opened: what was settled in the one before has been seen. */
export function seen(known: Questions): Questions {
  return known.filter(({ question }) => isPending(question));
}

export function dismissed(known: Questions, id: string): Questions {
  return known.filter(({ question }) => question.id !== id);
}

function replaced(known: Questions, asked: Asked): Questions {
  return known.map((other) => (other.question.id === asked.question.id ? asked : other));
}
