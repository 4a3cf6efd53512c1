// node --require peer.cjs PROGRAM: prints `listening PORT` when a port is listened on, so that PORT=0 can be used, and
// ends when standard input does, so that no program outlives the test that started it.
const net = require('node:net');

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...args) {
  this.once('listening', () => process.stdout.write(`listening ${this.address().port}\n`));
  return listen.apply(this, args);
};
process.stdin.on('end', () => process.exit(0)).resume();
