// The model server as a child process; its turns are in turns.json, one model each.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const said = "The tide rises, 潮が満ちる, and falls.";
export const thought = "They ask about the tide.";
export const question = [{ role: "user", content: "hi" }];
export const calls = [
  ["call_1", "tide_at", { place: "Brest", days: [1, 2] }],
  ["call_2", "now", {}],
];

// Starts it; `baseUrl` is where it listens.
export async function start() {
  const script = fileURLToPath(new URL("../turns.json", import.meta.url));
  const server = spawn(process.env.TIDEGATE_TESTKIT, ["model-server", "--port", "0", "--script", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: server.stdout })) {
    return { baseUrl: JSON.parse(line).baseUrl, stop: () => server.kill() };
  }
  throw new Error("the model server said nothing");
}
