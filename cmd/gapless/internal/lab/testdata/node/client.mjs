// An MCP client on the TypeScript SDK that calls emit, one call after the other.
//
//   node client.mjs URL CALLS MESSAGES INTERVAL_MS
//
// It prints one line of JSON: what came of each call, and what the SDK complained about.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";

const [url, ...numbers] = process.argv.slice(2);
const [count, messages, interval_ms] = numbers.map(Number);
if (url === undefined || numbers.length !== 3 || numbers.some((n) => !/^\d+$/.test(n))) {
  console.error("usage: node client.mjs URL CALLS MESSAGES INTERVAL_MS");
  process.exit(2);
}

const complaints = [];
const client = new Client({ name: "gapless-e2e", version: "1.0.0" });
client.onerror = (error) => complaints.push(String(error.message));
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
const calls = [];
for (let i = 0; i < count; i++) {
  const progress = [];
  const request = { name: "emit", arguments: { messages, interval_ms } };
  const options = { timeout: 30_000, onprogress: (p) => progress.push(p.progress) };
  const result = await client.callTool(request, CallToolResultSchema, options);
  // Handlers of notifications run in microtasks of their own.
  await new Promise((resolve) => setTimeout(resolve, 50));
  calls.push({ progress, text: result.content[0].text });
}
const version = transport.protocolVersion;
await transport.terminateSession();
await client.close();
console.log(JSON.stringify({ version, calls, complaints }));
