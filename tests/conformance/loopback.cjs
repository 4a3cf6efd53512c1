// node --require loopback.cjs PROGRAM: what would listen on every address listens on 127.0.0.1. Unlike
// peers/node/loopback-only.cjs it works at once and not after a lookup: the suite asks for the port in the same breath.
const net = require('node:net');

const listen = net.Server.prototype._listen2;
net.Server.prototype._listen2 = function (address, port, type, ...rest) {
  const everywhere = !address && port >= 0;
  return listen.call(this, everywhere ? '127.0.0.1' : address, port, everywhere ? 4 : type, ...rest);
};
