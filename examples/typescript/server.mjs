// An MCP server on the TypeScript SDK whose streams can be resumed, with one tool to test
// them with. docs/test-your-own-server.md starts here.
//
//   node server.mjs [PORT]
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";
import { OrderedStore } from "./store.mjs";

const sessions = new Map();

async function open() {
  const server = new McpServer({ name: "count", version: "1.0.0" });
  server.registerTool(
    "count",
    { inputSchema: { n: z.number().int(), interval_ms: z.number().default(0) } },
    async ({ n, interval_ms }, { _meta, sendNotification }) => {
      const progressToken = _meta?.progressToken ?? 0;
      for (let progress = 1; progress <= n; progress++) {
        const params = { progressToken, progress, total: n };
        await sendNotification({ method: "notifications/progress", params });
        await new Promise((done) => setTimeout(done, interval_ms));
      }
      return { content: [{ type: "text", text: "counted" }] };
    },
  );
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: new OrderedStore(), // one per session; without it there is nothing to resume
    retryInterval: 100,
    onsessioninitialized: (id) => sessions.set(id, transport),
    onsessionclosed: (id) => sessions.delete(id),
  });
  await server.connect(transport);
  return transport;
}

createServer(async (request, response) => {
  const id = request.headers["mcp-session-id"];
  const transport = id === undefined ? await open() : sessions.get(id);
  if (transport === undefined) {
    response.writeHead(404).end();
    return;
  }
  await transport.handleRequest(request, response);
}).listen(Number(process.argv[2] ?? 3000), "127.0.0.1");
