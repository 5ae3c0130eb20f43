// Anthropic's own client for Node reads the model server.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import Anthropic from "@anthropic-ai/sdk";

import { calls, question, said, start, thought } from "./server.mjs";

let server;
let client;
before(async () => {
  server = await start();
  client = new Anthropic({ baseURL: server.baseUrl, apiKey: "played", maxRetries: 0 });
});
after(() => server.stop());

const ask = (model) => client.messages.stream({ model, max_tokens: 99, messages: question }).finalMessage();

test("text streams with usage", async () => {
  const message = await ask("says");
  assert.equal(message.content[0].text, said);
  assert.equal(message.stop_reason, "end_turn");
  assert.equal(message.usage.output_tokens, 20);
  assert.equal(message.usage.cache_read_input_tokens, 30);
});

test("thinking has its signature", async () => {
  const [thinking] = (await ask("thinks")).content;
  assert.deepEqual(
    { type: thinking.type, thinking: thinking.thinking, signature: thinking.signature },
    { type: "thinking", thinking: thought, signature: "c2lnbmVk" },
  );
});

test("calls have whole arguments", async () => {
  const message = await ask("calls");
  const came = message.content.slice(1).map((block) => [block.id, block.name, block.input]);
  assert.deepEqual(came, calls);
  assert.equal(message.stop_reason, "tool_use");
});

test("refusals are the client's own errors", async () => {
  await assert.rejects(ask("denied"), Anthropic.AuthenticationError);
  await assert.rejects(ask("limited"), (error) => {
    assert.ok(error instanceof Anthropic.RateLimitError);
    assert.equal(error.headers.get("retry-after"), "7");
    return true;
  });
  await assert.rejects(ask("unknown"), Anthropic.NotFoundError);
});

test("an error inside and a reset inside a call are errors", async () => {
  await assert.rejects(ask("fails-inside"), Anthropic.APIError);
  await assert.rejects(ask("breaks-inside"), /terminated/);
});
