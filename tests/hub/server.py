"""The loopback Hub's process: HTTP/1.1 on 127.0.0.1, a journal of all requests, and faults on demand.

    python -m tests.hub.server --root DIR [--port N] [--page N] [--multipart BYTES] [--with-parent]

It prints its port once it listens. It may be killed at any moment and started again with the same root and port.
``POST /_faults`` plans a fault (see ``faults``), ``DELETE /_faults`` forgets all; neither is in the journal,
DIR/requests.jsonl, which has a line for each other request: method, path, status (null: not answered), token (sent?).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.hub import cards, collection, objects, repos
from tests.hub.calls import Answer, Call, Site, answer, route
from tests.hub.faults import Fault, Faults
from tests.hub.store import Refusal, Store
from tests.hub.users import whoami

assert cards and collection and objects and repos, "they have added their routes"

JOURNAL = "requests.jsonl"


@route("GET", "/api/whoami-v2")
def who(call: Call) -> Answer:
    return Answer(whoami(call.user))


@route("GET", "/api/agent-harnesses")
def harnesses(call: Call) -> Answer:
    """Every client process asks once a day."""
    return Answer({"standardEnvVars": [], "harnesses": {}})


@route("GET", "/api/telemetry/{path}")
def telemetry(call: Call, path: str) -> Answer:
    return Answer()


def safe_answer(call: Call) -> Answer:
    """The answer, be it a refusal or the traceback of a mistake in the server."""
    try:
        return answer(call)
    except Refusal as refusal:
        return Answer(refusal.body, refusal.status, refusal.headers)
    except Exception:
        # Not 500, which the clients would ask again.
        return Answer({"error": traceback.format_exc()}, 501)


class Gone(Exception):  # noqa: N818
    """The connection is to be closed without another word."""


class Handler(BaseHTTPRequestHandler):
    """Serves the requests of one connection."""

    protocol_version = "HTTP/1.1"
    # Headers and body are written apart; with Nagle's algorithm each answer would wait 40 ms for the client's ACK.
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """The journal is enough."""

    def chunks(self) -> Iterator[bytes]:
        """The request's body."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length") or 0)
        while left:
            data = self.rfile.read(min(left, 2**20))
            if not data:
                raise Gone
            left -= len(data)
            yield data

    def call(self) -> Call:
        """The request, its body read."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        call = Call(self.server.site, self.command, self.path, headers)
        if self.command == "PUT" and self.path.startswith("/_lfs/"):
            call.body = self.server.site.store.scratch()
            with call.body.open("wb") as file:
                file.writelines(self.chunks())
        else:
            call.body = b"".join(self.chunks())
        return call

    def serve(self) -> None:
        try:
            call = self.call()
            if self.path == "/_faults":
                self.send(self.server.control(call))
            else:
                self.serve_call(call, self.server.faults.due(self.command, self.path) or Fault("delay"))
        except (Gone, ConnectionError):
            self.close_connection = True

    def serve_call(self, call: Call, fault: Fault) -> None:
        time.sleep(fault.seconds)
        if fault.kind in ("drop", "exit"):
            self.vanish(call, fault)
        if fault.kind == "status":
            reply = Answer({"error": "a fault on demand"}, fault.status)
            reply.headers = {"Retry-After": fault.retry_after} if fault.retry_after else {}
        else:
            reply = safe_answer(call)
        if fault.kind in ("lost", "exit after"):
            self.vanish(call, fault)
        # Before the answer, so that a client that has it also finds it in the journal.
        self.server.record(call, reply.status)
        self.send(reply, fault.size if fault.kind == "cut" else None)

    def vanish(self, call: Call, fault: Fault) -> None:
        self.server.record(call, None)
        if fault.kind.startswith("exit"):
            os._exit(1)
        raise Gone

    def send(self, reply: Answer, cut: int | None = None) -> None:
        """Sends an answer, or only as many bytes of its body."""
        body = reply.body if isinstance(reply.body, bytes | Path) else json.dumps(reply.body).encode()
        first, size = reply.part if isinstance(body, Path) else (0, len(body))
        self.send_response(reply.status)
        headers = {"Content-Type": "application/json", "Content-Length": str(size), "X-Request-Id": uuid4().hex}
        for name, value in {**headers, **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.send_body(body, first, size if cut is None else min(cut, size))
        if cut is not None:
            raise Gone

    def send_body(self, body: bytes | Path, first: int, size: int) -> None:
        if isinstance(body, bytes):
            self.wfile.write(body[:size])
        elif size:
            with body.open("rb") as file:
                self.connection.sendfile(file, first, size)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = serve  # noqa: N815


class Server(ThreadingHTTPServer):
    """The listening socket, and what all connections share."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, store: Store, port: int, page: int, multipart: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        port = self.server_address[1]
        self.site = Site(store, f"http://127.0.0.1:{port}", f"http://localhost:{port}", page, multipart)
        self.faults = Faults()
        self.journal = os.open(store.root / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the tests."""

    def control(self, call: Call) -> Answer:
        if call.method == "DELETE":
            self.faults.clear()
        else:
            self.faults.plan(call.json)
        return Answer()

    def record(self, call: Call, status: int | None) -> None:
        seen = {"method": call.method, "path": call.target, "status": status, "token": "authorization" in call.headers}
        # One write, so that a kill leaves whole lines.
        os.write(self.journal, json.dumps(seen).encode() + b"\n")


def listening(store: Store, port: int, *options: int) -> Server:
    """A server on the port, or if that is 0, on any free one below those that systems give to outgoing connections.

    One of those could be taken while the server is down, even by a client that tries to reach it.
    """
    if port:
        return Server(store, port, *options)
    for candidate in random.sample(range(20_000, 32_000), 100):
        with contextlib.suppress(OSError):
            return Server(store, candidate, *options)
    raise RuntimeError("no free port")


def end_with_parent() -> None:
    """Ends the process once the other end of its standard input is closed."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--page", type=int, default=1000, help="most entries in one page of a list")
    parser.add_argument("--multipart", type=int, default=0, help="larger LFS files come in parts of that size; 0: none")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input is closed")
    a = parser.parse_args()
    server = listening(Store(a.root.resolve()), a.port, a.page, a.multipart)
    if a.with_parent:
        threading.Thread(target=end_with_parent, daemon=True).start()
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
