// stand-in.mjs: the scripted model server aimock in place of a language model. It knows nothing: asked about two
// numbers it calls the first tool that adds, asked to echo it calls the first tool that echoes, told to hold it sleeps a
// minute, and what it answers is what the tool said. A question it has no script for gets an answer that says so.
//
//   PORT         127.0.0.1:PORT
import { LLMock } from '@copilotkit/aimock';

const text = (message) =>
  typeof message?.content === 'string' ? message.content : (message?.content ?? []).map((part) => part.text ?? '').join('');
const lastOf = (request, role) => request.messages.findLast((message) => message.role === role);
const question = (request) => text(lastOf(request, 'user'));
const tool = (request, pattern) => request.tools?.map((each) => each.function.name).find((name) => pattern.test(name));
const numbers = (request) => (question(request).match(/-?\d+(\.\d+)?/g) ?? []).map(Number);
// Ids differ from call to call, as a model's do.
let calls = 0;
const call = (name, args) => ({ toolCalls: [{ id: `call_${(calls += 1)}`, name, arguments: JSON.stringify(args) }] });

const scripts = [
  {
    // What a tool said is the answer.
    when: (request) => request.messages.at(-1)?.role === 'tool',
    answer: (request) => ({ content: `The tool says: ${text(request.messages.at(-1))}` }),
  },
  {
    when: (request) => /\bremote\b.*\becho\b/i.test(question(request)) && tool(request, /remote.*echo$/),
    answer: (request) => call(tool(request, /remote.*echo$/), { message: question(request) }),
  },
  {
    when: (request) => /\becho\b/i.test(question(request)) && tool(request, /echo$/),
    answer: (request) => call(tool(request, /echo$/), { message: question(request) }),
  },
  {
    when: (request) => /\bhold\b/i.test(question(request)) && tool(request, /^sleep$/),
    answer: (request) => call(tool(request, /^sleep$/), { duration: '60s' }),
  },
  {
    // One wire has no - in the name of a tool.
    when: (request) => numbers(request).length >= 2 && tool(request, /get[-_]sum$/),
    answer: (request) => {
      const [a, b] = numbers(request);
      return call(tool(request, /get[-_]sum$/), { a, b });
    },
  },
  {
    when: () => true,
    answer: () => ({ content: 'This stand-in for a model has no script for that question.' }),
  },
];

const mock = new LLMock({ port: Number(process.env.PORT ?? 4010), host: '127.0.0.1', strict: true });
for (const { when, answer } of scripts) {
  mock.addFixture({ match: { predicate: (request) => Boolean(when(request)) }, response: answer });
}
await mock.start();
process.on('SIGTERM', () => mock.stop());
