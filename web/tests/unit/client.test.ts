/**
 * The client over a socket that fails in every way a socket can.
 */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Client } from "../../src/gateway/client";
import type { ServerEvent } from "../../src/wire";
import { TestGateway, TICK_MS } from "./gateway";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const settled = (ms = 200) => vi.advanceTimersByTimeAsync(ms);

function connect(gateway = new TestGateway()) {
  const story: string[] = [];
  const client = new Client(gateway.world, {
    connection: ({ state }) => story.push(state),
    hello: () => undefined,
    readAgain: () => story.push("read again"),
    loginNeeded: () => story.push("login"),
  });
  client.start();
  return { gateway, client, story };
}

function followed(client: Client, before = () => Promise.resolve()) {
  const events: ServerEvent[] = [];
  const problems: string[] = [];
  const follow = client.follow("main", {
    before,
    asking: () => undefined,
    event: (event) => events.push(event),
    refused: ({ code }) => problems.push(code),
  });
  return { follow, events, problems, types: () => events.map(({ type }) => type) };
}

const asked = (gateway: TestGateway, method: string) => gateway.asked.filter((request) => request.method === method);

test("a call is answered, refused, or says that it may be made again", async () => {
  const { client, gateway } = connect();
  expect(await client.call("sessions.list", {})).toMatchObject({ kind: "again", error: { code: "UNREACHABLE" } });
  await settled();
  const answer = client.call("sessions.list", {});
  await settled();
  expect(await answer).toEqual({ kind: "ok", value: { sessions: [] } });
  const refused = client.call("run.abort", { runId: "x" });
  await settled();
  expect(await refused).toMatchObject({ kind: "final", error: { code: "NOT_FOUND" } });
  gateway.mute.add("sessions.list");
  const lost = client.call("sessions.list", {});
  await settled(10);
  gateway.cut();
  await settled(10);
  expect(await lost).toMatchObject({ kind: "again", error: { code: "UNREACHABLE" } });
});

test("a call without an answer ends at its deadline, and an answer that comes later is nobody's", async () => {
  const { client, gateway } = connect();
  await settled();
  gateway.mute.add("sessions.list");
  let ended = false;
  const slow = client.call("sessions.list", {}, { deadlineMs: 1000 });
  void slow.then(() => (ended = true));
  await settled(999);
  expect(ended).toBe(false);
  await settled(1);
  expect(await slow).toMatchObject({ kind: "again" });
});

test("only so many calls are under way, and one too large for the socket is never sent", async () => {
  const { client, gateway } = connect();
  await settled();
  gateway.mute.add("sessions.list");
  const calls = Array.from({ length: 8 }, () => client.call("sessions.list", {}));
  expect(await client.call("sessions.list", {})).toMatchObject({ kind: "again" });
  await settled();
  expect(asked(gateway, "sessions.list")).toHaveLength(8);
  await settled(20_000);
  await Promise.all(calls);
  const long = await client.call("message.send", { session: "main", text: "é".repeat(2048), key: "k" });
  expect(long).toMatchObject({ kind: "final", error: { code: "PAYLOAD_TOO_LARGE" } });
  expect(asked(gateway, "message.send")).toEqual([]);
});

test("two missing ticks end a connection that says nothing else, and a new one begins at once", async () => {
  const { gateway, story } = connect();
  await settled();
  gateway.ticks = false;
  await settled(2 * TICK_MS - 1000);
  expect(story).toEqual(["connecting", "connected", "read again"]);
  await settled(2000);
  expect(story.slice(3)).toEqual(["connecting", "connected"]);
  expect(gateway.connected).toBe(1);
});

test("a nudge distrusts a connection that missed a tick, and no other", async () => {
  const { gateway, client, story } = connect();
  await settled();
  client.nudge();
  await settled(TICK_MS);
  client.nudge();
  expect(story).toHaveLength(3);
  gateway.ticks = false;
  await settled(1.6 * TICK_MS);
  client.nudge();
  await settled();
  expect(story.slice(3)).toEqual(["connecting", "connected"]);
});

test("a gateway that is away is tried with growing pauses, and a nudge ends the pause", async () => {
  const gateway = new TestGateway();
  gateway.isOnline = false;
  const { client, story } = connect(gateway);
  await settled(8000);
  expect(story.filter((step) => step === "waiting").length).toBe(5);
  gateway.isOnline = true;
  client.nudge();
  await settled();
  expect(story.at(-2)).toBe("connected");
});

test("a connection that is taken and dropped again and again is not tried in a busy loop", async () => {
  const { gateway, story } = connect();
  for (let second = 0; second < 60; second += 1) {
    gateway.cut();
    await settled(1000);
  }
  expect(story.filter((step) => step === "connected").length).toBeLessThan(20);
});

test("whoever is not logged in is told so, and nothing is tried any more", async () => {
  const { gateway, client, story } = connect();
  await settled();
  gateway.knowsUs = false;
  gateway.cut();
  await settled(60_000);
  expect(story.at(-1)).toBe("login");
  const steps = story.length;
  client.nudge();
  await settled(60_000);
  expect(story).toHaveLength(steps);
  gateway.knowsUs = true;
  client.start();
  await settled();
  expect(story.slice(steps)).toEqual(["connecting", "connected", "read again"]);
});

test("broadcasts of a break are heard afterwards, each once and in order", async () => {
  const { gateway, client, story } = connect();
  const heard: string[] = [];
  client.on("shutdown", ({ reason }) => heard.push(reason));
  await settled();
  gateway.broadcast("shutdown", { reason: "1" });
  await settled();
  gateway.cut();
  gateway.broadcast("shutdown", { reason: "2" });
  gateway.broadcast("shutdown", { reason: "3" });
  await settled(2000);
  gateway.broadcast("shutdown", { reason: "4" });
  await settled();
  expect(heard).toEqual(["1", "2", "3", "4"]);
  expect(story.filter((step) => step === "read again")).toHaveLength(1);
});

test("a broadcast that got lost is noticed by the number of the next, and told again in its place", async () => {
  const { gateway, client, story } = connect();
  const heard: string[] = [];
  client.on("shutdown", ({ reason }) => heard.push(reason));
  await settled();
  for (const reason of ["1", "lost", "lost too", "2"]) {
    gateway.losesBroadcasts = reason.startsWith("lost");
    gateway.broadcast("shutdown", { reason });
    await settled();
  }
  expect(heard).toEqual(["1", "lost", "lost too", "2"]);
  expect(asked(gateway, "events.resume").map(({ params }) => params.afterSeq)).toEqual([1]);
  // Where the gateway has forgotten it, what is known is read again, and later ones are heard.
  gateway.keepsPast = false;
  gateway.losesBroadcasts = true;
  gateway.broadcast("shutdown", { reason: "forgotten" });
  gateway.losesBroadcasts = false;
  gateway.broadcast("shutdown", { reason: "forgotten too" });
  await settled();
  gateway.broadcast("shutdown", { reason: "3" });
  await settled();
  expect(heard.slice(4)).toEqual(["3"]);
  expect(story.filter((step) => step === "read again")).toHaveLength(2);
});

test("a break in the middle of taking up begins again from the same place", async () => {
  const { gateway, client } = connect();
  const heard: string[] = [];
  client.on("shutdown", ({ reason }) => heard.push(reason));
  await settled();
  gateway.cut();
  gateway.broadcast("shutdown", { reason: "1" });
  // The question what was missed is lost with the connection, after a younger broadcast was heard on it.
  gateway.mute.add("events.resume");
  for (let ms = 0; gateway.connected === 0 && ms < 2000; ms += 1) await settled(1);
  await settled(20);
  gateway.broadcast("shutdown", { reason: "2" });
  await settled(20);
  expect(heard).toEqual([]);
  gateway.cut();
  gateway.mute.clear();
  await settled(5000);
  expect(heard).toEqual(["1", "2"]);
});

test("what cannot be taken up is read again: after another process, a lost past, or a word of the gateway", async () => {
  const { gateway, story } = connect();
  const times = () => story.filter((step) => step === "read again").length;
  await settled();
  expect(times()).toBe(1);
  gateway.restart();
  await settled(2000);
  expect(times()).toBe(2);
  gateway.keepsPast = false;
  gateway.cut();
  gateway.broadcast("shutdown", { reason: "unheard" });
  await settled(2000);
  expect(times()).toBe(3);
  gateway.broadcast("missed", {});
  await settled();
  expect(times()).toBe(4);
});

test("a subscription begins with a snapshot and goes on without a hole", async () => {
  const { gateway, client } = connect();
  const { types } = followed(client);
  await settled();
  void client.call("message.send", { session: "main", text: "q", key: "k" });
  await settled();
  gateway.work(false);
  gateway.work(false);
  gateway.work(true);
  await settled();
  expect(types()).toEqual(["snapshot", "run", "run", "delta", "run", "done"]);
});

test("a hole in a subscription begins it again from the end of the last snapshot", async () => {
  const { gateway, client } = connect();
  gateway.log = [{ seq: 7, role: "user", text: "old", at: 1, runId: "r" }];
  const { events, types } = followed(client);
  await settled();
  gateway.next = "drop";
  gateway.sendTo("session.delta", {});
  gateway.sendTo("session.delta", {});
  gateway.sendTo("session.delta", {});
  await settled(2000);
  expect(types()).toEqual(["snapshot", "snapshot"]);
  expect(asked(gateway, "session.subscribe").map(({ params }) => params.cursor)).toEqual([
    undefined,
    { sessionId: "log-1", seq: 7 },
  ]);
  expect(events[1]).toMatchObject({ type: "snapshot", after: 7, data: { messages: [] } });
  expect(asked(gateway, "session.unsubscribe")).toHaveLength(1);
});

test("a lost snapshot and a doubled event change nothing in the end", async () => {
  const { gateway, client } = connect();
  gateway.next = "drop";
  const { types } = followed(client);
  await settled();
  gateway.sendTo("session.note", {});
  await settled(2000);
  gateway.next = "double";
  gateway.sendTo("session.delta", {});
  await settled();
  expect(types()).toEqual(["snapshot", "delta"]);
});

test("a subscription that the gateway had to give up is begun again", async () => {
  const { gateway, client, story } = connect();
  const { types } = followed(client);
  await settled();
  gateway.next = "drop";
  gateway.sendTo("session.delta", {});
  gateway.sendTo("missed", {});
  await settled(2000);
  expect(types()).toEqual(["snapshot", "snapshot"]);
  expect(story.filter((step) => step === "read again")).toHaveLength(1);
});

test("subscriptions come back by themselves after a break, with their cursor, and closed ones do not", async () => {
  const { gateway, client } = connect();
  gateway.log = [{ seq: 3, role: "user", text: "old", at: 1, runId: "r" }];
  const { types } = followed(client);
  const gone = followed(client);
  await settled();
  gone.follow.close();
  await settled();
  gateway.cut();
  await settled(2000);
  expect(types()).toEqual(["snapshot", "snapshot"]);
  expect(gone.types()).toEqual(["snapshot"]);
  expect(asked(gateway, "session.subscribe").at(-1)?.params.cursor).toEqual({ sessionId: "log-1", seq: 3 });
});

test("a cursor of a log that is no more gets a whole snapshot", async () => {
  const { gateway, client } = connect();
  gateway.log = [{ seq: 3, role: "user", text: "old", at: 1, runId: "r" }];
  const { events } = followed(client);
  await settled();
  gateway.cut();
  gateway.reset();
  gateway.log = [{ seq: 1, role: "user", text: "new", at: 1, runId: "r" }];
  await settled(2000);
  expect(events.at(-1)).toEqual({ type: "snapshot", data: expect.objectContaining({ messages: gateway.log }) });
});

test("a subscription that is closed while it is asked for is given back", async () => {
  const { gateway, client } = connect();
  await settled();
  const { follow, events } = followed(client);
  await settled(1);
  follow.close();
  await settled();
  expect(events).toEqual([]);
  expect(asked(gateway, "session.unsubscribe").map(({ params }) => params.sub)).toEqual(["s1"]);
});

test("a stream with holes again and again does not become a busy loop", async () => {
  const { gateway, client } = connect();
  followed(client);
  await settled();
  for (let step = 0; step < 600; step += 1) {
    gateway.next = "drop";
    gateway.sendTo("session.delta", {});
    gateway.sendTo("session.delta", {});
    await settled(100);
  }
  expect(asked(gateway, "session.subscribe").length).toBeLessThan(30);
});
