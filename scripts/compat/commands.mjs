/**
 * OpenClaw's command line against the gateway, program by program.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { expect, step } from "./steps.mjs";
import { OPENCLAW } from "./house.mjs";

const PROGRAM_MS = 90_000;

/** Runs `openclaw …` to its end. */
export function openclaw(env, cwd, ...words) {
  return new Promise((ended) => {
    const options = { env, cwd, timeout: PROGRAM_MS, maxBuffer: 16 * 1024 * 1024 };
    execFile(process.execPath, [join(OPENCLAW, "openclaw.mjs"), ...words], options, (error, stdout, stderr) => {
      ended({ code: error ? (error.code ?? "killed") : 0, stdout, stderr, all: `${stdout}\n${stderr}` });
    });
  });
}

/** The JSON at the end of what a program printed; it may say other things before. */
function json(text) {
  const start = text.search(/^[[{]/m);
  if (start < 0) throw new Error(`no JSON in: ${text.slice(0, 2000)}`);
  return JSON.parse(text.slice(start));
}

export async function commands(house, proxy, env) {
  const socket = ["--url", proxy.address.replace("http", "ws"), "--token", house.token];
  const run = (...words) => openclaw(env, house.theirs, ...words);
  const well = async (...words) => {
    const ended = await run(...words);
    expect(ended.code === 0, `openclaw ${words[0]} ended with ${ended.code}: ${ended.all.slice(0, 3000)}`);
    expect(!/unknown method/i.test(ended.all), `it asked for something unknown: ${ended.all.slice(0, 3000)}`);
    return ended;
  };

  await step("openclaw gateway call health", async () => {
    const { stdout } = await well("gateway", "call", "health", ...socket, "--json");
    expect(json(stdout).ok === true, `not healthy: ${stdout}`);
  });
  await step("openclaw gateway call with a wrong token says so", async () => {
    const wrong = ["--url", socket[1], "--token", "wrong"];
    const ended = await run("gateway", "call", "health", ...wrong);
    expect(ended.code !== 0 && /token mismatch/i.test(ended.all), ended.all);
  });
  await step("openclaw health", async () => {
    const { stdout } = await well("health", "--json");
    expect(json(stdout).ok === true, `not healthy: ${stdout}`);
  });
  await step("openclaw health, for people", async () => {
    const { all } = await well("health");
    expect(all.trim().length > 0, "it printed nothing");
  });
  await step("openclaw agent prints the answer", async () => {
    const { stdout } = await well("agent", "--agent", "main", "--message", "When is the tide high?");
    expect(stdout.includes("19:40"), `no answer in: ${stdout}`);
  });
  await step("openclaw agent --json has the answer and the session", async () => {
    const { stdout } = await well("agent", "--agent", "main", "--message", "The tide again?", "--json");
    const told = json(stdout);
    expect(JSON.stringify(told).includes("19:40"), stdout);
  });
  await step("openclaw status reaches the gateway", async () => {
    const { all } = await well("status");
    expect(!/unreachable/i.test(all), all);
  });
  await step("openclaw status --json counts the conversation", async () => {
    const { stdout } = await well("status", "--json");
    const told = json(stdout);
    expect(told.gateway?.reachable !== false, stdout.slice(0, 3000));
  });
  await step("openclaw devices list", async () => {
    const { stdout } = await well("devices", "list", "--json", ...socket);
    expect(Array.isArray(json(stdout).paired), stdout);
  });
  await step("openclaw gateway call sessions.list names the conversation", async () => {
    const { stdout } = await well("gateway", "call", "sessions.list", ...socket, "--json");
    expect(json(stdout).sessions.some((row) => row.key === "agent:main:main"), stdout);
  });
  await step("openclaw sessions", async () => {
    await well("sessions", "--json");
  });
  await step("openclaw logs shows the gateway's log", async () => {
    const { all } = await well("logs", "--plain", "--limit", "50", ...socket);
    expect(all.trim().length > 0, "no lines");
  });
  await step("openclaw models list", async () => {
    await well("gateway", "call", "models.list", ...socket, "--json");
  });
}
