"""fastmcp with the skills of a folder, each a folder with a SKILL.md, as it hands them out: as resources.

  <folder of peers.sh mcp-python>/bin/python skills.py PORT FOLDER

Listens on 127.0.0.1; port 0 takes a free one. Prints `listening PORT`, and ends when standard input does.
"""

import os
import socket
import sys
import threading

import uvicorn
from fastmcp import FastMCP
from fastmcp.skills.provider import SkillsDirectoryProvider

mcp = FastMCP("skills")
mcp.add_provider(SkillsDirectoryProvider(sys.argv[2]))


def end_with_input():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_input, daemon=True).start()
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", listener.getsockname()[1], flush=True)
config = uvicorn.Config(mcp.http_app(path="/mcp"), log_level="warning", timeout_graceful_shutdown=1)
uvicorn.Server(config).run(sockets=[listener])
