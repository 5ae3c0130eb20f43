// OpenAI's own client for Node reads the model server: chat completions, responses, embeddings.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import OpenAI from "openai";

import { calls, question, said, start, thought } from "./server.mjs";

let server;
let client;
before(async () => {
  server = await start();
  client = new OpenAI({ baseURL: `${server.baseUrl}/v1`, apiKey: "played", maxRetries: 0 });
});
after(() => server.stop());

const complete = (model) =>
  client.chat.completions
    .stream({ model, messages: question, stream_options: { include_usage: true } })
    .finalChatCompletion();
const respond = (model) => client.responses.stream({ model, input: question }).finalResponse();

test("a completion streams with usage", async () => {
  const completion = await complete("says");
  assert.equal(completion.choices[0].message.content, said);
  assert.equal(completion.choices[0].finish_reason, "stop");
  assert.deepEqual([completion.usage.prompt_tokens, completion.usage.completion_tokens], [135, 20]);
});

test("a completion's calls have whole arguments", async () => {
  const [choice] = (await complete("calls")).choices;
  const came = choice.message.tool_calls.map((call) => [call.id, call.function.name, JSON.parse(call.function.arguments)]);
  assert.deepEqual(came, calls);
});

test("a response streams with usage, thinking and calls", async () => {
  const response = await respond("says");
  assert.equal(response.output_text, said);
  assert.deepEqual([response.usage.input_tokens, response.usage.output_tokens], [135, 20]);
  const [reasoning] = (await respond("thinks")).output;
  assert.equal(reasoning.summary[0].text, thought);
  const came = (await respond("calls")).output.slice(1);
  assert.deepEqual(came.map((call) => [call.call_id, call.name, JSON.parse(call.arguments)]), calls);
});

test("refusals are the client's own errors", async () => {
  for (const ask of [complete, respond]) {
    await assert.rejects(ask("denied"), OpenAI.AuthenticationError);
    await assert.rejects(ask("limited"), OpenAI.RateLimitError);
    await assert.rejects(ask("unknown"), OpenAI.NotFoundError);
  }
});

test("an error inside and a reset inside a call are errors", async () => {
  await assert.rejects(complete("fails-inside"), OpenAI.APIError);
  await assert.rejects(complete("breaks-inside"), /terminated/);
});

test("vectors come for each input", async () => {
  const answer = await client.embeddings.create({ model: "embeds", input: ["the tide", "the cat"], dimensions: 16 });
  assert.deepEqual(answer.data.map((row) => row.embedding.length), [16, 16]);
});
