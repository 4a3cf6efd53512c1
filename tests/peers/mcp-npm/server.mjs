// server.mjs: the official TypeScript SDK 2: the stateless revision 2026-07-28 with subscriptions/listen, and older
// clients without sessions.
//
//   node server.mjs FOLDER PORT [modern-only] [sse|json]       FOLDER is what peers.sh mcp-npm prints
//
// MCP is at /mcp. For the tests, by GET: /grow adds a tool, /touch changes state://counter, both are told to whoever
// listens; /log gives the headers of all requests. Listens on 127.0.0.1; port 0 takes a free one.
// Prints `listening PORT`, and ends when standard input does.
import http from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, port, ...options] = process.argv.slice(2);
const { resolve } = createRequire(`${folder}/`);
const load = (name) => import(pathToFileURL(resolve(name)).href);
const { McpServer, acceptedContent, createMcpHandler, inputRequired } = await load('@modelcontextprotocol/server');
const { toNodeHandler } = await load('@modelcontextprotocol/node');
const { z } = await load('zod');

const has = (option) => options.includes(option);
const text = (value) => ({ content: [{ type: 'text', text: String(value) }] });
const extra = [];
const log = [];
let counter = 0;

function server() {
  const capabilities = { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } };
  const mcp = new McpServer({ name: 'stateless', version: '1.0.0' }, { capabilities, instructions: 'Stateless: say please.' });
  mcp.registerTool('add', { description: 'adds', inputSchema: z.object({ a: z.number(), b: z.number() }) }, ({ a, b }) => text(a + b));
  const region = z.string().meta({ 'x-mcp-header': 'Region' });
  mcp.registerTool('region', { description: 'an argument that is a header too', inputSchema: z.object({ region }) }, ({ region }) => text(region));
  const temperature = { description: 'structured', inputSchema: z.object({}), outputSchema: z.object({ celsius: z.number() }) };
  mcp.registerTool('temperature', temperature, () => ({ ...text('{"celsius":22.5}'), structuredContent: { celsius: 22.5 } }));
  mcp.registerTool('fail', { description: 'fails', inputSchema: z.object({}) }, () => ({ ...text('failed on request'), isError: true }));
  mcp.registerTool('ask', { description: 'asks a person for a name', inputSchema: z.object({}) }, (_, ctx) => {
    const answer = acceptedContent(ctx.mcpReq.inputResponses, 'name', z.object({ name: z.string() }));
    if (answer) return text(`hello ${answer.name}`);
    if (ctx.mcpReq.inputResponses) return text('nobody said');
    const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
    return inputRequired({ inputRequests: { name: inputRequired.elicit({ message: 'name?', requestedSchema }) } });
  });
  for (const name of extra) mcp.registerTool(name, { description: name, inputSchema: z.object({}) }, () => text(name));
  mcp.registerResource('counter', 'state://counter', { mimeType: 'text/plain' }, (uri) => ({ contents: [{ uri: uri.href, text: String(counter) }] }));
  return mcp;
}

const handler = createMcpHandler(server, {
  legacy: has('modern-only') ? 'reject' : 'stateless',
  responseMode: has('sse') ? 'sse' : has('json') ? 'json' : 'auto',
  onerror: (error) => console.error(String(error)),
});
const mcp = toNodeHandler(handler);

const admin = {
  '/grow': () => {
    extra.push(`extra_${extra.length}`);
    handler.notify.toolsChanged();
    return extra;
  },
  '/touch': () => {
    counter += 1;
    handler.notify.resourceUpdated('state://counter');
    return counter;
  },
  '/log': () => log,
};

const listener = http.createServer((request, response) => {
  if (admin[request.url]) {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(admin[request.url]()));
  } else if (request.url === '/mcp') {
    log.push({ method: request.method, headers: request.headers });
    mcp(request, response);
  } else {
    response.writeHead(404).end();
  }
});
listener.listen(Number(port), '127.0.0.1', () => console.log(`listening ${listener.address().port}`));
process.stdin.on('end', () => process.exit(0)).resume();
