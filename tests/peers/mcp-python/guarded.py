"""fastmcp that takes no request without a token of its authorization server.

  <folder of peers.sh mcp-python>/bin/python guarded.py PORT ISSUER

It checks signature, issuer, audience (its own URL) and the scope `mcp:read`; a request without such a token is a 401 that
names the protected resource metadata. Listens on 127.0.0.1; with CERT and KEY, two PEM files, it speaks https on
LISTEN_HOST, an address. SSL_CERT_FILE names whom it trusts as ISSUER. Port 0 takes a free one. Prints `listening PORT`,
and ends when standard input does.
"""

import os
import socket
import sys
import threading

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth import RemoteAuthProvider
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.server.dependencies import get_access_token
from pydantic import AnyHttpUrl


def end_with_input():
    sys.stdin.read()
    os._exit(0)


port, issuer = int(sys.argv[1]), sys.argv[2]
cert, key = os.environ.get("CERT"), os.environ.get("KEY")
host = os.environ.get("LISTEN_HOST", "127.0.0.1")
listener = socket.create_server((host, port))
port = listener.getsockname()[1]
base = f"{'https' if cert else 'http'}://{host}:{port}"
auth = RemoteAuthProvider(
    token_verifier=JWTVerifier(
        jwks_uri=f"{issuer}/jwks", issuer=issuer, audience=f"{base}/mcp", required_scopes=["mcp:read"]
    ),
    authorization_servers=[AnyHttpUrl(issuer)],
    base_url=base,
)
mcp = FastMCP("guarded", auth=auth)


@mcp.tool
def who() -> dict:
    """Whose token came with this request, and for what"""
    token = get_access_token()
    return {"client": token.client_id, "scopes": sorted(token.scopes)}


@mcp.tool
def echo(message: str) -> str:
    """Says who said this message"""
    return f"{get_access_token().client_id} says: {message}"


@mcp.tool
def repeat() -> str:
    """The token of this request"""
    return get_access_token().token


threading.Thread(target=end_with_input, daemon=True).start()
print("listening", port, flush=True)
config = uvicorn.Config(
    mcp.http_app(path="/mcp"), log_level="warning", timeout_graceful_shutdown=1, ssl_certfile=cert, ssl_keyfile=key
)
uvicorn.Server(config).run(sockets=[listener])
