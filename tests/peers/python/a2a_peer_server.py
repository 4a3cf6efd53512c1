#!/usr/bin/env python3
"""An agent of the official Python SDK (PyPI a2a-sdk), for our client: does what the first word of a message says.

Use: a2a_peer_server.py [--v03-only] [--no-stream] [--tenant NAME] [--log FILE]

  echo X | slow N X | artifact X | chunks N | data JSON | need X | auth | fail | reject | direct X

Listens on a free port of 127.0.0.1 and prints `ready URL` when it does. With --v03-only its card lists version 0.3 alone.
Every request is appended to --log as one JSON line, so that a test can judge what our client really sent.
"""
import argparse, asyncio, json, socket

import uvicorn
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Value
from starlette.applications import Starlette

from a2a.helpers.proto_helpers import new_task_from_user_message, get_message_text
from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.tasks.inmemory_task_store import InMemoryTaskStore
from a2a.server.tasks.task_updater import TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part


class Peer(AgentExecutor):
    async def execute(self, ctx, q):
        text = get_message_text(ctx.message)
        up = TaskUpdater(q, ctx.task_id, ctx.context_id)
        say = lambda t: up.new_agent_message([Part(text=t)])
        word, _, rest = text.partition(' ')
        if word == 'direct':
            return await q.enqueue_event(say(text))
        if ctx.current_task is None:
            await q.enqueue_event(new_task_from_user_message(ctx.message))
        if word == 'need':
            return await up.requires_input(say('need: ' + rest))
        if word == 'auth':
            return await up.requires_auth(say('need a credential'))
        if word == 'reject':
            return await up.reject(say('rejected on request'))
        await up.start_work()
        if word == 'fail':
            return await up.failed(say('failed on request'))
        if word == 'slow':
            seconds, _, rest = rest.partition(' ')
            await asyncio.sleep(float(seconds))
            await up.add_artifact([Part(text=rest)], name='answer')
        elif word == 'artifact':
            await up.add_artifact([Part(text=rest)], name='answer')
        elif word == 'chunks':
            n = int(rest)
            for i in range(n):
                await up.add_artifact([Part(text=f'c{i} ')], artifact_id='a1', append=i > 0, last_chunk=i == n - 1)
        elif word == 'data':
            await up.add_artifact([Part(data=json_format.Parse(rest, Value()))], name='data')
        else:
            await up.add_artifact([Part(text='echo: ' + text)], name='answer')
        await up.complete()

    async def cancel(self, ctx, q):
        await TaskUpdater(q, ctx.task_id, ctx.context_id).cancel()


class Recorder:
    """One JSON line for each HTTP request."""
    def __init__(self, app, path):
        self.app, self.f = app, open(path, 'a', buffering=1)

    async def __call__(self, scope, receive, send):
        if scope['type'] != 'http':
            return await self.app(scope, receive, send)
        body = b''

        async def rx():
            nonlocal body
            m = await receive()
            body += m.get('body', b'')
            return m
        try:
            await self.app(scope, rx, send)
        finally:
            self.f.write(json.dumps({'method': scope['method'], 'path': scope['path'],
                                     'headers': {k.decode(): v.decode('latin1') for k, v in scope['headers']},
                                     'body': body.decode('utf-8', 'replace')}) + '\n')


async def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--v03-only', action='store_true')
    ap.add_argument('--no-stream', action='store_true')
    ap.add_argument('--tenant', default='')
    ap.add_argument('--log')
    a = ap.parse_args()
    listener = socket.socket()
    listener.bind(('127.0.0.1', 0))
    base = f'http://127.0.0.1:{listener.getsockname()[1]}'
    version = '0.3' if a.v03_only else '1.0'
    card = AgentCard(name='peer', description='independent A2A peer', version='1.0.0',
                     supported_interfaces=[AgentInterface(url=base + '/rpc', protocol_binding='JSONRPC',
                                                          protocol_version=version, tenant=a.tenant)],
                     capabilities=AgentCapabilities(streaming=not a.no_stream),
                     default_input_modes=['text/plain'], default_output_modes=['text/plain'],
                     skills=[AgentSkill(id='echo', name='Echo', description='scripted outcomes', tags=['test'])])
    handler = DefaultRequestHandler(agent_executor=Peer(), task_store=InMemoryTaskStore(), agent_card=card)
    app = Starlette(routes=create_agent_card_routes(card, cache_control='max-age=60')
                    + create_jsonrpc_routes(handler, '/rpc', enable_v0_3_compat=a.v03_only))
    if a.log:
        app = Recorder(app, a.log)
    server = uvicorn.Server(uvicorn.Config(app, log_level='warning'))
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.05)
    print('ready', base, flush=True)
    await serving


asyncio.run(main())
