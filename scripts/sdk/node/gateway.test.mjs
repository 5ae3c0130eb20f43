// OpenAI's own client for Node drives the real program, with the model server behind it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";

import OpenAI from "openai";

import { calls, question, said, start } from "./server.mjs";

const models = ["says", "limited", "rounds-chat", "rounds-responses"];
const parameters = { type: "object", properties: { place: { type: "string" } } };
const tool = { type: "function", function: { name: "tide_at", parameters } };

let server, gateway, home, client;

before(async () => {
  server = await start();
  home = await mkdtemp(path.join(tmpdir(), "tidegate-openai-"));
  const played = { baseUrl: `${server.baseUrl}/v1`, api: "openai-completions", apiKey: "played", models: models.map((id) => ({ id })) };
  const config = {
    models: { providers: { played }, retries: 0 },
    agents: { defaults: { model: { primary: "played/says" } } },
  };
  await writeFile(path.join(home, "config.json5"), JSON.stringify(config));
  const words = ["gateway", "run", "--port", "0", "--json", "--home", home];
  gateway = spawn(process.env.TIDEGATE_BIN, words, { stdio: ["ignore", "pipe", "inherit"] });
  let port;
  for await (const line of createInterface({ input: gateway.stdout })) {
    port = line.match(/127\.0\.0\.1:(\d+)/)?.[1];
    if (port) break;
  }
  const token = (await readFile(path.join(home, "credentials/local-token"), "utf8")).trim();
  client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: token, maxRetries: 0 });
});

after(async () => {
  if (gateway?.exitCode === null) {
    gateway.kill("SIGTERM");
    await new Promise((resolve) => gateway.on("exit", resolve));
  }
  server?.stop();
  if (home) await rm(home, { recursive: true, force: true });
});

test("an agent answers whole and as a stream", async () => {
  const whole = await client.chat.completions.create({ model: "tidegate:main", messages: question });
  assert.equal(whole.choices[0].message.content, said);
  const asked = { model: "openclaw:main", messages: question, stream_options: { include_usage: true } };
  const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
  assert.equal(streamed.choices[0].message.content, said);
  assert.equal(streamed.usage.total_tokens, 155);
});

test("a tool of the program is called and its result answered", async () => {
  const asked = { model: "played/rounds-chat", tools: [tool] };
  const [first] = (await client.chat.completions.stream({ ...asked, messages: question }).finalChatCompletion()).choices;
  assert.equal(first.finish_reason, "tool_calls");
  const [call] = first.message.tool_calls;
  assert.deepEqual([call.function.name, JSON.parse(call.function.arguments)], calls[0].slice(1));
  const result = { role: "tool", tool_call_id: call.id, content: "at noon" };
  const answer = await client.chat.completions.create({ ...asked, messages: [...question, first.message, result] });
  assert.equal(answer.choices[0].message.content, "High at noon.");
});

test("a response streams, calls a function and goes on from there", async () => {
  const asked = { model: "played/rounds-responses", tools: [{ type: "function", name: "tide_at", parameters, strict: false }] };
  const first = await client.responses.stream({ ...asked, input: "high water?" }).finalResponse();
  const call = first.output.find((item) => item.type === "function_call");
  assert.deepEqual([call.name, JSON.parse(call.arguments)], calls[0].slice(1));
  const output = { type: "function_call_output", call_id: call.call_id, output: "at noon" };
  const answer = await client.responses.create({ ...asked, input: [output], previous_response_id: first.id });
  assert.equal(answer.output_text, "High at noon.");
});

test("vectors come for each input", async () => {
  const answer = await client.embeddings.create({ model: "played/embeds", input: ["the tide", "the cat"] });
  assert.equal(answer.data.length, 2);
  assert.ok(answer.data.every((item) => item.embedding.length > 0));
});

test("refusals are the client's own errors", async () => {
  const ask = (model) => client.chat.completions.create({ model, messages: question });
  await assert.rejects(ask("nobody/nothing"), OpenAI.NotFoundError);
  await assert.rejects(ask("played/limited"), OpenAI.RateLimitError);
  await assert.rejects(client.withOptions({ apiKey: "wrong" }).models.list(), OpenAI.AuthenticationError);
});
