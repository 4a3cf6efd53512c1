"""fastmcp that keeps keys, each with a number that only grows: what `store.mcp` of an agent expects.

  <folder of peers.sh mcp-python>/bin/python state.py PORT FILE

state.put and state.delete are carried out when `seq` fits what is there, else the tool fails with the word conflict.
After each change FILE holds everything, as {key: [seq, text]}; what it holds at the start is there. Listens on
127.0.0.1; with CERT and KEY, two PEM files, it speaks https on LISTEN_HOST, an address. Port 0 takes a free one. Prints
`listening PORT`, and ends when standard input does.
"""

import json
import os
import socket
import sys
import threading

import uvicorn
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

port, file = int(sys.argv[1]), sys.argv[2]
cert, key = os.environ.get("CERT"), os.environ.get("KEY")
listener = socket.create_server((os.environ.get("LISTEN_HOST", "127.0.0.1"), port))
held = json.load(open(file)) if os.path.exists(file) else {}
lock = threading.Lock()
PAGE = 100
mcp = FastMCP("state")


def end_with_input():
    sys.stdin.read()
    os._exit(0)


def keep():
    with open(file + ".new", "w") as new:
        json.dump(held, new)
    os.replace(file + ".new", file)


@mcp.tool(name="state.put")
def put(key: str, seq: int, value: str) -> dict:
    """Keeps a value under a key"""
    with lock:
        at = held.get(key, [0])[0]
        if at and seq != at + 1:
            raise ToolError("conflict: the key has moved on")
        held[key] = [seq, value]
        keep()
    return {}


@mcp.tool(name="state.get")
def get(key: str) -> dict:
    """The value under a key"""
    return {"value": held.get(key, [0, None])[1]}


@mcp.tool(name="state.list")
def keys(prefix: str, after: str | None = None) -> dict:
    """Keys that begin so, in their order"""
    found = sorted(name for name in list(held) if name.startswith(prefix) and name > (after or ""))
    page = found[:PAGE]
    return {"keys": page, "next": page[-1] if len(found) > PAGE else None}


@mcp.tool(name="state.delete")
def delete(key: str, seq: int) -> dict:
    """Forgets a key"""
    with lock:
        at = held.get(key, [0])[0]
        if at and seq != at:
            raise ToolError("conflict: the key has moved on")
        held.pop(key, None)
        keep()
    return {}


threading.Thread(target=end_with_input, daemon=True).start()
print("listening", listener.getsockname()[1], flush=True)
config = uvicorn.Config(
    mcp.http_app(path="/mcp"), log_level="warning", timeout_graceful_shutdown=1, ssl_certfile=cert, ssl_keyfile=key
)
uvicorn.Server(config).run(sockets=[listener])
