"""Keys over https, each with a number that only grows: what `store.http` of an agent expects.

  python3 server.py PORT FILE TOKEN

PUT and DELETE of /KEY?seq=N are carried out when N fits what is there, else 412. GET /KEY, and GET /?prefix=P&after=A,
which answers {"keys": [...], "next": ...}. A request without `Authorization: Bearer TOKEN` is a 401. After each change
FILE holds everything, as {key: [seq, text]}; what it holds at the start is there. CERT and KEY are two PEM files,
LISTEN_HOST an address. Prints `listening PORT`, and ends when standard input does.
"""

import http.server
import json
import os
import ssl
import sys
import threading
import urllib.parse

port, file, token = int(sys.argv[1]), sys.argv[2], sys.argv[3]
held = json.load(open(file)) if os.path.exists(file) else {}
lock = threading.Lock()
PAGE = 100


class Keys(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.headers.get("Authorization") != f"Bearer {token}":
            return self.answer(401)
        url = urllib.parse.urlsplit(self.path)
        given = dict(urllib.parse.parse_qsl(url.query))
        key, seq = urllib.parse.unquote(url.path[1:]), int(given.get("seq", 0))
        with lock:
            at = held.get(key, [0])[0]
            if self.command == "GET" and not key:
                keys = sorted(k for k in held if k.startswith(given["prefix"]) and k > given.get("after", ""))
                page = {"keys": keys[:PAGE], "next": keys[PAGE - 1] if len(keys) > PAGE else None}
                return self.answer(200, json.dumps(page).encode())
            if self.command == "GET":
                return self.answer(200, held[key][1].encode()) if key in held else self.answer(404)
            if seq != (at + 1 if self.command == "PUT" else at) and at:
                return self.answer(412)
            if self.command == "PUT":
                held[key] = [seq, body]
            else:
                held.pop(key, None)
            with open(f"{file}.new", "w") as new:
                json.dump(held, new)
            os.rename(f"{file}.new", file)
        self.answer(204)

    do_GET = do_PUT = do_DELETE = handle_any


server = http.server.ThreadingHTTPServer((os.environ["LISTEN_HOST"], port), Keys)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(os.environ["CERT"], os.environ["KEY"])
server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("listening", server.server_address[1], flush=True)
sys.stdin.read()
