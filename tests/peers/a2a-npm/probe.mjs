// probe.mjs: the official A2A client in JavaScript against any agent.
//
//   node probe.mjs FOLDER URL JSONRPC|HTTP+JSON [CA CERT KEY]   FOLDER is what peers.sh a2a-npm prints
//
// Says `hi` and, to cancel it, `hold`; with A2A_ASK also that, at which the agent asks back, and answers `red`; with A2A_HOOK also `hi`, of which that URL is to be told. Prints a line `ok NAME` or `FAIL NAME` for each check; exit 1 on any FAIL.
import { createRequire } from 'node:module';
import { randomUUID } from 'node:crypto';
import { pathToFileURL } from 'node:url';

import { fetchWith } from '../certificate.mjs';

const [folder, url, binding, ca, cert, key] = process.argv.slice(2);
const { resolve } = createRequire(`${folder}/`);
const sdk = await import(pathToFileURL(resolve('@a2a-js/sdk/client')).href);

let failed = 0;
const say = (passed, name, ...more) => {
  failed += !passed;
  console.log(passed ? 'ok' : 'FAIL', name, ...more);
};

const fetchImpl = fetchWith(ca, cert, key);

const transports = {
  JSONRPC: new sdk.JsonRpcTransportFactory({ fetchImpl }),
  'HTTP+JSON': new sdk.RestTransportFactory({ fetchImpl }),
};
const options = sdk.ClientFactoryOptions.createFrom(sdk.ClientFactoryOptions.default, {
  transports: [transports[binding]],
  preferredTransports: [binding],
  cardResolver: new sdk.DefaultAgentCardResolver({ fetchImpl }),
});
const client = await new sdk.ClientFactory(options).createFromUrl(url);

const COMPLETED = 3;
const CANCELED = 5;
const INPUT_REQUIRED = 6;
const part = (value) => ({ content: { $case: 'text', value }, mediaType: '', filename: '', metadata: undefined });
const message = (text, configuration) => ({
  message: {
    messageId: randomUUID(), role: 1, parts: [part(text)], contextId: '', taskId: '', extensions: [],
    referenceTaskIds: [], metadata: undefined,
  },
  configuration, metadata: undefined, tenant: '',
});
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
    return [like.test(error.name + error.message), error.name, error.message];
  }
};
const task_of = (answer) => answer?.task ?? answer?.payload?.value ?? answer;

let task;
await check('card', async () => {
  const card = await client.getAgentCard();
  return [card.supportedInterfaces.some((one) => one.protocolBinding === binding), card.name];
});
await check('send', async () => {
  task = task_of(await client.sendMessage(message('hi')));
  return [task.status.state === COMPLETED && task.artifacts.length === 1, task.id];
});
await check('get', async () => {
  const got = await client.getTask({ id: task.id, tenant: '', historyLength: undefined });
  return [got.id === task.id && got.status.state === COMPLETED];
});
await check('stream', async () => {
  const kinds = [];
  for await (const event of client.sendMessageStream(message('hi'))) kinds.push(event.payload?.$case);
  return [kinds.length > 1 && kinds[0] === 'task' && kinds.at(-1) === 'statusUpdate', kinds.join()];
});
await check('list', async () => {
  const listed = await client.listTasks({
    tenant: '', contextId: '', status: 0, pageSize: 1, pageToken: '', historyLength: undefined,
    statusTimestampAfter: undefined, includeArtifacts: undefined,
  });
  return [listed.tasks.length === 1 && listed.totalSize >= 2 && listed.nextPageToken !== '', listed.totalSize];
});
let held;
await check('cancel', async () => {
  const now = { acceptedOutputModes: [], returnImmediately: true };
  held = task_of(await client.sendMessage(message('hold', now)));
  const canceled = await client.cancelTask({ id: held.id, tenant: '', metadata: undefined });
  return [canceled.status.state === CANCELED];
});
await check('subscribe-terminal', () =>
  refused(async () => {
    for await (const event of client.resubscribeTask({ id: held.id, tenant: '' })) void event;
  }, /unsupported/i));
await check('notfound', () =>
  refused(() => client.getTask({ id: 'no-such-task', tenant: '', historyLength: undefined }), /not.?found/i));
if (process.env.A2A_ASK) {
  await check('ask', async () => {
    const waits = task_of(await client.sendMessage(message(process.env.A2A_ASK)));
    const red = message('red');
    Object.assign(red.message, { taskId: waits.id, contextId: waits.contextId });
    let last;
    for await (const event of client.sendMessageStream(red)) last = event.payload;
    const asked = waits.status.state === INPUT_REQUIRED && waits.status.message.parts.length > 0;
    return [asked && last.value.taskId === waits.id && last.value.status.state === COMPLETED, waits.status.state];
  });
}
if (process.env.A2A_HOOK) {
  await check('push', async () => {
    const of = { tenant: '', taskId: task.id };
    const url = process.env.A2A_HOOK;
    const authentication = { scheme: 'Bearer', credentials: 'c' };
    const made = await client.createTaskPushNotificationConfig({ ...of, id: 'p', url, token: 't', authentication });
    const got = await client.getTaskPushNotificationConfig({ ...of, id: 'p' });
    const listed = await client.listTaskPushNotificationConfig({ ...of, pageSize: 0, pageToken: '' });
    await client.deleteTaskPushNotificationConfig({ ...of, id: 'p' });
    const gone = await client.listTaskPushNotificationConfig({ ...of, pageSize: 0, pageToken: '' });
    const same = made.url === url && got.id === 'p' && listed.configs.length === 1 && gone.configs.length === 0;
    const taskPushNotificationConfig = { tenant: '', taskId: '', id: '', url, token: 't', authentication };
    await client.sendMessage(message('hi', { acceptedOutputModes: [], returnImmediately: false, taskPushNotificationConfig }));
    return [same, got.url];
  });
}
process.exit(failed ? 1 : 0);
