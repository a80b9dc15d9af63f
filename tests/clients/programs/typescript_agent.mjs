// An external agent on the TypeScript SDK's client: one MCP session, the model asked with fetch. The SDK's folder is given.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.argv[2] + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { ROLLOUTHUB_AGENT_URL, ROLLOUTHUB_MODEL, ROLLOUTHUB_PROMPT, OPENAI_BASE_URL, OPENAI_API_KEY } = process.env;

const client = new Client({ name: "typescript-agent", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL(ROLLOUTHUB_AGENT_URL)));
const { tools } = await client.listTools();
const shown = tools.map(({ name, description, inputSchema }) => ({
  type: "function",
  function: { name, description, parameters: inputSchema },
}));

const messages = [{ role: "user", content: ROLLOUTHUB_PROMPT }];
for (;;) {
  const response = await fetch(`${OPENAI_BASE_URL}/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${OPENAI_API_KEY}` },
    body: JSON.stringify({ model: ROLLOUTHUB_MODEL, messages, tools: shown }),
  });
  if (!response.ok) throw new Error(await response.text());
  const { message } = (await response.json()).choices[0];
  messages.push(message);
  if (!message.tool_calls?.length) break;
  for (const { id, function: call } of message.tool_calls) {
    const result = await client.callTool({ name: call.name, arguments: JSON.parse(call.arguments) });
    messages.push({ role: "tool", tool_call_id: id, content: result.content.map(({ text }) => text).join("\n") });
  }
}
await client.close();
