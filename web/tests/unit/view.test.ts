/**
 * The order and the state of rows on the screen.
 */
import { expect, test } from "vitest";
import { type Action, reduce } from "../../src/state";
import { rows } from "../../src/view";
import { connecting, done, id, line, play, run, runEvent, seen, snapshot, typed } from "./build";

const error = { code: "MODEL_UNAVAILABLE", message: "no" } as const;
const turn = (n: number, seq: number) => [line(seq, "user", `q${n}`, n), line(seq + 1, "assistant", `a${n}`, n)];

test("a run that ended without an answer stands where it was asked", () => {
  const state = play(connecting, snapshot([...turn(1, 1), ...turn(3, 3)], [run(2, "failed", { error })]));
  expect(seen(state)).toEqual([
    "user(answered): q1",
    "agent(final): a1",
    "user(failed): q2",
    "user(answered): q3",
    "agent(final): a3",
  ]);
});

test("ids without time fall back to the clock", () => {
  const lines = turn(1, 1).map((entry) => ({ ...entry, runId: "old", at: 500 }));
  const state = play(connecting, snapshot(lines, [run(2, "failed", { runId: "older", at: 400 })]));
  expect(seen(state)).toEqual(["user(failed): q2", "user(answered): q1", "agent(final): a1"]);
});

test("a waiting run stays behind the answer of the one before it, though it was accepted earlier", () => {
  const state = play(
    connecting,
    snapshot([], [run(1, "running"), run(2, "queued")]),
    done(1, ...turn(1, 1).map((entry) => ({ ...entry, at: 9_999 }))),
  );
  expect(seen(state)).toEqual(["user(answered): q1", "agent(final): a1", "user(queued): q2"]);
});

test("the running run stands before those that wait, unsent messages last", () => {
  const state = play(connecting, snapshot([], [run(2, "queued"), run(1, "running")]), typed(3));
  expect(seen(state)).toEqual(["user(running): q1", "agent(thinking): ", "user(queued): q2", "user(sending): q3"]);
});

test("a stopped run keeps what it said, unless the log has it", () => {
  const partial = { text: "half", seq: 1 };
  const stopped = play(connecting, snapshot([], [run(1, "running", { partial })]), runEvent(1, "aborted"));
  expect(seen(stopped)).toEqual(["user(stopped): q1", "agent(final): half"]);
  const logged = play(connecting, snapshot(turn(1, 1), [run(1, "aborted", { partial })]));
  expect(seen(logged)).toEqual(["user(stopped): q1", "agent(final): a1"]);
});

test("retry is offered on what failed and was not asked again", () => {
  const twice = play(connecting, snapshot([], [run(1, "failed", { error }), run(2, "failed", { error, text: "q1" })]));
  expect(rows(twice).map((row) => row.speaker === "user" && row.retry)).toEqual([false, true]);
  const refused = play(connecting, snapshot(), typed(1), { type: "refused", key: "k1", error });
  expect(rows(refused)).toMatchObject([{ retry: true, unsentKey: "k1", error }]);
});

test("a logged question without an answer or a run says that none came", () => {
  expect(seen(play(connecting, snapshot([line(1, "user", "q1", 1)])))).toEqual(["user(interrupted): q1"]);
});

test("a quiet line says where the conversation was summed up, once, also while it goes on", () => {
  const summary = { seq: 3, at: 300 };
  const again = { seq: 6, at: 600 };
  const begun = play(connecting, {
    type: "snapshot",
    data: { session: "main", messages: [...turn(1, 1), ...turn(2, 4)], summaries: [summary], runs: [run(3, "running")] },
  });
  const before = ["user(answered): q1", "agent(final): a1", "note", "user(answered): q2", "agent(final): a2"];
  expect(seen(begun)).toEqual([...before, "user(running): q3", "agent(thinking): "]);
  const event: Action = { type: "done", data: { runId: id(3), sessionId: "log-1", messages: turn(3, 7), summaries: [summary, again] } };
  const ended = [...before, "note", "user(answered): q3", "agent(final): a3"];
  expect(seen(reduce(begun, event))).toEqual(ended);
  expect(seen(reduce(reduce(begun, event), event))).toEqual(ended);
});

test("a summary behind the last line stands at its end, and one that no connection tells of is gone", () => {
  const state = play(connecting, {
    type: "snapshot",
    data: { session: "main", messages: turn(1, 1), summaries: [{ seq: 9, at: 9 }], runs: [] },
  });
  expect(seen(state)).toEqual(["user(answered): q1", "agent(final): a1", "note"]);
  expect(seen(reduce(state, snapshot(turn(1, 1))))).toEqual(["user(answered): q1", "agent(final): a1"]);
});
