"""An engine on every machine of a Ray cluster, behind the interface of one engine.

The driver hands out small shards as workers finish them, so that a fast one takes more; what a lost worker had is given
to another. Answers come back as they finish and are journalled by the driver: the run's journal, its resumption and its
outputs are those of a run on one machine, and either goes on where the other stopped. ``--on ray`` starts a cluster of
this machine, or joins the one that ``RAY_ADDRESS`` names; ``--on ray://head:10001`` is a Ray client.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import queue
import socket
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from builders.artifacts import Artifact
from builders.errors import UserError
from builders.hardware import connect, share
from inference.adapters import Adapter, read_adapter
from inference.engines import EngineSettings, load_engine
from inference.requests import Completion, Request, Sampling

SHARD = {"transformers": 32, "vllm": 64, "openai": 16}
"""Requests of a shard: one batch, or a part of what an engine keeps running."""
AHEAD = {"transformers": 2, "vllm": 16, "openai": 4}
"""Shards that a worker has been given at most; those of one engine keep it full."""
POLL_SECONDS = 1.0
PATIENCE = 60.0
"""Seconds without news from any worker after which that is said."""
LOST = 3
"""Workers that may be lost one after the other without an answer in between."""


Described = tuple[str, str, frozenset[str]]
"""Name, version and what is hidden of an engine."""


@dataclass(frozen=True)
class Assignment:
    """What a worker loads, by references that mean the same on every machine, and the revisions they must have."""

    settings: EngineSettings
    model: Artifact
    adapter: Adapter | None
    sampling: Sampling
    guided: bool


class Worker:
    """One engine in a process of its own; runs as a Ray actor.

    Requests wait in an inbox and a thread works it off, so that the next shard is there when the last one ends.
    """

    def __init__(self) -> None:
        self.inbox: queue.Queue[tuple[Sampling, list[Request]]] = queue.Queue()
        self.outbox: queue.Queue[Completion | BaseException] = queue.Queue()

    def load(self, assignment: Assignment) -> tuple[str, Described]:
        """Where it runs, ``host:process``, and what its engine is.

        Raises:
            UserError: as ``load_engine``, or this machine finds other files under the same reference.
        """
        settings, model = assignment.settings, assignment.model
        if settings.name != "openai":
            model = assignment.model.here("model")
        adapter = assignment.adapter
        if adapter is not None:
            found = adapter.artifact.here("model")
            adapter = read_adapter(found, model)
        self.engine = load_engine(settings, model, adapter, assignment.sampling, assignment.guided)
        threading.Thread(target=self._work, daemon=True).start()
        described = (self.engine.name, self.engine.version, self.engine.hidden)
        return f"{socket.gethostname()}:{os.getpid()}", described

    def take(self, sampling: Sampling, shard: list[Request]) -> None:
        """Puts a shard into the inbox."""
        self.inbox.put((sampling, shard))

    def answers(self) -> list[Completion]:
        """What has been answered since the last call; waits a moment if nothing has.

        Raises:
            UserError: the engine's.
        """
        found: list[Completion] = []
        while True:
            try:
                each = self.outbox.get(block=not found, timeout=POLL_SECONDS)
            except queue.Empty:
                return found
            if isinstance(each, BaseException):
                raise each
            found.append(each)

    def _work(self) -> None:
        while True:
            sampling, shard = self.inbox.get()
            try:
                for completion in self.engine.generate(self._drawn(sampling, shard), sampling):
                    self.outbox.put(completion)
            except BaseException as error:
                self.outbox.put(error)

    def _drawn(self, sampling: Sampling, shard: list[Request]) -> Iterator[Request]:
        """The shard and what lies in the inbox by the time it is used up."""
        yield from shard
        while not self.inbox.empty() and self.inbox.queue[0][0] == sampling:
            yield from self.inbox.get()[1]


class Hired:
    """A worker as the driver sees it.

    Attributes:
        place: ``host:process``, empty while it loads.
        has: the requests that it was given and has not answered.
        waiting: the call that the driver waits for: the loading first, then the next answers.
    """

    def __init__(self, actor: Any, assignment: Assignment) -> None:
        self.actor = actor
        self.place = ""
        self.has: dict[str, Request] = {}
        self.waiting = actor.load.remote(assignment)

    def listen(self) -> None:
        """Waits for the next answers."""
        self.waiting = self.actor.answers.remote()

    def give(self, sampling: Sampling, shard: list[Request]) -> None:
        """Sends a shard."""
        self.has |= {request.item_id: request for request in shard}
        self.actor.take.remote(sampling, shard)


class RayEngine:
    """The engines of a cluster as one; name, version and what is hidden are those of each of them."""

    def __init__(self, on: str, workers: int | None, assignment: Assignment) -> None:
        """Starts a worker for each share of the cluster and lets it load the model.

        Raises:
            UserError: the cluster cannot be reached or is too small, or a worker cannot load what it is assigned.
        """
        connect(on)
        settings = assignment.settings
        self.shard = SHARD[settings.name]
        if settings.name == "transformers" and settings.batch_size:
            self.shard = settings.batch_size
        self.ahead = AHEAD[settings.name]
        self.assignment = dataclasses.replace(assignment, settings=dataclasses.replace(settings, window=self.shard))
        self.count, self.resources = share(workers)
        self.lost = 0
        self.described: Described | None = None
        self.workers = [self._hired() for _ in range(self.count)]
        while not all(worker.place for worker in self.workers):
            for worker in self._heard():
                self._answers(worker, deque())
        assert self.described is not None
        self.name, self.version, self.hidden = self.described
        print(f"  {self.count} workers on {on}, shards of {self.shard} prompts", file=sys.stderr)

    def _hired(self) -> Hired:
        import ray

        actor = ray.remote(Worker).options(max_concurrency=4, **self.resources).remote()
        return Hired(actor, self.assignment)

    def generate(self, requests: Iterable[Request], sampling: Sampling) -> Generator[Completion, None, None]:
        """Yields every request's completion once, as they finish; a lost worker's requests are given to another.

        Raises:
            UserError: an engine's, or workers are lost one after the other.
        """
        if not self.workers:
            self.workers = [self._hired() for _ in range(self.count)]
        try:
            yield from self._generate(iter(requests), sampling)
        finally:
            if any(worker.has for worker in self.workers):
                self.close()  # what they still answer belongs to a run that was given up

    def _generate(self, remaining: Iterator[Request], sampling: Sampling) -> Iterator[Completion]:
        again: deque[list[Request]] = deque()
        following = list(itertools.islice(remaining, self.shard))
        while following or again or any(worker.has for worker in self.workers):
            for worker in sorted(self.workers, key=lambda each: len(each.has)):
                while worker.place and (again or following) and len(worker.has) <= (self.ahead - 1) * self.shard:
                    if again:
                        worker.give(sampling, again.popleft())
                    else:
                        worker.give(sampling, following)
                        following = list(itertools.islice(remaining, self.shard))
            for worker in self._heard():
                yield from self._answers(worker, again)

    def _heard(self) -> list[Hired]:
        """The workers of which there is news; waits for one."""
        import ray

        waiting = [worker.waiting for worker in self.workers]
        ready, _ = ray.wait(waiting, timeout=PATIENCE)
        if not ready:
            print(f"  still waiting for the cluster; a worker needs {self.resources}", file=sys.stderr)
            ready, _ = ray.wait(waiting)
        return [worker for worker in self.workers if worker.waiting in ready]

    def _answers(self, worker: Hired, again: deque[list[Request]]) -> list[Completion]:
        """What a worker has answered; if it was lost, its requests are put back and another takes its place."""
        import ray

        try:
            news: Any = ray.get(worker.waiting)
        except ray.exceptions.RayError as error:
            _raise_users(error)
            self._replace(worker, again, error)
            return []
        worker.listen()
        if not worker.place:
            worker.place, described = news
            self._check_alike(described)
            return []
        self.lost = 0 if news else self.lost
        return [each for each in news if worker.has.pop(each.item_id, None) is not None]

    def _check_alike(self, described: Described) -> None:
        if self.described not in (None, described):
            raise UserError(
                f"the machines of the cluster have different engines ({self.described[1]}; {described[1]}); install "
                "the same versions on all"
            )
        self.described = described

    def _replace(self, worker: Hired, again: deque[list[Request]], error: Exception) -> None:
        import ray

        self.lost += 1
        if self.lost > LOST:
            raise UserError(
                f"{self.lost} workers of the cluster were lost one after the other ({_first_line(error)}); what is "
                "answered is kept: run the same command again to go on"
            )
        lost, name = list(worker.has.values()), worker.place or "that was loading"
        print(f"worker {name} is lost ({_first_line(error)}); {len(lost)} prompts go to others", file=sys.stderr)
        again.extend(lost[i : i + self.shard] for i in range(0, len(lost), self.shard))
        ray.kill(worker.actor)
        self.workers[self.workers.index(worker)] = self._hired()

    def close(self) -> None:
        """Ends the workers and frees their share of the cluster; the next run starts others."""
        import ray

        for worker in self.workers:
            ray.kill(worker.actor)
        self.workers = []


def _raise_users(error: Exception) -> None:
    """Raises what a worker raised for the person, as if it had been raised here."""
    cause = getattr(error, "cause", None)
    for each in (error, cause):
        if isinstance(each, UserError):
            raise UserError(str(cause if isinstance(cause, UserError) else each)) from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
