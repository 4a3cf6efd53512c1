// front.mjs: https in front of an http or https server. Ends TLS, asks for a bearer token if it was told one, and
// passes requests on with their streams.
//
//   CERT, KEY    files, PEM
//   LISTEN       ADDRESS:PORT; port 0 takes a free one
//   UPSTREAM     http[s]://HOST[:PORT][/BASE]
//   TOKEN_FILE   a request without `Authorization: Bearer <its content>` gets 401
//   PORT_FILE    the port listened on is written there
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';

const { CERT, KEY, LISTEN = '0.0.0.0:8443', UPSTREAM, TOKEN_FILE, PORT_FILE } = process.env;
const upstream = new URL(UPSTREAM);
const dial = upstream.protocol === 'https:' ? https : http;
const base = upstream.pathname.replace(/\/$/, '');
// Hop by hop: they say something about one connection and are not passed on.
const HOP = new Set(['connection', 'keep-alive', 'proxy-connection', 'te', 'transfer-encoding', 'upgrade']);

const passed = (headers) => Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP.has(name)));

function authorised(request) {
  // Read at each request, so that a changed Secret counts at once.
  return !TOKEN_FILE || request.headers.authorization === `Bearer ${fs.readFileSync(TOKEN_FILE, 'utf8').trim()}`;
}

const server = https.createServer({ cert: fs.readFileSync(CERT), key: fs.readFileSync(KEY) }, (request, response) => {
  if (!authorised(request)) {
    response.writeHead(401, { 'www-authenticate': 'Bearer', 'content-type': 'text/plain' }).end('no valid token\n');
    return;
  }
  const onward = dial.request(
    {
      host: upstream.hostname,
      port: upstream.port || (upstream.protocol === 'https:' ? 443 : 80),
      method: request.method,
      path: base + request.url,
      headers: { ...passed(request.headers), host: upstream.host },
    },
    (answer) => {
      response.writeHead(answer.statusCode, passed(answer.headers));
      // Streams are held open without a byte for long; the head must not wait for the first one.
      response.flushHeaders();
      answer.pipe(response);
    },
  );
  onward.on('error', (error) => {
    console.error(JSON.stringify({ event: 'front.upstream', error: error.message }));
    if (response.headersSent) response.destroy();
    else response.writeHead(502, { 'content-type': 'text/plain' }).end('the upstream does not answer\n');
  });
  response.on('close', () => onward.destroy());
  request.pipe(onward);
});

const [, address, port] = LISTEN.match(/^(.*):(\d+)$/);
server.listen(Number(port), address, () => {
  if (PORT_FILE) {
    // Renamed, so that it is there whole.
    fs.writeFileSync(`${PORT_FILE}.new`, String(server.address().port));
    fs.renameSync(`${PORT_FILE}.new`, PORT_FILE);
  }
});
process.on('SIGTERM', () => {
  server.close();
  server.closeAllConnections();
});
