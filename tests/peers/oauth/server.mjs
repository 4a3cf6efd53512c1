// oidc-provider, a certified OAuth and OpenID server, as the authorization server of an MCP server.
//
//   node server.mjs <folder of peers.sh oauth> PORT
//
// Issuer http://127.0.0.1:PORT/as; with CERT and KEY, two PEM files, https on LISTEN_HOST, an address. Its metadata is at
// the names of RFC 8414 and of OpenID. Clients for the client credentials grant: `svc` with `svc-secret`
// (client_secret_basic), `post` with `post-secret` (client_secret_post). The `resource` of a request (RFC 8707) is the
// audience of its token, a JWT. GET /log answers the token requests without what is secret in them. Prints
// `listening PORT`, and ends when standard input does; port 0 takes a free one.
import fs from "node:fs";
import http from "node:http";
import https from "node:https";
import { generateKeyPairSync } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, port] = process.argv.slice(2);
const path = createRequire(`${folder}/`).resolve("oidc-provider");
const { default: Provider } = await import(pathToFileURL(path));

const { CERT, KEY, LISTEN_HOST: host = "127.0.0.1" } = process.env;
const server = CERT
  ? https.createServer({ cert: fs.readFileSync(CERT), key: fs.readFileSync(KEY) })
  : http.createServer();
await new Promise((ready) => server.listen(Number(port), host, ready));
const origin = `${CERT ? "https" : "http"}://${host}:${server.address().port}`;
const mount = "/as";
const scope = "mcp:read mcp:write";
const key = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });
const client = (id, method) => ({
  client_id: id,
  client_secret: `${id}-secret`,
  token_endpoint_auth_method: method,
  grant_types: ["client_credentials"],
  response_types: [],
  redirect_uris: [],
  scope,
});
const provider = new Provider(origin + mount, {
  jwks: { keys: [{ ...key, kid: "as", alg: "RS256", use: "sig" }] },
  scopes: scope.split(" "),
  clients: [client("svc", "client_secret_basic"), client("post", "client_secret_post")],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, resource) => ({
        scope,
        audience: resource,
        accessTokenTTL: 300,
        accessTokenFormat: "jwt",
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
});
const log = [];
const note = (context, status) => {
  const { client_secret: _, ...form } = context.oidc.body ?? {};
  log.push({ status, basic: context.get("authorization").startsWith("Basic "), form });
};
provider.on("grant.success", (context) => note(context, 200));
provider.on("grant.error", (context, error) => note(context, error.statusCode));

const serve = provider.callback();
server.on("request", (request, response) => {
  if (request.url === "/log") {
    response.setHeader("content-type", "application/json");
    return response.end(JSON.stringify(log));
  }
  // With a path in the issuer, its name goes behind the well-known one (RFC 8414); the provider knows the other form.
  if (request.url.startsWith("/.well-known/") && request.url.endsWith(mount)) {
    request.url = `${mount}/.well-known/openid-configuration`;
  }
  if (!request.url.startsWith(`${mount}/`)) {
    response.statusCode = 404;
    return response.end();
  }
  request.originalUrl = request.url;
  request.url = request.url.slice(mount.length);
  return serve(request, response);
});
process.stdin.on("end", () => process.exit()).resume();
console.log(`listening ${server.address().port}`);
