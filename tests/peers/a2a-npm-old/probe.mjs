// probe.mjs: the official A2A client of 0.3 in JavaScript against any agent.
//
//   node probe.mjs FOLDER URL TEXT [CA CERT KEY]   FOLDER is what peers.sh a2a-npm-old prints
//
// Says `hi`, TEXT to have it streamed and, to follow and to cancel it, `hold`. Prints a line `ok NAME` or `FAIL NAME` for
// each check; exit 1 on any FAIL. At the text in A2A_ASK the agent must ask back; it is told `red`.
import { createRequire } from 'node:module';
import { randomUUID } from 'node:crypto';
import { pathToFileURL } from 'node:url';

import { fetchWith } from '../certificate.mjs';

const [folder, url, streamed, ca, cert, key] = process.argv.slice(2);
const { resolve } = createRequire(`${folder}/`);
const sdk = await import(pathToFileURL(resolve('@a2a-js/sdk/client')).href);

let failed = 0;
const say = (passed, name, ...more) => {
  failed += !passed;
  console.log(passed ? 'ok' : 'FAIL', name, ...more);
};

const fetchImpl = fetchWith(ca, cert, key);

const options = sdk.ClientFactoryOptions.createFrom(sdk.ClientFactoryOptions.default, {
  transports: [new sdk.JsonRpcTransportFactory({ fetchImpl })],
  cardResolver: new sdk.DefaultAgentCardResolver({ fetchImpl }),
});
const client = await new sdk.ClientFactory(options).createFromUrl(url);

const message = (part, configuration) => ({
  message: { kind: 'message', messageId: randomUUID(), role: 'user', parts: [part] },
  configuration,
});
const text = (said, configuration) => message({ kind: 'text', text: said }, configuration);
const check = async (name, work) => {
  try {
    const [passed, ...more] = await work();
    say(passed, name, ...more);
  } catch (error) {
    say(false, name, error.name, error.message);
  }
};
const refused = async (work, like) => {
  try {
    await work();
    return [false, 'no error'];
  } catch (error) {
    return [like.test(`${error.name} ${error.message}`), error.name, error.message];
  }
};

let task;
await check('card', async () => {
  const card = await client.getAgentCard();
  return [card.protocolVersion.startsWith('0.3') && card.preferredTransport === 'JSONRPC', card.name, card.url];
});
await check('send', async () => {
  task = await client.sendMessage(text('hi', { blocking: true }));
  return [task.kind === 'task' && task.status.state === 'completed' && task.artifacts[0].parts[0].kind === 'text', task.id];
});
await check('data', async () => {
  const sent = await client.sendMessage(message({ kind: 'data', data: { say: 'hi' } }));
  const [part] = sent.history[0].parts;
  return [sent.history[0].kind === 'message' && part.kind === 'data' && part.data.say === 'hi'];
});
await check('get', async () => {
  const got = await client.getTask({ id: task.id, historyLength: 1 });
  return [got.id === task.id && got.status.state === 'completed' && got.history.length === 1];
});
await check('stream', async () => {
  const events = [];
  for await (const event of client.sendMessageStream(text(streamed))) events.push(event);
  const end = events.at(-1);
  const right = events[0].kind === 'task' && end.kind === 'status-update' && end.final && end.status.state === 'completed';
  return [right && events.some(({ kind, artifacts }) => kind === 'artifact-update' || artifacts?.length), events.map(({ kind }) => kind).join()];
});
let held;
await check('at-once', async () => {
  held = await client.sendMessage(text('hold', { blocking: false }));
  return [['submitted', 'working'].includes(held.status.state), held.status.state];
});
await check('resubscribe', async () => {
  const events = [];
  let canceled;
  for await (const event of client.resubscribeTask({ id: held.id })) {
    events.push(event);
    canceled ??= await client.cancelTask({ id: held.id });
  }
  const end = events.at(-1);
  const right = events[0].kind === 'task' && end.final && end.status.state === 'canceled';
  return [right && canceled.status.state === 'canceled', events.map(({ kind }) => kind).join()];
});
await check('resubscribe-terminal', () =>
  refused(async () => {
    for await (const event of client.resubscribeTask({ id: held.id })) void event;
  }, /ended|unsupported/i));
await check('cancel-terminal', () => refused(() => client.cancelTask({ id: task.id }), /TaskNotCancelable/));
await check('notfound', () => refused(() => client.getTask({ id: 'no-such-task' }), /TaskNotFound/));
const file = { kind: 'file', file: { uri: 'https://files.example/a' } };
await check('file', () => refused(() => client.sendMessage(message(file)), /ContentTypeNotSupported/));
await check('push', () =>
  refused(() => client.getTaskPushNotificationConfig({ id: task.id }), /push/i));
if (process.env.A2A_ASK) {
  await check('ask', async () => {
    const events = [];
    for await (const event of client.sendMessageStream(text(process.env.A2A_ASK))) events.push(event);
    const end = events.at(-1);
    const answer = text('red');
    Object.assign(answer.message, { taskId: end.taskId, contextId: end.contextId });
    const done = await client.sendMessage(answer);
    const asks = end.kind === 'status-update' && end.final && end.status.state === 'input-required';
    return [asks && done.id === end.taskId && done.status.state === 'completed', end.status?.state, done.status.state];
  });
}
process.exit(failed ? 1 : 0);
