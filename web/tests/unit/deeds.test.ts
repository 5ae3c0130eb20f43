/**
 * Tools and questions: what is known of them, and where they stand on the screen.
 */
import { describe, expect, test } from "vitest";
import * as questions from "../../src/questions";
import { type Action, reduce } from "../../src/state";
import { gistOf, type Tool, withNews } from "../../src/tools";
import { elsewhere, rows } from "../../src/view";
import type { Question, ToolNews } from "../../src/wire";
import { connecting, delta, done, id, line, play, run, runEvent, snapshot } from "./build";

const start = (call: string, more: Partial<ToolNews> = {}): ToolNews => {
  return { runId: id(1), attempt: 1, callId: call, phase: "start", name: "exec", gist: '{"command":"git push"}', ...more };
};
const update = (call: string, text: string, attempt = 1): ToolNews => {
  return { runId: id(1), attempt, callId: call, phase: "update", text };
};
const result = (call: string, ok: boolean, more: Partial<ToolNews> = {}): ToolNews => {
  return { runId: id(1), attempt: 1, callId: call, phase: "result", name: "exec", ok, text: "said", durationMs: 5, ...more };
};
const told = (news: ToolNews): Action => ({ type: "tool", data: news });
const known = (...news: ToolNews[]) => news.reduce(withNews, [] as Tool[]);

describe("a tool", () => {
  test("begins, says something, and ends once, however often it is told", () => {
    const begun: Tool = { callId: "c1", attempt: 1, name: "exec", gist: "git push", text: "", state: "running" };
    expect(known(start("c1"))).toEqual([begun]);
    expect(known(start("c1"), update("c1", "a"), update("c1", "b"))).toEqual([{ ...begun, text: "ab" }]);
    const over: Tool[] = [{ ...begun, text: "said", state: "failed", durationMs: 5 }];
    expect(known(start("c1"), result("c1", false))).toEqual(over);
    const again = [start("c1"), update("c1", "late"), result("c1", false), start("c1"), update("c1", "later")];
    expect(known(start("c1"), result("c1", false), ...again)).toEqual(over);
  });

  test("of a later attempt replaces the same call of the one before, and not the other way round", () => {
    const second = known(start("c1"), result("c1", true), start("c1", { attempt: 2 }));
    expect(second).toMatchObject([{ attempt: 2, state: "running", text: "" }]);
    expect(withNews(second, result("c1", true))).toBe(second);
    expect(known(update("c1", "of nothing"))).toEqual([]);
  });

  test("keeps the end of what it says, and a run the last of its calls", () => {
    const chatty = known(start("c1"), ...Array.from({ length: 100 }, (_, n) => update("c1", `${n}`.padStart(100, "."))));
    expect(chatty[0]?.text.length).toBe(4000);
    expect(chatty[0]?.text.endsWith("99")).toBe(true);
    expect(known(...Array.from({ length: 300 }, (_, n) => start(`c${n}`))).length).toBe(200);
  });

  test.each([
    ['{"command":"git push","timeout":5}', "git push"],
    ['{"timeout":5,"path":"a \\"b\\".md"}', 'a "b".md'],
    ['{"action":"open","url":"https://a.example"}', "open https://a.example"],
    ['{"action":"close"}', "close"],
    ['{"content":"x","command":"echo 1\\necho…', "echo 1\necho…"],
    ['{"n":1}', '{"n":1}'],
    ["{}", ""],
  ])("%s is about %s", (args, gist) => {
    expect(gistOf(args)).toBe(gist);
  });
});

const shown = (state: ReturnType<typeof play>, asked: questions.Questions = []) =>
  rows(state, asked).map((row) => {
    if (row.speaker !== "agent") return row.speaker;
    return `agent ${row.phase} [${row.tools.map((tool) => tool.state)}] [${row.questions.map((one) => one.question.state)}]`;
  });

describe("on the screen", () => {
  const working = [connecting, snapshot([], [run(1, "running")]), told(start("c1")), told(start("c2"))];

  test("tools stand at the first words of their run, and stay when it is answered", () => {
    expect(shown(play(...working))).toEqual(["user", "agent thinking [running,running] []"]);
    const talking = play(...working, told(result("c1", true)), delta(1, 1, 1, "one"));
    expect(shown(talking)).toEqual(["user", "agent streaming [ok,running] []"]);
    const lines = [line(1, "user", "q1", 1), line(2, "assistant", "one", 1), line(4, "assistant", "two", 1)];
    const over = reduce(talking, done(1, ...lines));
    expect(shown(over)).toEqual(["user", "agent final [ok,unknown] []", "agent final [] []"]);
  });

  test("what a run without words did is still shown, and one that did nothing shows nothing", () => {
    expect(shown(play(...working, runEvent(1, "aborted")))).toEqual(["user", "agent over [unknown,unknown] []"]);
    expect(shown(play(connecting, snapshot([], [run(1, "aborted")])))).toEqual(["user"]);
  });

  test("calls of an attempt that was cut off are not shown as running", () => {
    const state = play(...working, runEvent(1, "running", { attempt: 2 }), told(start("c3", { attempt: 2 })));
    expect(shown(state)).toEqual(["user", "agent thinking [unknown,unknown,running] []"]);
  });

  test("tools survive a new snapshot of the same runs, and go with runs that are no more", () => {
    const state = play(...working, connecting, snapshot([], [run(1, "running")]));
    expect(shown(state)).toEqual(["user", "agent thinking [running,running] []"]);
    expect(play(...working, connecting, snapshot()).tools).toEqual({});
  });

  test("before the first snapshot tools are nothing", () => {
    expect(play(connecting, told(start("c1"))).tools).toEqual({});
  });

  test("a question stands with its run, its tool waits, and those of others stand apart", () => {
    const asked = [question("a", { run: id(1) }), question("b", { run: id(7) }), question("c")].reduce(questions.told, []);
    const state = play(connecting, snapshot([], [run(1, "running")]), told(start("c1")));
    expect(shown(state, asked)).toEqual(["user", "agent thinking [asking] [pending]"]);
    const ids = (list: readonly questions.Asked[]) => list.map((one) => one.question.id);
    expect(ids(elsewhere(rows(state, asked), asked))).toEqual(["b", "c"]);
    // One that somebody else answered is nobody's business here; one answered here says what became of it.
    const answered = questions.answering(asked, "c", "allow-once");
    const settled = [question("b", { state: "denied" }), question("c", { state: "approved" })].reduce(questions.told, answered);
    expect(ids(elsewhere(rows(state, settled), settled))).toEqual(["c"]);
  });
});

function question(name: string, more: Partial<Question> = {}): Question {
  return {
    id: name,
    agent: "main",
    session: "main",
    tool: "exec",
    state: "pending",
    requester: "model",
    reason: "why",
    args: {},
    commands: ["git push"],
    shell: false,
    env: [],
    subjects: [],
    createdAt: 1,
    expiresAt: 2,
    ...more,
  };
}

describe("a question", () => {
  const states = (list: questions.Questions) =>
    list.map(({ question: { id: name, state }, mine, sending }) => `${name} ${state} ${mine ?? "-"}${sending ? " sending" : ""}`);
  const one = questions.told([], question("a"));

  test("is answered, and what is over stays over", () => {
    const sent = questions.answering(one, "a", "allow-always");
    expect(states(sent)).toEqual(["a pending allow-always sending"]);
    const over = questions.told(sent, question("a", { state: "approved" }));
    expect(states(over)).toEqual(["a approved allow-always"]);
    expect(questions.told(over, question("a"))).toBe(over);
  });

  test("that was answered elsewhere first is not ours, even if our answer was on its way", () => {
    const sent = questions.answering(one, "a", "allow-once");
    expect(states(questions.overtaken(sent, question("a", { state: "denied" })))).toEqual(["a denied -"]);
  });

  test("whose answer may not be given says why, and can be answered otherwise", () => {
    const error = { code: "FORBIDDEN", message: "not yours" };
    const failed = questions.refused(questions.answering(one, "a", "allow-once"), "a", error);
    expect(failed).toMatchObject([{ sending: false, error }]);
    expect(states(failed)).toEqual(["a pending -"]);
    expect(questions.answering(failed, "a", "deny")[0]).not.toHaveProperty("error");
  });

  test("whose answer was lost may have been settled by it, also if we answer again", () => {
    const error = { code: "UNREACHABLE", message: "lost" };
    const lost = questions.lost(questions.answering(one, "a", "deny"), "a", error);
    expect(lost).toMatchObject([{ mine: "deny", sending: false, error }]);
    const denied = question("a", { state: "denied" });
    expect(questions.told(lost, denied)[0]).not.toHaveProperty("error");
    expect(states(questions.overtaken(questions.answering(lost, "a", "deny"), denied))).toEqual(["a denied deny"]);
    // It was settled before we heard that the answer was lost.
    const settled = questions.told(one, denied);
    expect(questions.lost(settled, "a", error)).toBe(settled);
  });

  test("that the gateway does not list any more is gone, and settled ones are added only if they were asked here", () => {
    const both = questions.told(one, question("b"));
    const list = [question("a", { state: "expired" }), question("x", { state: "denied" }), question("n", { createdAt: 5 })];
    expect(states(questions.listed(both, list))).toEqual(["a expired -", "n pending -"]);
    expect(states(questions.seen(questions.listed(both, list)))).toEqual(["n pending -"]);
    expect(questions.dismissed(one, "a")).toEqual([]);
  });

  test("is one of at most a hundred", () => {
    const many = Array.from({ length: 150 }, (_, n) => question(`q${n}`)).reduce(questions.told, [] as questions.Questions);
    expect([many.length, many.at(-1)?.question.id]).toEqual([100, "q149"]);
  });
});
