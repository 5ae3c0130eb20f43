// Starts @copilotkit/aimock, a mock of the vendors that is not ours: what talks to both was not fitted to one of them.
//
//   node scripts/sdk/aimock.mjs     prints {"baseUrl": "http://127.0.0.1:<port>"} and stops when its standard input ends
//
// What it serves of the formats we speak, streaming where the vendor does:
//
//   Anthropic           POST /v1/messages
//   OpenAI              POST /v1/chat/completions, /v1/responses, /v1/embeddings; GET /v1/models. Any other prefix
//                       before /chat/completions, /responses and /embeddings is taken for /v1, so Codex's
//                       /backend-api/codex/responses works too.
//   Google              POST /v1beta/models/<id>:generateContent, :streamGenerateContent, :embedContent
//                       (no :batchEmbedContents, no GET /v1beta/models)
//   Ollama              POST /api/chat, /api/generate, /api/embeddings; GET /api/tags. POST /api/embed answers in the
//                       form of the older /api/embeddings, one "embedding" however many inputs, which no client of
//                       /api/embed reads
//   Bedrock             POST /model/<id>/converse, /model/<id>/converse-stream (binary events), /invoke,
//                       /invoke-with-response-stream
//   not served          OAuth, GitHub's device code, Copilot's token
//
// It counts no tokens: usage is 0 everywhere. Its journal of requests is at GET /__aimock/journal.
//
// The last thing the person said decides what comes:
//
//   contains "call a tool"   a call of tide_at {"place":"Brest"} with the id call_aimock_1; once its result is there,
//                            "The tide is high at noon."
//   contains "think first"   thinking, then text, where the format has thinking
//   contains "be refused"    429
//   anything else            "Hello from the other mock."
//   an embedding             [0.5, -0.25, 0.125, 0.0]
import { LLMock } from "@copilotkit/aimock";

const mock = new LLMock({ port: 0, host: "127.0.0.1", logLevel: "silent" });
mock.on({ hasToolResult: true }, { content: "The tide is high at noon." });
mock.onMessage("call a tool", {
  toolCalls: [{ id: "call_aimock_1", name: "tide_at", arguments: JSON.stringify({ place: "Brest" }) }],
});
mock.onMessage("think first", { content: "High at noon.", reasoning: "They ask about the tide." });
mock.onMessage("be refused", {
  error: { message: "Rate limit reached", type: "rate_limit_error", code: "rate_limit_exceeded" },
  status: 429,
});
mock.onEmbedding(/[^]*/, { embedding: [0.5, -0.25, 0.125, 0.0] });
mock.onMessage(/[^]*/, { content: "Hello from the other mock." });

await mock.start();
console.log(JSON.stringify({ baseUrl: mock.url }));
process.stdin.resume();
process.stdin.on("end", async () => {
  await mock.stop();
  process.exit(0);
});
