/**
 * OpenClaw's own programs, unmodified, against a gateway of ours; see run.sh.
 *
 *   node main.mjs [--record <folder>] [--only commands|terminal|page]
 */
import { parseArgs } from "node:util";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { commands } from "./commands.mjs";
import { House } from "./house.mjs";
import { page } from "./page.mjs";
import { Proxy } from "./proxy.mjs";
import { close } from "./steps.mjs";
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
  if (wanted("terminal")) await terminal(house, proxy, env, results);
  if (wanted("page")) await page(house, proxy, results);
} finally {
  await writeFile(join(results, "frames.json"), JSON.stringify(proxy.sockets, null, 1));
  await proxy.close();
  await house.close();
}
process.exitCode = close() ? 0 : 1;
