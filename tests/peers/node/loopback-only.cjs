// node --require loopback-only.cjs PROGRAM: makes listen(port) without a host bind $LISTEN_HOST, 127.0.0.1 if not
// set. MCP's reference server and others bind every address otherwise, and could be reached past the bridge.
// It also ends at once when told to: as the first process of a container node would wait to be killed.
const net = require('node:net');

process.on('SIGTERM', () => process.exit(0));

const listen = net.Server.prototype.listen;
const host = process.env.LISTEN_HOST || '127.0.0.1';
net.Server.prototype.listen = function (...args) {
  const [first, second] = args;
  if (typeof first === 'number' || (typeof first === 'string' && /^\d+$/.test(first))) {
    if (typeof second !== 'string') args.splice(1, 0, host);
  } else if (first && typeof first === 'object' && 'port' in first && !first.host) {
    args[0] = { ...first, host };
  }
  return listen.apply(this, args);
};
