// An MCP client of the TypeScript SDK, driven by JSON lines. NODE_PATH does not serve ES modules: the SDK's folder is given.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [url, packages] = process.argv.slice(2);
const require = createRequire(packages + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");

const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const client = new Client({ name: "typescript-client", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
say({ protocol: "typescript", instructions: client.getInstructions() });
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  try {
    if (asked.do === "list") say({ tools: (await client.listTools()).tools });
    else {
      const request = { name: asked.name, arguments: asked.arguments };
      say({ result: await client.callTool(request) });
    }
  } catch (error) {
    say({ error: String(error) });
  }
}
await client.close();
