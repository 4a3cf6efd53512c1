"""fastmcp on the official Python SDK 2: both eras on one URL, the stateless revision 2026-07-28 and `initialize` of
2025-11-25 and older.

  <folder of peers.sh mcp-python>/bin/python server.py PORT [json]

It offers neither `resources.subscribe` nor any `listChanged`. Listens on 127.0.0.1; port 0 takes a free one. Prints
`listening PORT`, and ends when standard input does.
"""

import asyncio
import base64
import os
import socket
import sys
import threading

import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.server.dependencies import get_http_headers

# Lists come in pages of two.
mcp = FastMCP("both-eras", instructions="Both eras: say please.", list_page_size=2)
count = 0


@mcp.tool
def add(a: int, b: int) -> int:
    """Adds two integers"""
    return a + b


@mcp.tool
async def slow(seconds: float, ctx: Context) -> str:
    """Takes a while and reports progress"""
    steps = max(1, int(seconds * 5))
    for step in range(steps):
        await ctx.report_progress(step, steps)
        await asyncio.sleep(seconds / steps)
    return "done"


@mcp.tool
def boom() -> str:
    """Fails"""
    raise ValueError("boom on request")


@mcp.tool
async def ask(ctx: Context) -> str:
    """Asks a person for a name"""
    answer = await ctx.elicit("What is your name?", response_type=str)
    return f"{answer.action}: {getattr(answer, 'data', None)}"


@mcp.tool
def big(size: int) -> str:
    """That many characters"""
    return "x" * size


@mcp.tool
def headers() -> dict:
    """The HTTP headers of this request"""
    return dict(get_http_headers(include_all=True))


@mcp.tool
def touch() -> int:
    """Changes state://counter"""
    global count
    count += 1
    return count


@mcp.resource("state://counter")
def counter() -> str:
    """How often it was touched"""
    return str(count)


@mcp.resource("state://image", mime_type="image/png")
def image() -> bytes:
    """Four bytes"""
    return base64.b64decode("iVBORw==")


@mcp.resource("state://by/{name}")
def by_name(name: str) -> str:
    """By name"""
    return name


def end_with_input():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_input, daemon=True).start()
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", listener.getsockname()[1], flush=True)
app = mcp.http_app(path="/mcp", json_response="json" in sys.argv)
config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
uvicorn.Server(config).run(sockets=[listener])
