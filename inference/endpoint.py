"""An HTTP endpoint that others run, and how it is asked: with a key, a deadline, a size limit, and again after a fault.

Its words reach a person cut, printable and without the key. What a fault looks like, here one that passes when the
server has loaded its model::

    HTTP 503 {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from builders.errors import UserError

if TYPE_CHECKING:
    import ssl

    import httpx2

T = TypeVar("T")

BODY_LIMIT = 16 * 2**20
"""Bytes that a body may have at most: no endpoint can fill the memory."""
BACKOFF_LIMIT = 60.0
"""Seconds that a pause between two tries lasts at most, unless the server names a longer one."""
RETRY_AFTER_LIMIT = 300.0
"""Seconds that a server's Retry-After is followed at most."""
GET_SECONDS = 30.0
"""Deadline of a question that no model has to think about."""
WORDS = 300
"""Characters of a server's words that a message shows at most."""
PLACEHOLDER = 8
"""Keys shorter than this many characters are words such as EMPTY, no secrets: a model's answer may contain them."""

_jitter = random.SystemRandom()  # leaves the process's seeded stream alone


class FaultError(Exception):
    """One failed try of a kind that may pass; ``wait`` is the pause in seconds that the server asked for."""

    def __init__(self, kind: str, words: str, wait: float | None = None) -> None:
        super().__init__(words)
        self.kind = kind
        self.words = words
        self.wait = wait


class UnreachableError(FaultError):
    """No connection could be made."""


class UnansweredError(Exception):
    """All tries ended in faults; the text is the last one's."""


class RefusedError(Exception):
    """The server understood and said no; ``param`` and ``code`` are its own, ``text`` all that it said."""

    def __init__(self, status: int, words: str, text: str = "", param: str = "", code: str = "") -> None:
        super().__init__(words)
        self.status = status
        self.text = text
        self.param = param
        self.code = code


@dataclass
class Endpoint:
    """Where requests go and how patiently: seconds for one try, tries, seconds of the first pause.

    The key is read from the environment when it is needed and is never part of this object.

    Raises:
        UserError: the address is no http(s) URL or carries credentials, a number makes no sense, or the key cannot be
            sent in a header.
    """

    base_url: str
    concurrency: int = 32
    timeout: float = 600.0
    attempts: int = 8
    key_variable: str = "OPENAI_API_KEY"
    backoff: float = 1.0
    reached: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        self.base_url = check_base_url(self.base_url)
        if self.concurrency < 1 or self.attempts < 1 or not self.timeout > 0:
            raise UserError(
                f"{self.concurrency} requests at once, {self.attempts} tries and {self.timeout} seconds for each; "
                "give at least 1, at least 1, and more than 0"
            )
        # An HTTP library would put such a key into the text of its exception.
        if not all("!" <= character <= "~" for character in self._key()):
            raise UserError(f"the key in {self.key_variable} has blanks or characters beyond ASCII; copy it again")

    def _key(self) -> str:
        return os.environ.get(self.key_variable, "").strip()

    def headers(self) -> dict[str, str]:
        """What every request carries; without a key set there is no Authorization."""
        headers = {"User-Agent": "coherent-decisions", "Accept-Encoding": "identity"}
        if key := self._key():
            headers["Authorization"] = f"Bearer {key}"
        return headers

    def redact(self, text: str, answer: bool = False) -> str:
        """The text without the key; a model's answer keeps a word that is too short for a secret."""
        key = self._key()
        if not key or (answer and len(key) < PLACEHOLDER):
            return text
        for form in (key, quote(key, safe=""), json.dumps(key)[1:-1], key.replace("/", r"\/")):
            text = text.replace(form, "[key]")
        return text

    def shown(self, text: str, limit: int = WORDS) -> str:
        """A server's words fit for a terminal: one printable line without the key, of ``limit`` characters at most."""
        start = self.redact(text)[: 40 * limit]
        plain = " ".join("".join(c if c.isprintable() else " " for c in start).split())
        return plain if len(plain) <= limit else f"{plain[: limit - 3]}..."

    def explain(self, refusal: RefusedError) -> str:
        """A refusal as one line for a person: what was said, and what to do about it."""
        if refusal.status in (401, 403):
            variable = self.key_variable
            asked = f"does not accept the key in {variable}" if self._key() else f"asks for a key; set {variable}"
            return f"{self.base_url} {asked} ({refusal})"
        if 300 <= refusal.status < 400:
            return f"{self.base_url}: {refusal}; it is not followed, give the final address as the base URL"
        if refusal.status in (404, 405):
            return f"{self.base_url}: {refusal}; check the base URL, which mostly ends in /v1, and the model's name"
        return f"{self.base_url}: {refusal}"


def check_base_url(url: str) -> str:
    """The URL without a slash at its end.

    Raises:
        UserError: it is no http(s) URL, or it carries credentials.
    """
    import httpx2

    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        httpx2.URL(url)
    except (ValueError, httpx2.InvalidURL):
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise UserError("the base URL is no http(s) address; give one such as http://localhost:8000/v1")
    # The message leaves the URL out: what is wrong with it may be a secret.
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise UserError(
            "the base URL has a user, a password, a query or a fragment; give the bare address, and the key in the "
            "environment"
        )
    return url.rstrip("/")


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Reading the system's certificates takes longer than all else that a client needs."""
    import httpx2

    return httpx2.create_ssl_context()


class Connection:
    """A client of an endpoint for as long as one run lasts; ``retried`` counts the faults that it tried again after."""

    def __init__(self, endpoint: Endpoint) -> None:
        import httpx2

        self.endpoint = endpoint
        self.retried: Counter[str] = Counter()
        limits = httpx2.Limits(max_connections=endpoint.concurrency, max_keepalive_connections=endpoint.concurrency)
        self._client = httpx2.AsyncClient(
            headers=endpoint.headers(), verify=_certificates(), timeout=None, limits=limits, follow_redirects=False
        )

    async def close(self) -> None:
        """Closes all connections."""
        await self._client.aclose()

    async def get(self, url: str) -> Any:
        """The JSON value at an address, None where there is nothing of the kind.

        Raises:
            RefusedError: the key is missing or wrong.
            UnansweredError: all tries failed.
            UnreachableError: the endpoint has never answered.
        """
        seconds = min(GET_SECONDS, self.endpoint.timeout)
        try:
            return await self._ask("GET", url, None, seconds, _json_or_none)
        except RefusedError as refusal:
            if refusal.status == 401:
                raise
            return None  # a key may be good for completions alone (403), a server may know no such address

    async def post(self, path: str, payload: dict[str, Any], read: Callable[[bytes], T]) -> T:
        """What ``read`` makes of the answer to the payload; a ``FaultError`` of its own counts as a failed try.

        Raises:
            RefusedError: the server says no, and would again.
            UnansweredError: all tries failed.
            UnreachableError: the endpoint has never answered.
        """
        endpoint = self.endpoint
        content = json.dumps(payload).encode()
        return await self._ask("POST", endpoint.base_url + path, content, endpoint.timeout, read)

    async def _ask(self, method: str, url: str, content: bytes | None, seconds: float, read: Callable[[bytes], T]) -> T:
        tries = 1
        while True:
            try:
                return read(await self._try(method, url, content, seconds))
            except FaultError as error:
                fault = error
            # A wrong address is told at once; a server that has answered before will come back.
            if isinstance(fault, UnreachableError) and not self.endpoint.reached:
                raise fault
            if tries == self.endpoint.attempts:
                raise UnansweredError(self.endpoint.shown(fault.words))
            self.retried[fault.kind] += 1
            await asyncio.sleep(self._pause(tries, fault.wait))
            tries += 1

    def _pause(self, tries: int, wait: float | None) -> float:
        """Seconds until the next try: exponential with full jitter, and no shorter than what the server asked for."""
        pause = _jitter.uniform(0, min(BACKOFF_LIMIT, self.endpoint.backoff * 2 ** min(tries - 1, 16)))
        return pause if wait is None else max(pause, wait + _jitter.uniform(0, self.endpoint.backoff))

    async def _try(self, method: str, url: str, content: bytes | None, seconds: float) -> bytes:
        """The body of a successful answer to one request."""
        import httpx2

        body = bytearray()
        headers = {"Content-Type": "application/json"} if content is not None else {}
        try:
            # The deadline is for the whole answer: a trickle of bytes never ends by itself.
            async with (
                asyncio.timeout(seconds),
                self._client.stream(method, url, content=content, headers=headers) as response,
            ):
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > BODY_LIMIT:
                        raise FaultError("oversized", f"a body of more than {BODY_LIMIT:,} bytes")
            self.endpoint.reached = True
            self._check(response, bytes(body))
            return bytes(body)
        except TimeoutError:
            fault = FaultError("timeout", f"no whole answer within {seconds:g} s")
        except httpx2.ConnectError as error:
            fault = UnreachableError("no connection", f"no connection ({self.endpoint.shown(str(error))})")
        except httpx2.TransportError as error:
            fault = FaultError("dropped", f"the connection was lost ({type(error).__name__})")
        # Raised outside of the handlers: the library's exception holds the request, and with it the key.
        raise fault

    def _check(self, response: httpx2.Response, body: bytes) -> None:
        status = response.status_code
        if 200 <= status < 300:
            return
        text, param, code = complaint(body)
        said = self.endpoint.shown(text)
        words = f"HTTP {status}: {said}" if said else f"HTTP {status}"
        if status in (408, 429) or (status >= 500 and status != 501):
            raise FaultError(str(status), words, retry_after(response.headers.get("Retry-After")))
        if 300 <= status < 400:
            target = response.headers.get("Location", "").partition("?")[0]
            words = f"HTTP {status}: redirects to {self.endpoint.shown(target) or 'another address'}"
        raise RefusedError(status, words, *map(self.endpoint.redact, (text, param, code)))


def retry_after(value: str | None) -> float | None:
    """Seconds that a Retry-After header asks for, given as seconds or as a date; None if it says neither."""
    if value is None:
        return None
    if re.fullmatch(r"\s*\d{1,9}(\.\d*)?\s*", value):
        return min(float(value), RETRY_AFTER_LIMIT)
    try:
        wait = parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(wait, 0.0), RETRY_AFTER_LIMIT)


def parse_json(body: bytes) -> Any:
    """The value of a body.

    Raises:
        ValueError: it is no JSON, or nested without end.
    """
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _json_or_none(body: bytes) -> Any:
    try:
        return parse_json(body)
    except ValueError:
        return None


def complaint(body: bytes) -> tuple[str, str, str]:
    """(what an error body says, the parameter that it names, its code); the last two "" where it has none.

    Servers differ: ``{"error": {"message", "param", "code"}}``, ``{"error": "..."}``, ``{"message": ...}``, and
    ``{"detail": [{"loc": ["body", "seed"], "msg": ...}]}`` are all about.
    """
    content = _json_or_none(body)
    if not isinstance(content, dict):
        return body.decode(errors="replace"), "", ""
    error = content.get("error") or content
    if not isinstance(error, dict):
        return plain(error), "", ""
    message = error.get("message")
    detail = (message if isinstance(message, dict) else error).get("detail")
    text = next((each for each in (message, detail) if isinstance(each, str)), None)
    param, code = error.get("param") or _location(detail), error.get("code")
    return plain(error) if text is None else text, plain(param or ""), plain(code or "")


def plain(value: Any) -> str:
    """A JSON value as text; a string is its own."""
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "something nested too deeply"


def _location(detail: Any) -> Any:
    first = detail[0] if isinstance(detail, list) and detail else None
    where = first.get("loc") if isinstance(first, dict) else None
    return where[-1] if isinstance(where, list) and where else None
