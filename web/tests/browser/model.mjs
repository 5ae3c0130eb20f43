/**
 * A model that does what it is told: lines `CALL <tool> <JSON>` of a message become calls, and what came of them is
 * said. It speaks the format `openai-completions`, which the gateway reads from any server.
 */
import { createServer } from "node:http";

/** Starts it; returns the configuration of a gateway that asks it. */
export async function startModel(test) {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const chunk of chunks(JSON.parse(body))) response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    response.end("data: [DONE]\n\n");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  test.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const baseUrl = `http://127.0.0.1:${server.address().port}/v1`;
  const models = [{ id: "obedient", contextWindow: 32_000, cost: { input: 0, output: 0 } }];
  return {
    tools: { profile: "coding" },
    agents: { defaults: { model: { primary: "harbour/obedient" } } },
    models: { providers: { harbour: { api: "openai-completions", baseUrl, apiKey: "none", models } } },
  };
}

function* chunks({ messages, tools = [] }) {
  const last = messages.at(-1);
  const delta = last.role === "tool" ? { content: `It said: ${textOf(last)}` } : obeyed(textOf(last), tools, messages.length);
  const finish_reason = delta.tool_calls ? "tool_calls" : "stop";
  const base = { id: "c1", object: "chat.completion.chunk", created: 0, model: "obedient" };
  yield { ...base, choices: [{ index: 0, delta: { role: "assistant", ...delta }, finish_reason: null }] };
  yield { ...base, choices: [{ index: 0, delta: {}, finish_reason }], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } };
}

function obeyed(text, tools, turn) {
  const calls = [...text.matchAll(/CALL (\S+) (\{.*\})/g)];
  if (calls.length === 0) return { content: `You said: ${text}` };
  const tool_calls = calls.map(([, name, args], index) => ({
    index,
    // The same question gets the same answer, as often as it is asked.
    id: `call_${turn}_${index}`,
    type: "function",
    function: { name: offered(name, tools), arguments: args },
  }));
  return { tool_calls };
}

/** The name by which the gateway offers a tool: vendors take no dots. */
function offered(name, tools) {
  const plain = (text) => text.replace(/\W/g, "_");
  return tools.map((tool) => tool.function.name).find((known) => plain(known) === plain(name)) ?? name;
}

function textOf({ content }) {
  if (typeof content === "string") return content;
  return (content ?? []).map(({ text = "" }) => text).join("");
}
