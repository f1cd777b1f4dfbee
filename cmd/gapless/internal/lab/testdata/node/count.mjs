// An MCP server on the TypeScript SDK, with a tool that counts.
//
//   node count.mjs example|ordered|late [PORT]
//
// example: the SDK's own InMemoryEventStore; ordered and late: the stores next door. The
// port is argv, else $PORT, else one that is free; the URL is printed as the first line.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { InMemoryEventStore } from "@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";
import { LateStore, OrderedStore } from "./ordered.mjs";

const stores = { example: InMemoryEventStore, ordered: OrderedStore, late: LateStore };
const Store = stores[process.argv[2]];
if (Store === undefined) {
  console.error(`usage: node count.mjs ${Object.keys(stores).join("|")} [PORT]`);
  process.exit(2);
}

const number = (value) => z.number().int().nonnegative().default(value);
const input = { n: number(10), interval_ms: number(0), burst: number(1), bytes: number(0) };

// count sends 1..n, burst of them in one tick, then waits interval_ms.
async function count({ n, interval_ms, burst, bytes }, { _meta, sendNotification }) {
  const step = Math.max(burst, 1);
  for (let first = 1; first <= n; first += step) {
    const sent = [];
    for (let progress = first; progress < first + step && progress <= n; progress++) {
      const params = { progressToken: _meta?.progressToken, progress, total: n, message: "x".repeat(bytes) };
      sent.push(sendNotification({ method: "notifications/progress", params }));
    }
    await Promise.all(sent);
    await new Promise((resolve) => setTimeout(resolve, interval_ms));
  }
  return { content: [{ type: "text", text: `counted to ${n}` }] };
}

const sessions = new Map();

async function open() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: new Store(),
    retryInterval: 50,
    onsessioninitialized: (id) => sessions.set(id, transport),
    onsessionclosed: (id) => sessions.delete(id),
  });
  const server = new McpServer({ name: `count-${process.argv[2]}`, version: "1.0.0" });
  server.registerTool("count", { inputSchema: input }, count);
  await server.connect(transport);
  return transport;
}

const http = createServer(async (request, response) => {
  const id = request.headers["mcp-session-id"];
  const transport = id === undefined ? await open() : sessions.get(id);
  if (transport === undefined) {
    response.writeHead(404).end();
    return;
  }
  await transport.handleRequest(request, response);
});
http.listen(Number(process.argv[3] ?? process.env.PORT ?? 0), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${http.address().port}/mcp`);
});
