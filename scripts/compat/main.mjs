/**
 * OpenClaw's own programs, unmodified, against a gateway of ours; see run.sh.
 *
 *   node main.mjs [--record <folder>] [--only commands|terminal|page]
 */
import { parseArgs } from "node:util";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { commands } from "./commands.mjs";
import { check } from "./contract.mjs";
import { House } from "./house.mjs";
import { page } from "./page.mjs";
import { Proxy } from "./proxy.mjs";
import { record } from "./record.mjs";
import { close, expect, skip, step } from "./steps.mjs";
import { terminal } from "./terminal.mjs";

const { values: said } = parseArgs({ options: { record: { type: "string" }, only: { type: "string" } } });
const wanted = (part) => !said.only || said.only === part;

// Screens, pictures and frames of the run, for whoever wants to see what happened.
const results = process.env.COMPAT_RESULTS;
await mkdir(results, { recursive: true });
const house = await House.open();
const proxy = await Proxy.open(house.origin);
try {
  const env = await house.environment(proxy.address);
  if (wanted("commands")) await commands(house, proxy, env);
  if (wanted("terminal")) {
    if (process.env.COMPAT_NO_TERMINAL) skip("openclaw tui", process.env.COMPAT_NO_TERMINAL);
    else await terminal(house, proxy, env, results);
  }
  if (wanted("page")) {
    if (process.env.COMPAT_NO_BROWSER) skip("the Control UI", process.env.COMPAT_NO_BROWSER);
    else await page(house, proxy, env, results);
  }
  await step("everything that the protocol's own schema describes keeps to it", async () => {
    const told = await check(proxy.sockets);
    console.log(`        ${told.valid} of ${told.checked} frames, results and events validate; not described: ${[...told.undescribed].sort().join(", ")}`);
    const problems = [...told.problems].map(([kind, lines]) => `${kind}: ${[...lines].slice(0, 8).join("; ")}`);
    expect(problems.length === 0, problems.join("\n"));
  });
  if (said.record) await record(proxy.sockets, said.record, `openclaw ${process.env.OPENCLAW_VERSION}`);
} finally {
  await writeFile(join(results, "frames.json"), JSON.stringify(proxy.sockets, null, 1));
  await proxy.close();
  await house.close();
}
process.exitCode = close() ? 0 : 1;
