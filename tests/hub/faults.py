"""What goes wrong on the loopback Hub on demand, for chosen requests.

status      answered with ``status`` and, if given, Retry-After; nothing is done
delay       answered as usual after ``seconds``
drop        the connection is closed; nothing is done
lost        everything is done, but the connection is closed in place of the answer
cut         the connection is closed after ``size`` bytes of the answer's body
exit        the server process dies; nothing is done
exit after  everything is done, and the server process dies in place of the answer
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import Any

KINDS = ("status", "delay", "drop", "lost", "cut", "exit", "exit after")


@dataclass
class Fault:
    """One fault and the requests that it meets.

    Attributes:
        kind: one of ``KINDS``.
        method: regular expression for the whole method.
        path: regular expression for any part of the request's target, quoted as it was sent, with the query.
        nth: the first matching request that it meets, counted from 1.
        times: how many it meets from there.
        seconds: how long every request that it meets waits first.
        status: for ``status``.
        retry_after: for ``status``; the header's value.
        size: for ``cut``.
    """

    kind: str
    method: str = ".*"
    path: str = ""
    nth: int = 1
    times: int = 1
    seconds: float = 0
    status: int = 503
    retry_after: str | None = None
    size: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"no fault {self.kind!r}; there are {', '.join(KINDS)}")

    def meets(self, method: str, target: str) -> bool:
        """Whether this request is met; counts it if it matches."""
        if not self.times or not re.fullmatch(self.method, method) or not re.search(self.path, target):
            return False
        self.nth -= 1
        return self.nth < 1


class Faults:
    """The faults that are still to come."""

    def __init__(self) -> None:
        self.planned: list[Fault] = []
        self.lock = threading.Lock()

    def plan(self, fault: dict[str, Any]) -> None:
        with self.lock:
            self.planned.append(Fault(**fault))

    def clear(self) -> None:
        with self.lock:
            self.planned.clear()

    def due(self, method: str, target: str) -> Fault | None:
        """The first planned fault that meets a request; all that match count it."""
        with self.lock:
            met = [fault for fault in self.planned if fault.meets(method, target)]
            for fault in met[:1]:
                fault.times -= 1
            return met[0] if met else None
