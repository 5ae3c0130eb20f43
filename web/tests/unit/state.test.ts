/**
 * The reducer's promise: whatever order events, answers and reloads come in, no line is lost and none is doubled.
 */
import { describe, expect, test } from "vitest";
import { reduce, type Action } from "../../src/state";
import { acknowledged, connecting, delta, done, id, line, play, run, runEvent, seen, snapshot, typed } from "./build";

const asked = line(1, "user", "q1", 1);
const answer = line(2, "assistant", "one two", 1);

describe("a plain turn", () => {
  const steps: [Action, string[]][] = [
    [snapshot(), []],
    [typed(1), ["user(sending): q1"]],
    [acknowledged(1), ["user(queued): q1"]],
    [runEvent(1, "queued"), ["user(queued): q1"]],
    [runEvent(1, "running"), ["user(running): q1", "agent(thinking): "]],
    [delta(1, 1, 1, "one"), ["user(running): q1", "agent(streaming): one"]],
    [delta(1, 1, 2, " two"), ["user(running): q1", "agent(streaming): one two"]],
    [runEvent(1, "completed"), ["user(answered): q1", "agent(final): one two"]],
    [done(1, asked, answer), ["user(answered): q1", "agent(final): one two"]],
  ];

  test("shows each step once", () => {
    let state = play(connecting);
    for (const [action, expected] of steps) {
      state = reduce(state, action);
      expect(seen(state)).toEqual(expected);
    }
  });

  test("gives the same when every event comes twice", () => {
    const twice = steps.flatMap(([action]): Action[] => (action.type === "snapshot" ? [action] : [action, action]));
    expect(seen(play(connecting, ...twice))).toEqual(["user(answered): q1", "agent(final): one two"]);
  });

  test("gives the same when the answer to the POST comes after the first events, or after all of them", () => {
    const events = [runEvent(1, "queued"), runEvent(1, "running"), delta(1, 1, 1, "one two"), done(1, asked, answer)];
    for (let at = 0; at <= events.length; at += 1) {
      const order = [...events.slice(0, at), acknowledged(1), ...events.slice(at)];
      const end = play(connecting, snapshot(), typed(1), ...order);
      expect(seen(end), `answered after ${at} events`).toEqual(["user(answered): q1", "agent(final): one two"]);
      expect(end.unsent).toEqual([]);
    }
  });

  test("gives the same when a reload's snapshot is taken after any step", () => {
    const server: [Action, Action][] = [
      [runEvent(1, "queued"), snapshot([], [run(1, "queued")])],
      [runEvent(1, "running"), snapshot([], [run(1, "running")])],
      [delta(1, 1, 1, "one"), snapshot([], [run(1, "running", { partial: { text: "one", seq: 1 } })])],
      [delta(1, 1, 2, " two"), snapshot([], [run(1, "running", { partial: { text: "one two", seq: 2 } })])],
      [done(1, asked, answer), snapshot([asked, answer])],
    ];
    for (let at = 0; at < server.length; at += 1) {
      const reload = server[at]?.[1] as Action;
      const rest = server.slice(at + 1).map(([event]) => event);
      // A snapshot may be older than the events that follow it: some of those are in it already.
      for (let repeated = 0; repeated <= at; repeated += 1) {
        const overlap = server.slice(at + 1 - repeated, at + 1).map(([event]) => event);
        // The old page may have heard that its message was accepted; else the new one asks before it connects.
        for (const before of [[], [typed(1), acknowledged(1)]]) {
          const end = play(...before, connecting, reload, ...overlap, ...rest);
          expect(seen(end), `after ${at}, ${repeated} again`).toEqual(["user(answered): q1", "agent(final): one two"]);
          expect({ gap: end.gap, unsent: end.unsent }).toEqual({ gap: false, unsent: [] });
        }
      }
    }
  });
});

describe("deltas", () => {
  const streaming = [connecting, snapshot(), runEvent(1, "running"), delta(1, 1, 1, "one")];

  test("that repeat or are of an older attempt are ignored", () => {
    const state = play(...streaming, delta(1, 2, 1, "new"), delta(1, 1, 2, " old"), delta(1, 2, 1, "new"));
    expect(seen(state)).toEqual(["user(running): q1", "agent(streaming): new"]);
  });

  test("that skip one ask for a new snapshot and change nothing", () => {
    const state = play(...streaming, delta(1, 1, 3, " three"));
    expect(state.gap).toBe(true);
    expect(seen(state)).toEqual(["user(running): q1", "agent(streaming): one"]);
    expect(reduce(state, snapshot([], [run(1, "running", { partial: { text: "one two three", seq: 3 } })])).gap).toBe(false);
  });

  test("of a new attempt that do not begin at its beginning are a gap", () => {
    expect(play(...streaming, delta(1, 2, 2, "x")).gap).toBe(true);
  });

  test("of an unknown run are a gap, before the first snapshot they are nothing", () => {
    expect(play(connecting, snapshot(), delta(1, 1, 1, "x")).gap).toBe(true);
    expect(play(connecting, delta(1, 1, 1, "x"))).toEqual(play(connecting));
  });

  test("that come after the run ended change nothing", () => {
    const stopped = play(...streaming, runEvent(1, "aborted"));
    expect(reduce(stopped, delta(1, 1, 2, " two"))).toBe(stopped);
    const finished = play(...streaming, done(1, asked, answer));
    expect(reduce(finished, delta(1, 1, 2, " two"))).toBe(finished);
    expect(reduce(finished, runEvent(1, "completed"))).toBe(finished);
  });

  test("may start with number zero", () => {
    const state = play(connecting, snapshot(), runEvent(1, "running"), delta(1, 1, 0, "a"), delta(1, 1, 1, "b"));
    expect(seen(state)).toEqual(["user(running): q1", "agent(streaming): ab"]);
  });
});

describe("a gateway that is killed and comes back", () => {
  test("replaces the first attempt's text by the second's and ends with one answer", () => {
    const before = [connecting, snapshot(), typed(1), acknowledged(1), runEvent(1, "running"), delta(1, 1, 1, "one tw")];
    const resumed = snapshot([], [run(1, "running", { attempt: 2 })]);
    const back = play(...before, connecting, resumed);
    expect(seen(back)).toEqual(["user(running): q1", "agent(thinking): "]);
    const talking = reduce(back, delta(1, 2, 1, "one"));
    expect(seen(talking)).toEqual(["user(running): q1", "agent(streaming): one"]);
    expect(seen(reduce(talking, done(1, asked, answer)))).toEqual(["user(answered): q1", "agent(final): one two"]);
  });

  test("does not double a message that it accepted without our hearing of it", () => {
    const state = play(connecting, snapshot(), typed(1), { type: "waiting", key: "k1" });
    expect(seen(state)).toEqual(["user(waiting): q1"]);
    expect(seen(reduce(state, snapshot([], [run(1, "queued")])))).toEqual(["user(queued): q1"]);
    // It was answered meanwhile: the repeated POST, made before the snapshot, names the run.
    const answered = [acknowledged(1), connecting, snapshot([asked, answer])].reduce(reduce, state);
    expect(seen(answered)).toEqual(["user(answered): q1", "agent(final): one two"]);
  });

  test("keeps a message that was not accepted until it is", () => {
    const down = play(connecting, snapshot(), typed(1), { type: "waiting", key: "k1" }, connecting, snapshot());
    expect(seen(down)).toEqual(["user(waiting): q1"]);
    expect(down.unsent.map(({ key }) => key)).toEqual(["k1"]);
  });
});

describe("a snapshot", () => {
  test("older than an acknowledgement does not take the message away", () => {
    const state = play(connecting, typed(1), acknowledged(1), snapshot());
    expect(seen(state)).toEqual(["user(queued): q1"]);
  });

  test("asked for after an acknowledgement has the last word", () => {
    expect(seen(play(connecting, typed(1), acknowledged(1), connecting, snapshot()))).toEqual([]);
  });

  test("of another session is not ours", () => {
    const state = play(connecting, snapshot([asked]));
    const other: Action = { type: "snapshot", data: { session: "other", messages: [], runs: [] } };
    expect(reduce(state, other)).toBe(state);
  });

  test("whose running run has log lines already shows its question once", () => {
    const state = play(connecting, snapshot([asked], [run(1, "running", { partial: { text: "one", seq: 1 } })]));
    expect(seen(state)).toEqual(["user(running): q1", "agent(streaming): one"]);
  });
});

describe("two tabs", () => {
  test("end with the same rows, whoever wrote", () => {
    const events = [
      runEvent(1, "queued"),
      runEvent(2, "queued"),
      runEvent(1, "running"),
      delta(1, 1, 1, "one two"),
      done(1, asked, answer),
      runEvent(2, "running"),
      delta(2, 1, 1, "three"),
    ];
    const writer = play(connecting, snapshot(), typed(1), typed(2), acknowledged(1), acknowledged(2), ...events);
    const reader = play(connecting, snapshot(), ...events);
    const late = play(
      connecting,
      snapshot([asked, answer], [run(2, "running", { partial: { text: "three", seq: 1 } })]),
    );
    expect(seen(reader)).toEqual(seen(writer));
    expect(seen(late)).toEqual(seen(writer));
  });

  test("adopt the other's unsent message once, and drop it when it was sent there", () => {
    const both = play(connecting, snapshot(), typed(1), typed(1));
    expect(seen(both)).toEqual(["user(sending): q1"]);
    expect(seen(reduce(both, { type: "dropped", key: "k1" }))).toEqual([]);
    expect(seen(play(connecting, snapshot(), runEvent(1, "queued"), typed(1)))).toEqual(["user(queued): q1"]);
  });
});

describe("a refused message", () => {
  test("says why, and loses its reason when it is sent again", () => {
    const error = { code: "TOO_LONG", message: "the message is too long" };
    const refused = play(connecting, snapshot(), typed(1), { type: "refused", key: "k1", error });
    expect(refused.unsent).toEqual([{ key: "k1", text: "q1", at: 100, state: "refused", error }]);
    const again = reduce(refused, { type: "sending", key: "k1" });
    expect(again.unsent).toEqual([{ key: "k1", text: "q1", at: 100, state: "sending" }]);
  });
});

test("a run that failed and is taken up again by a higher attempt loses its error", () => {
  const error = { code: "MODEL_UNAVAILABLE", message: "the model failed" } as const;
  const state = play(connecting, snapshot(), runEvent(1, "failed", { error }), runEvent(1, "running", { attempt: 2 }));
  expect(state.runs).toEqual([{ ...run(1, "running", { attempt: 2 }), proof: "stream" }]);
  expect(state.runs[0]?.runId).toBe(id(1));
});

describe("a message that joins a run under way", () => {
  test("is shown once, before and after that run is done", () => {
    const talking = play(connecting, snapshot(), runEvent(1, "running"), delta(1, 1, 1, "one"), runEvent(2, "joined"));
    expect(seen(talking).filter((row) => row.endsWith("q2"))).toHaveLength(1);
    const joined = line(3, "user", "q2", 1);
    const over = reduce(talking, done(1, asked, joined, { ...answer, seq: 4 }));
    expect(seen(over)).toEqual(["user(answered): q1", "user(answered): q2", "agent(final): one two"]);
  });
});
