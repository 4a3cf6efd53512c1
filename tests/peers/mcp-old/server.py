"""An MCP server of an older revision: the official Python SDK at a release of that time, not one that pretends.

  PYTHONPATH=<folder of peers.sh mcp-old>/<release> python server.py PORT [json] [stateless]

Release 1.8.1 answers with revision 2024-11-05 whatever is asked, 1.9.4 with up to 2025-03-26, 1.12.4 with up to
2025-06-18. The first two answer POST /mcp with 307 to /mcp/. Sessions, GET stream and DELETE, but with `stateless`.
Listens on 127.0.0.1; port 0 takes a free one. Prints `listening PORT`, and ends when standard input does.
"""

import os
import socket
import sys
import threading

import uvicorn
from mcp.server.fastmcp import Context, FastMCP

options = {"json_response": "json" in sys.argv, "stateless_http": "stateless" in sys.argv}
mcp = FastMCP("old-peer", instructions="Old peer: say please.", **options)


@mcp.tool()
def add(a: int, b: int) -> str:
    """Adds two numbers"""
    return str(a + b)


@mcp.tool()
def boom() -> str:
    """Fails"""
    raise ValueError("boom on request")


@mcp.tool()
async def notify(ctx: Context) -> str:
    """Says something on the answer's stream before the answer"""
    await ctx.info("hello from the server")
    await ctx.report_progress(1, 2)
    return "sent"


@mcp.resource("note://one")
def one() -> str:
    """A note"""
    return "note one"


@mcp.resource("note://by/{name}")
def by_name(name: str) -> str:
    """A note by name"""
    return "note " + name


def end_with_input():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_input, daemon=True).start()
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", listener.getsockname()[1], flush=True)
config = uvicorn.Config(mcp.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=1)
uvicorn.Server(config).run(sockets=[listener])
