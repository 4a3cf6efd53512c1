#!/usr/bin/env python3
"""Sends one A2A message with the official Python SDK and prints the answer.

    message.py URL TEXT --ca bundle.pem --cert svid.pem --key svid.key

The client certificate is the caller's SVID; the server's is checked against the trust bundle and the host name.
Exit code 0: the task was completed.
"""

import argparse
import asyncio
import ssl
import sys
import uuid

import httpx
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.helpers.proto_helpers import get_artifact_text
from a2a.types import Message, Part, Role, SendMessageRequest, TaskState


async def send(args: argparse.Namespace) -> int:
    context = ssl.create_default_context(cafile=args.ca)
    context.load_cert_chain(args.cert, args.key)
    async with httpx.AsyncClient(verify=context, timeout=args.timeout) as http:
        card = await A2ACardResolver(http, args.url).get_agent_card()
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=["JSONRPC"], streaming=False)
        client = ClientFactory(config).create(card)
        message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=args.text)])
        task = None
        async for event in client.send_message(SendMessageRequest(message=message)):
            if event.WhichOneof("payload") == "task":
                task = event.task
    if task is None:
        print("no task came back", file=sys.stderr)
        return 1
    state = TaskState.Name(task.status.state)
    said = [part.text for part in task.status.message.parts] + [get_artifact_text(each) for each in task.artifacts]
    print(" ".join(filter(None, said)))
    print(f"task {task.id}: {state}", file=sys.stderr)
    return 0 if task.status.state == TaskState.TASK_STATE_COMPLETED else 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("text")
    parser.add_argument("--ca", required=True)
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--timeout", type=float, default=120)
    sys.exit(asyncio.run(send(parser.parse_args())))


if __name__ == "__main__":
    main()
