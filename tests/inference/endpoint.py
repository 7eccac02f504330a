"""A chat completions endpoint on loopback, with deterministic answers and faults on demand.

An answer depends on the prompt and the seed alone. ``faults`` says what the requests of a prompt meet first::

    endpoint.faults["Is it raining?"] = ["500", "drop"]     # then it is answered
"""

import contextlib
import json
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from zlib import crc32

from inference.openai_engine import PROBE

Payload = dict[str, Any]
MODEL = "tiny-chat"
LONGEST = 20.0
"""Seconds after which a hang ends in any case, so that no test can hang with it."""


def answer_text(prompt: str, seed: int | None) -> str:
    """What the endpoint says to a prompt."""
    return f"answer {crc32(f'{prompt}|{seed}'.encode())}"


class Endpoint:
    """The server's settings and what it has seen; all of it may be changed between requests.

    Attributes:
        faults: what the next requests with a prompt or a seed meet, a key of ``FAULTS`` each.
        refuses: parameters that are answered with 400 or 422, in the style of ``complaint``.
        grammars: which of the two grammar fields is followed; None ignores both.
        asked: the payloads of chat completions that arrived, in order; ``seen`` the (method, path, headers) of all.
        peak: most chat completions that were in work at once; none is answered before there were ``crowd``.
    """

    def __init__(self) -> None:
        self.faults: dict[Any, list[str]] = {}
        self.refuses: set[str] = set()
        self.complaint: Callable[[str], tuple[int, Any]] = openai_complaint
        self.grammars: str | None = None
        self.models: Any = {"object": "list", "data": [{"id": MODEL, "owned_by": "llamacpp"}]}
        self.models_status = 200
        self.version: Any = None
        self.served_as: str | None = None
        self.key: str | None = None
        self.crowd = 1
        self.crowded = threading.Event()
        self.asked: list[Payload] = []
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.peak = 0
        self.working = 0
        self.lock = threading.Lock()
        self.released = threading.Event()
        self.base_url = ""

    def prompts(self) -> Counter[str]:
        """How often each prompt was asked, probes left out."""
        return Counter(prompt for payload in self.asked if (prompt := prompt_of(payload)) != PROBE)


def prompt_of(payload: Payload) -> str:
    return str(payload["messages"][0]["content"])


def openai_complaint(name: str) -> tuple[int, Any]:
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    if name == "max_tokens":
        message += " Use 'max_completion_tokens' instead."
    return 400, {"error": {"message": message, "type": "invalid_request_error", "param": name, "code": "unsupported"}}


def pydantic_complaint(name: str) -> tuple[int, Any]:
    return 422, {
        "detail": [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}]
    }


def wordy_complaint(name: str) -> tuple[int, Any]:
    return 400, {"error": f"sorry, this server does not know {name}"}


def mistral_complaint(name: str) -> tuple[int, Any]:
    """vLLM's own words, which do not name the field."""
    assert name == "chat_template_kwargs"
    return 400, {"error": {"message": "chat_template is not supported for Mistral tokenizers.", "code": 400}}


def completion(content: Any, finish_reason: Any = "stop", **message: Any) -> Payload:
    return {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content, **message},
                     "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10},
    }  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes; together with delayed acknowledgements: 40 ms
    endpoint: Endpoint
    at_work = False

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._see()
        if self.path == "/v1/models" and not self._locked():
            self.reply(self.endpoint.models_status, self.endpoint.models)
        elif self.path == "/version" and self.endpoint.version is not None:
            self.reply(200, self.endpoint.version)
        elif self.path != "/v1/models":
            self.reply(404, {"error": "no such address"})

    def do_POST(self) -> None:
        self._see()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self._locked():
            return
        if self.path != "/v1/chat/completions":
            self.reply(404, {"error": "no such address"})
            return
        payload = json.loads(body)
        with self.endpoint.lock:
            self.endpoint.asked.append(payload)
            self.endpoint.working += 1
            self.endpoint.peak = max(self.endpoint.peak, self.endpoint.working)
            planned = self.endpoint.faults
            faults = planned.get(payload.get("seed")) or planned.get(prompt_of(payload))
            fault = faults.pop(0) if faults else None
            self.at_work = True
            if self.endpoint.working >= self.endpoint.crowd:
                self.endpoint.crowded.set()
        self.endpoint.crowded.wait(LONGEST)
        try:
            if fault is not None:
                FAULTS[fault](self)
            else:
                self._answer(payload)
        finally:
            self._leave()

    def _leave(self) -> None:
        with self.endpoint.lock:
            self.endpoint.working -= self.at_work
            self.at_work = False

    def _see(self) -> None:
        with self.endpoint.lock:
            self.endpoint.seen.append((self.command, self.path, dict(self.headers)))

    def _locked(self) -> bool:
        wrong = self.endpoint.key is not None and self.headers["Authorization"] != f"Bearer {self.endpoint.key}"
        if wrong:
            self.reply(401, {"error": {"message": f"bad credentials: {self.headers['Authorization']}"}})
        return wrong

    def _answer(self, payload: Payload) -> None:
        refused = sorted(self.endpoint.refuses & payload.keys())
        if refused:
            self.reply(*self.endpoint.complaint(refused[0]))
            return
        grammar = payload.get(self.endpoint.grammars or "")
        grammar = grammar["grammar"] if isinstance(grammar, dict) else grammar
        text = answer_text(prompt_of(payload), payload.get("seed"))
        if grammar is not None:
            only = re.fullmatch(r'root ::= "([^"\\]*)"', grammar)
            text = only[1] if only else "<final>\nProbability: 0.5\n</final>"
        self.reply(200, {**completion(text), "model": self.endpoint.served_as or payload["model"]})

    def reply(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self._leave()  # before the client can know and send its next request
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def hang(self) -> None:
        self.endpoint.released.wait(LONGEST)
        self.close_connection = True

    def trickle(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        with contextlib.suppress(OSError):
            while not self.endpoint.released.wait(0.02):
                self.wfile.write(b" ")
        self.close_connection = True

    def drop(self) -> None:
        # A reset: no answer at all.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def cut(self) -> None:
        whole = json.dumps(completion("half of a text")).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(whole)))
        self.end_headers()
        self.wfile.write(whole[:40])
        self.close_connection = True

    def huge(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            while not self.endpoint.released.is_set():
                self.wfile.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        self.close_connection = True

    def answer_without(self, *names: str) -> None:
        content = completion("bare")
        for name in names:
            content.pop(name, None)
            content["choices"][0].pop(name, None)
        self.reply(200, content)


def echo_error(handler: Handler, status: int) -> None:
    handler.reply(status, {"error": {"message": f"you sent {handler.headers['Authorization']}, \x1b[31mno"}})


FAULTS: dict[str, Callable[[Handler], None]] = {
    "429": lambda h: h.reply(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.1"}),
    "429 date": lambda h: h.reply(429, {"error": "slow down"}, {"Retry-After": formatdate(time.time(), usegmt=True)}),
    "408": lambda h: h.reply(408, b""),
    "500": lambda h: h.reply(500, {"error": {"message": "CUDA out of memory"}}),
    "503": lambda h: h.reply(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
    "500 echo": lambda h: echo_error(h, 500),
    "400 echo": lambda h: echo_error(h, 400),
    "500 escaped": lambda h: h.reply(500, h.headers["Authorization"].replace("/", r"\/").encode()),
    "400 long": lambda h: h.reply(400, {"error": {"message": "too long " * 100}}),
    "400 filter": lambda h: h.reply(400, {"error": {"message": "the prompt was filtered", "code": "content_filter"}}),
    "401": lambda h: h.reply(401, {"error": {"message": "key revoked"}}),
    "307": lambda h: h.reply(307, b"", {"Location": f"{h.endpoint.base_url}/elsewhere?key=1"}),
    "hang": Handler.hang,
    "trickle": Handler.trickle,
    "drop": Handler.drop,
    "cut": Handler.cut,
    "huge": Handler.huge,
    "html": lambda h: h.reply(200, b"<html>welcome</html>"),
    "deep": lambda h: h.reply(200, b"[" * 200_000),
    "array": lambda h: h.reply(200, [1, 2]),
    "error body": lambda h: h.reply(200, {"error": {"message": f"upstream said {h.headers['Authorization']}"}}),
    "no message": lambda h: h.reply(200, {"choices": [{"finish_reason": "stop"}]}),
    "broken off": lambda h: h.reply(200, completion("half an", "error")),
    "no choice": lambda h: h.reply(200, {"choices": []}),
    "filtered": lambda h: h.reply(200, completion(None, "content_filter")),
    "refusal": lambda h: h.reply(200, completion(None, "stop", refusal="I can't help with that.")),
    "null": lambda h: h.reply(200, completion(None)),
    "reasoned": lambda h: h.reply(200, completion("", "length", reasoning_content="Let me think")),
    "surrogates": lambda h: h.reply(200, completion("a\ud800b\udfff \U0001f600")),
    "text echo": lambda h: h.reply(
        200, completion(f"Your key: {h.headers['Authorization']}", f"stop {h.headers['Authorization']}")
    ),
    "no reason": lambda h: h.answer_without("finish_reason"),
    "no usage": lambda h: h.answer_without("usage"),
    "odd usage": lambda h: h.reply(
        200, {**completion("odd"), "usage": {"prompt_tokens": 2**40, "completion_tokens": True}}
    ),
}  # fmt: skip


@contextlib.contextmanager
def running_endpoint() -> Iterator[Endpoint]:
    """An endpoint that serves until the block ends."""
    endpoint = Endpoint()
    handler = type("BoundHandler", (Handler,), {"endpoint": endpoint})

    class Server(ThreadingHTTPServer):
        request_queue_size = 128
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that hangs up is part of the tests."""

    with Server(("127.0.0.1", 0), handler) as server:
        endpoint.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True)
        thread.start()
        try:
            yield endpoint
        finally:
            endpoint.released.set()
            server.shutdown()
            thread.join()
