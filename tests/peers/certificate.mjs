// certificate.mjs: what the probes in JavaScript share: a fetch that shows a client certificate, which that of Node cannot.
import { readFileSync } from 'node:fs';
import https from 'node:https';
import { Readable } from 'node:stream';

// The fetch for these files; that of Node without them.
export const fetchWith = (ca, cert, key) => {
  if (!ca) return fetch;
  const tls = { ca: readFileSync(ca), cert: readFileSync(cert), key: readFileSync(key) };
  return (address, { method, headers, body, signal } = {}) =>
    new Promise((done, fail) => {
      const options = { ...tls, method, signal, headers: Object.fromEntries(new Headers(headers)) };
      const request = https.request(address, options, (answer) => {
        const stream = [204, 304].includes(answer.statusCode) ? null : Readable.toWeb(answer);
        done(new Response(stream, { status: answer.statusCode, headers: answer.headers }));
      });
      request.on('error', fail);
      request.end(body);
    });
};
