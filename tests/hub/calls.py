"""One request to the loopback Hub, what it is answered with, and the table of who answers what."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode

from tests.hub.store import Json, Refusal, Repo, Store
from tests.hub.users import User, user_of


@dataclass
class Site:
    """What all requests share.

    Attributes:
        base: the Hub's own origin.
        cdn: another origin of the same server, which LFS files are downloaded from and which must see no token.
        page: the most entries in one page of a list.
        multipart: LFS files with more bytes than this are uploaded in parts of this size; 0 never.
    """

    store: Store
    base: str
    cdn: str
    page: int = 1000
    multipart: int = 0


@dataclass
class Answer:
    """A status, headers, and as body what JSON can say, bytes, or a part (first byte, size) of a file."""

    body: Any = field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    part: tuple[int, int] = (0, 0)


@dataclass
class Call:
    """A request; ``target`` is quoted as it was sent, ``body`` is the path of a file for LFS uploads.

    Attributes:
        visitor: who asks; None without a token.
    """

    site: Site
    method: str
    target: str
    headers: dict[str, str]
    body: bytes | Path = b""
    visitor: User | None = None

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @cached_property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(self.target.partition("?")[2], keep_blank_values=True)

    def said(self, name: str) -> bool:
        """Whether the query says yes to something."""
        return self.query.get(name, ["false"])[0].lower() not in ("false", "0")

    @property
    def data(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else self.body.read_bytes()

    @cached_property
    def json(self) -> Json:
        return dict(json.loads(self.data or b"{}"))

    @property
    def user(self) -> User:
        """Who asks, if they said so."""
        if self.visitor is None:
            raise Refusal(401, "Invalid username or password.")
        return self.visitor

    # --- Rights -------------------------------------------------------------------------------------------------------

    def sees(self, namespace: str, private: bool) -> bool:
        return not private or bool(self.visitor and self.visitor.role_in(namespace))

    def missing(self, message: str = "Repository not found") -> Refusal:
        """What hides a private repo: without a token the Hub does not even say whether there is one."""
        return Refusal(404 if self.visitor else 401, message, "RepoNotFound")

    def repo(self, kind: str, name: str) -> Repo:
        """A repo that the visitor may see."""
        repo = self.site.store.repo(kind, name)
        if not repo.exists or not self.sees(repo.namespace, repo.settings["private"]):
            raise self.missing()
        return repo

    def may_write(self, namespace: str, creator: str | None = None) -> None:
        if not self.user.may_write(namespace, creator):
            raise Refusal(403, f"You don't have the rights to write under the namespace {namespace}")

    def own_repo(self, kind: str, name: str) -> Repo:
        """A repo that the visitor may write to."""
        repo = self.repo(kind, name)
        self.may_write(repo.namespace, repo.settings["creator"])
        return repo

    # --- Answers ------------------------------------------------------------------------------------------------------

    def url(self, repo: Repo, *more: str) -> str:
        """A page of a repo."""
        kind = "" if repo.kind == "models" else f"{repo.kind}/"
        return "/".join([f"{self.site.base}/{kind}{repo.name}", *more])

    def page_of(self, items: list[Any]) -> Answer:
        """One page of a list, with the link to the next."""
        start = int(self.query.get("cursor", ["0"])[0])
        stop = start + min(self.site.page, int(self.query.get("limit", ["1000"])[0]))
        headers = {}
        if stop < len(items):
            query = urlencode({**self.query, "cursor": [str(stop)]}, doseq=True)
            headers["Link"] = f'<{self.site.base}{self.path}?{query}>; rel="next"'
        return Answer(items[start:stop], headers=headers)


CANONICAL = re.compile(
    r"/api/(models|datasets|spaces)/[^/]+(/(revision|tree|commits|paths-info)/.*)?|/(datasets/|spaces/)?[^/]+/resolve/.*"
)
"""Addresses of repos without a namespace, of which there are none here."""

Route = Callable[..., Answer]
ROUTES: list[tuple[str, re.Pattern[str], Route]] = []
PARTS = {
    "kind": "models|datasets|spaces", "prefix": "datasets/|spaces/|", "name": "[^/]+/[^/]+", "path": ".+",
    "slug": "[^/]+/[^/]+",
}  # fmt: skip
"""The parts of an address that are not just one segment."""


def route(method: str, address: str) -> Callable[[Route], Route]:
    """The decorated function answers requests to an address like /api/{kind}/{name}; it gets the parts unquoted."""
    pattern = re.sub(r"\{(\w+)\}", lambda part: f"(?P<{part[1]}>{PARTS.get(part[1], '[^/]+')})", address)

    def add(function: Route) -> Route:
        ROUTES.append((method, re.compile(pattern), function))
        return function

    return add


def answer(call: Call) -> Answer:
    """What a request is answered with; a refusal is raised."""
    call.visitor = user_of(call.headers.get("authorization"))
    method = "GET" if call.method == "HEAD" else call.method
    for known, pattern, function in ROUTES:
        if known == method and (parts := pattern.fullmatch(call.path)):
            return function(call, **{name: unquote(part) for name, part in parts.groupdict().items()})
    if CANONICAL.fullmatch(call.path):
        raise call.missing()
    raise Refusal(404, f"There is no {call.method} {call.path} here")
