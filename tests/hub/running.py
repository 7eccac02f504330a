"""A loopback Hub in a process of its own, for tests that use the real clients.

with running_hub(tmp_path / "hub") as hub:
    HfApi(hub.url, token=hub.token).create_repo("acme/toy")              # here
    subprocess.run([...], env={**os.environ, **hub.environment})         # whatever reads HF_ENDPOINT on import
    hub.faults("lost", "POST", "/commit/")                               # see tests.hub.faults
    hub.kill(), hub.restart()
    assert not [request for request in hub.requests() if request.writes]
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from tests.hub.faults import Fault
from tests.hub.server import JOURNAL
from tests.hub.users import TOKENS

REPOSITORY = Path(__file__).parents[2]
ASKING = re.compile(r"/paths-info/|/preupload/|/validate-yaml$|/objects/batch$|/_lfs/.*/verify$")
"""Addresses to which a POST changes nothing."""


class Request(NamedTuple):
    """A request that the Hub has seen, the path quoted and with the query, the status None if it was not answered."""

    method: str
    path: str
    status: int | None
    token: bool

    @property
    def writes(self) -> bool:
        """Whether it asks for a change."""
        return self.method not in ("GET", "HEAD") and not ASKING.search(self.path.partition("?")[0])


class Hub:
    """A Hub that runs, or was killed.

    Attributes:
        url: its address, the same after a restart.
        tokens: all that it knows; ``users.TOKENS`` says whose they are.
        token: that of a user who may write to ``acme``.
        environment: for subprocesses, over ``os.environ``: this Hub, ``token``, and empty caches of its own.
    """

    def __init__(self, root: Path, options: list[str]) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root, self.options, self.port, self.homes = root.resolve(), options, 0, 0
        self.tokens, self.token = list(TOKENS), "hf_writer"
        self.process = self._start()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = self.new_environment()

    def _start(self) -> subprocess.Popen[bytes]:
        command = ["--root", str(self.root / "data"), "--port", str(self.port), "--with-parent", *self.options]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.hub.server", *command],
            cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout
        self.port = int(process.stdout.readline())
        return process

    def new_environment(self, token: str | None = "hf_writer") -> dict[str, str]:
        """Like ``environment``, but with other empty caches and any token, or none."""
        self.homes += 1
        home = self.root / f"home-{self.homes}"
        caches = {"HF_HOME": "", "HF_HUB_CACHE": "hub", "HF_DATASETS_CACHE": "datasets", "HF_MODULES_CACHE": "modules"}
        caches |= {"HF_EVALUATE_CACHE": "evaluate", "XDG_CACHE_HOME": "xdg"}
        return {
            "HF_ENDPOINT": self.url, "HF_TOKEN": token or "", "HF_TOKEN_PATH": str(home / "token"),
            **{name: str(home / folder) for name, folder in caches.items()},
            "HF_HUB_OFFLINE": "0", "HF_DATASETS_OFFLINE": "0", "HF_EVALUATE_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "OMP_NUM_THREADS": "1", "NO_PROXY": "127.0.0.1,localhost",
        }  # fmt: skip

    def requests(self) -> list[Request]:
        """All requests so far, those before a restart too, but not those to ``faults``."""
        journal = self.root / "data" / JOURNAL
        return [Request(**json.loads(line)) for line in journal.read_bytes().splitlines()]

    def faults(self, kind: str, method: str = ".*", path: str = "", **more: Any) -> None:
        """Plans a fault for the next request that matches; see ``faults.Fault``. A restart forgets the faults."""
        self._control("POST", vars(Fault(kind, method, path, **more)))

    def clear_faults(self) -> None:
        self._control("DELETE", {})

    def _control(self, method: str, body: dict[str, Any]) -> None:
        request = urllib.request.Request(f"{self.url}/_faults", json.dumps(body).encode(), method=method)
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).close()

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.communicate()

    def died(self, seconds: float = 10) -> bool:
        """Whether the server ended by itself; waits for it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.returncode is not None

    def restart(self) -> None:
        """Starts the server again on the same root and port."""
        self.kill()
        self.process = self._start()


@contextlib.contextmanager
def running_hub(root: Path, page: int = 1000, multipart: int = 0) -> Iterator[Hub]:
    """A Hub until the block ends; it keeps everything under ``root`` and goes on with what is there.

    ``HfApi(hub.url, token=...)`` works in the block, whatever the environment and other fixtures say about offline
    mode; it uses none of the user's caches and tokens, and without a token it sends none.

    Args:
        root: a folder; may be new.
        page: the most entries in one page of a list.
        multipart: LFS files with more bytes are uploaded in parts of this size; 0 never.
    """
    hub = Hub(root, ["--page", str(page), "--multipart", str(multipart)])
    constants: dict[str, Any] = {
        "HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_XET": True, "HF_HUB_CACHE": str(hub.root / "cache"),
        "HF_TOKEN_PATH": str(hub.root / "token"),
    }  # fmt: skip
    with mock.patch.multiple("huggingface_hub.constants", **constants), mock.patch.dict("os.environ"):
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
            os.environ.pop(name, None)
        try:
            yield hub
        finally:
            hub.kill()
