#!/usr/bin/env python3
"""The official A2A client of 0.3 in Python (PyPI a2a-sdk 0.3) against any agent.

Use: python probe.py URL [--streamed TEXT] [--ask TEXT] [--hook URL] [--ca CA --cert CERT --key KEY]
Says `hi`, TEXT to have it streamed (else `hi` too) and, to follow and to cancel it, `hold`. At the TEXT of --ask the agent
must ask back; it is told `red`. The URL of --hook is to be told of a task; without it no push must be there. Prints a line `ok NAME` or `FAIL NAME` for each check; exit 1 on any FAIL.
"""
import argparse
import asyncio
import ssl
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientJSONRPCError
from a2a.types import (DataPart, FilePart, FileWithUri, GetTaskPushNotificationConfigParams, Message, MessageSendConfiguration,
                       Part, PushNotificationAuthenticationInfo, PushNotificationConfig, Role, Task, TaskIdParams,
                       TaskPushNotificationConfig, TaskQueryParams, TaskState,
                       TaskStatusUpdateEvent, TextPart)

failed = 0


def say(passed, name, *more):
    global failed
    failed += not passed
    print('ok' if passed else 'FAIL', name, *more, flush=True)


def message(*parts, **more):
    return Message(message_id=str(uuid.uuid4()), role=Role.user, parts=[Part(root=part) for part in parts], **more)


def text_of(task):
    return ''.join(part.root.text for artifact in task.artifacts or [] for part in artifact.parts)


async def check(name, work):
    try:
        passed, *more = await work
        say(passed, name, *more)
    except Exception as error:
        say(False, name, type(error).__name__, error)


async def refused(code, work):
    """Whether it is refused with this code."""
    try:
        await work
        return False, 'no error'
    except A2AClientJSONRPCError as error:
        return error.error.code == code, error.error.code, error.error.message


async def main():
    options = argparse.ArgumentParser()
    options.add_argument('url')
    options.add_argument('--streamed', default='hi')
    options.add_argument('--ask')
    options.add_argument('--hook')
    options.add_argument('--ca'), options.add_argument('--cert'), options.add_argument('--key')
    asked = options.parse_args()
    tls = True
    if asked.ca:
        tls = ssl.create_default_context(cafile=asked.ca)
        tls.load_cert_chain(asked.cert, asked.key)
    http = httpx.AsyncClient(verify=tls, timeout=60)
    card = await A2ACardResolver(http, asked.url).get_agent_card()
    whole = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
    stream = ClientFactory(ClientConfig(httpx_client=http)).create(card)
    seen = {}

    async def last(client, *parts, **configuration):
        """The task of the last event, and every event."""
        task, events = None, []
        sent = client.send_message(message(*parts), configuration=MessageSendConfiguration(**configuration))
        async for task, event in sent:
            events.append(event)
        return task, events

    async def of_card():
        schemes = (card.security_schemes or {}).values()
        right = card.protocol_version.startswith('0.3') and card.preferred_transport == 'JSONRPC'
        return right and all(one.root.type == 'mutualTLS' for one in schemes), card.name, card.url

    async def send():
        task, _ = await last(whole, TextPart(text='hi'))
        seen['done'] = task.id
        return isinstance(task, Task) and task.status.state == TaskState.completed and text_of(task) != '', text_of(task)

    async def data():
        task, _ = await last(whole, DataPart(data={'say': 'hi'}))
        sent = task.history[0].parts[0].root
        return sent.kind == 'data' and sent.data == {'say': 'hi'}, sent

    async def get():
        task = await whole.get_task(TaskQueryParams(id=seen['done'], history_length=1))
        return task.status.state == TaskState.completed and len(task.history) == 1, task.id

    async def streamed():
        task, events = await last(stream, TextPart(text=asked.streamed))
        kinds = [getattr(event, 'kind', 'task') for event in events]
        right = kinds[0] == 'task' and isinstance(events[-1], TaskStatusUpdateEvent) and events[-1].final
        return right and task.status.state == TaskState.completed and text_of(task) != '', *kinds

    async def at_once():
        task, _ = await last(whole, TextPart(text='hold'), blocking=False)
        seen['held'] = task.id
        return task.status.state in (TaskState.submitted, TaskState.working), task.status.state

    async def follow_and_cancel():
        events, began = [], asyncio.Event()

        async def follow():
            async for task, event in stream.resubscribe(TaskIdParams(id=seen['held'])):
                events.append((task, event))
                began.set()

        following = asyncio.create_task(follow())
        waiting = asyncio.create_task(began.wait())
        await asyncio.wait([following, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        canceled = await whole.cancel_task(TaskIdParams(id=seen['held']))
        await following
        task, event = events[-1]
        right = canceled.status.state == task.status.state == TaskState.canceled
        return right and events[0][1] is None and event.final, len(events)

    async def resubscribe_terminal():
        async def follow():
            async for _ in stream.resubscribe(TaskIdParams(id=seen['held'])):
                pass

        return await refused(-32004, follow())

    async def ask():
        task, events = await last(stream, TextPart(text=asked.ask))
        asks = task.status.state == TaskState.input_required and events[-1].final and task.status.message.role == Role.agent
        answer = message(TextPart(text='red'), task_id=task.id, context_id=task.context_id)
        async for done, _ in whole.send_message(answer):
            pass
        return asks and done.id == task.id and done.status.state == TaskState.completed, done.status.state

    async def push():
        of = GetTaskPushNotificationConfigParams(id=seen['done'], push_notification_config_id='p')
        if not asked.hook:
            return await refused(-32003, whole.get_task_callback(of))
        config = PushNotificationConfig(id='p', url=asked.hook, token='t', authentication=PushNotificationAuthenticationInfo(schemes=['Bearer'], credentials='c'))
        made = await whole.set_task_callback(TaskPushNotificationConfig(task_id=seen['done'], push_notification_config=config))
        got = await whole.get_task_callback(of)
        await last(whole, TextPart(text='hi'), push_notification_config=config)
        return made == got and got.push_notification_config.url == asked.hook, got.push_notification_config.url

    file = FilePart(file=FileWithUri(uri='https://files.example/a'))
    await check('card', of_card())
    await check('send', send())
    await check('data', data())
    await check('get', get())
    await check('stream', streamed())
    await check('at-once', at_once())
    await check('resubscribe', follow_and_cancel())
    await check('resubscribe-terminal', resubscribe_terminal())
    await check('cancel-terminal', refused(-32002, whole.cancel_task(TaskIdParams(id=seen['done']))))
    await check('notfound', refused(-32001, whole.get_task(TaskQueryParams(id='no-such-task'))))
    await check('file', refused(-32005, last(whole, file)))
    await check('push', push())
    if asked.ask:
        await check('ask', ask())
    sys.exit(1 if failed else 0)


asyncio.run(main())
