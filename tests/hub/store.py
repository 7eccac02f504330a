"""What the loopback Hub keeps on disk, whole at every moment.

    ROOT/repos/<kind>/<namespace>/<name>/repo.json      settings; written last, so that a repo is there once it is whole
                                         refs/<name>    the commit that a branch, a tag or a pull request is at
                                         commits/<sha>  parent, title, author, date, files {path: {size, oid, lfs}}
    ROOT/blobs/<git sha1>, ROOT/lfs/<sha256>, ROOT/parts/<sha256>/<number>, ROOT/collections/<slug>

Every file is written in ROOT/scratch and renamed into its place: objects before the commit that names them, the commit
before the ref that is moved to it. So a server that is killed leaves refs to whole revisions only. (The kernel keeps
what a killed process has written; nothing here outlives a power cut.)
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

Json = dict[str, Any]
Files = dict[str, Json]
"""The files of a revision: path -> size, oid (the git blob's) and lfs (the content's sha256, or None)."""

HEADS, TAGS, PULLS = "refs/heads/", "refs/tags/", "refs/pr/"
LARGE = "7z arrow bin bz2 gguf gz h5 npy npz onnx parquet pickle pkl pt pth safetensors tar tgz xz zip zst".split()
ATTRIBUTES = "".join(f"*.{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in LARGE)


class Refusal(Exception):  # noqa: N818 - most of these are answers that a client expects
    """What a request is answered with instead; the clients choose their exception by ``code``."""

    def __init__(
        self, status: int, message: str, code: str | None = None, headers: dict[str, str] | None = None, **body: Any
    ) -> None:
        super().__init__(message)
        self.status, self.body = status, {"error": message, **body}
        self.headers = {"X-Error-Message": quote(message, safe=" '!\"():,.`=/?"), **(headers or {})}
        if code:
            self.headers["X-Error-Code"] = code


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def object_id(kind: str, data: bytes) -> str:
    """The sha1 that git names an object by."""
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data).hexdigest()


def pointer(sha256: str, size: int) -> bytes:
    """What git keeps of a file that is in LFS."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()


def under(files: Files, folder: str) -> Files:
    """The files in a folder at any depth, or the file of that name."""
    return {path: file for path, file in files.items() if path == folder or path.startswith(f"{folder}/") or not folder}


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Store:
    """All that is kept under a root; one process at a time, any number of its threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = threading.RLock()
        shutil.rmtree(root / "scratch", ignore_errors=True)
        (root / "scratch").mkdir(parents=True)

    def scratch(self) -> Path:
        """A path that no one else uses, to be written and then placed."""
        return self.root / "scratch" / uuid4().hex

    def place(self, scratch: Path, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(scratch, path)

    def write(self, path: Path, content: bytes | Json) -> None:
        scratch = self.scratch()
        scratch.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        self.place(scratch, path)

    # --- Objects ------------------------------------------------------------------------------------------------------

    def blob(self, oid: str) -> Path:
        return self.root / "blobs" / oid

    def lfs(self, sha256: str) -> Path:
        return self.root / "lfs" / sha256

    def content(self, file: Json) -> Path:
        """Where the bytes of a file are."""
        return self.lfs(file["lfs"]) if file["lfs"] else self.blob(file["oid"])

    def put_blob(self, data: bytes) -> Json:
        oid = object_id("blob", data)
        if not self.blob(oid).exists():
            self.write(self.blob(oid), data)
        return {"size": len(data), "oid": oid, "lfs": None}

    def put_lfs(self, sha256: str, scratch: Path) -> None:
        if digest(scratch) != sha256:
            scratch.unlink()
            raise Refusal(400, "The content's sha256 is not the object's id")
        self.place(scratch, self.lfs(sha256))

    def lfs_file(self, sha256: str) -> Json:
        """The file of an object that was uploaded before."""
        if not re.fullmatch("[0-9a-f]{64}", sha256) or not self.lfs(sha256).exists():
            raise Refusal(400, f"LFS pointer pointed to a file that does not exist: {sha256}")
        size = self.lfs(sha256).stat().st_size
        return {"size": size, "oid": object_id("blob", pointer(sha256, size)), "lfs": sha256}

    def put_part(self, sha256: str, number: int, scratch: Path) -> str:
        """Keeps one part of an upload; returns its ETag."""
        self.place(scratch, self.root / "parts" / sha256 / str(number))
        return self.part_tag(sha256, number)

    def part_tag(self, sha256: str, number: int) -> str:
        return f'"{digest(self.root / "parts" / sha256 / str(number))[:32]}"'

    def join_parts(self, sha256: str, numbers: list[int]) -> None:
        scratch = self.scratch()
        with scratch.open("wb") as whole:
            for number in numbers:
                whole.write((self.root / "parts" / sha256 / str(number)).read_bytes())
        self.put_lfs(sha256, scratch)
        shutil.rmtree(self.root / "parts" / sha256, ignore_errors=True)

    # --- Repos and collections ----------------------------------------------------------------------------------------

    def repo(self, kind: str, name: str) -> Repo:
        return Repo(self, kind, name)

    def repos(self, kind: str) -> list[Repo]:
        found = (self.root / "repos" / kind).glob("*/*/repo.json")
        return [self.repo(kind, "/".join(path.parts[-3:-1])) for path in sorted(found)]

    def create(self, kind: str, name: str, author: str, **settings: Any) -> Repo:
        """A new repo with its first commit, as the Hub makes it."""
        repo = self.repo(kind, name)
        shutil.rmtree(repo.folder, ignore_errors=True)
        files = {".gitattributes": self.put_blob(ATTRIBUTES.encode())}
        repo.move(f"{HEADS}main", repo.add_commit(files, None, "initial commit", "", author))
        repo.set(id=object_id("repo", f"{kind}/{name}".encode())[:24], created=now(), creator=author, **settings)
        return repo

    def delete(self, repo: Repo) -> None:
        scratch = self.scratch()
        os.replace(repo.folder, scratch)
        shutil.rmtree(scratch)

    def collections(self) -> list[Json]:
        return [json.loads(path.read_bytes()) for path in sorted((self.root / "collections").glob("*"))]

    def collection_path(self, slug: str) -> Path:
        return self.root / "collections" / quote(slug, safe="")


class Repo:
    """One repo; ``kind`` is models, datasets or spaces."""

    def __init__(self, store: Store, kind: str, name: str) -> None:
        self.store, self.kind, self.name = store, kind, name
        self.folder = store.root / "repos" / kind / name

    @property
    def namespace(self) -> str:
        return self.name.split("/")[0]

    @property
    def exists(self) -> bool:
        return (self.folder / "repo.json").exists()

    @property
    def settings(self) -> Json:
        return dict(json.loads((self.folder / "repo.json").read_bytes()))

    def set(self, **settings: Any) -> None:
        with self.store.lock:
            self.store.write(self.folder / "repo.json", {**(self.settings if self.exists else {}), **settings})

    # --- Refs ---------------------------------------------------------------------------------------------------------

    def ref_path(self, ref: str) -> Path:
        return self.folder / "refs" / quote(ref, safe="")

    def refs(self, start: str) -> dict[str, str]:
        """Short name -> commit of the refs whose full name begins so."""
        found = {unquote(path.name): path.read_text() for path in sorted((self.folder / "refs").glob("*"))}
        return {ref.removeprefix(start): sha for ref, sha in found.items() if ref.startswith(start)}

    def move(self, ref: str, sha: str) -> None:
        self.store.write(self.ref_path(ref), sha.encode())

    def drop(self, ref: str) -> None:
        if not self.ref_path(ref).exists():
            raise Refusal(404, f"Reference does not exist: {ref}", "RevisionNotFound")
        self.ref_path(ref).unlink()

    def resolve(self, revision: str) -> str:
        """The commit that a branch, a tag, a full ref or the beginning of a sha stands for."""
        for ref in (HEADS + revision, TAGS + revision, revision):
            if self.ref_path(ref).exists():
                return self.ref_path(ref).read_text()
        if re.fullmatch("[0-9a-f]{7,40}", revision):
            found = list((self.folder / "commits").glob(f"{revision}*"))
            if len(found) == 1:
                return found[0].name
        raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    # --- Commits ------------------------------------------------------------------------------------------------------

    def commit(self, sha: str) -> Json:
        return dict(json.loads((self.folder / "commits" / sha).read_bytes()))

    def files(self, revision: str) -> tuple[str, Files]:
        """(commit, its files) of a revision."""
        sha = self.resolve(revision)
        return sha, self.commit(sha)["files"]

    def log(self, sha: str | None) -> Iterator[Json]:
        """The commit and those before it, each with its ``sha``."""
        while sha:
            commit = self.commit(sha)
            yield {"sha": sha, **commit}
            sha = commit["parent"]

    def last_change(self, sha: str, path: str) -> Json:
        """The commit that made a file or folder what it is."""
        found: Json = {}
        for commit in self.log(sha):
            if found and under(commit["files"], path) != under(found["files"], path):
                break
            found = commit
        return found

    def add_commit(self, files: Files, parent: str | None, title: str, message: str, author: str) -> str:
        """Writes a commit that no ref is at yet; returns its sha."""
        commit = {
            "parent": parent, "title": title, "message": message, "author": author, "date": now(),
            "files": dict(sorted(files.items())),
        }  # fmt: skip
        sha = object_id("commit", json.dumps([self.kind, self.name, commit]).encode())
        self.store.write(self.folder / "commits" / sha, commit)
        return sha

    def change(
        self,
        branch: str,
        edit: Callable[[Files], Files],
        parent: str | None,
        new_pull: bool,
        **words: str,
    ) -> tuple[str, int | None]:
        """Commits what ``edit`` makes of a branch's files.

        Args:
            branch: the full name of a ref.
            edit: files -> new files.
            parent: the beginning of the sha that the branch has to be at; None for any.
            new_pull: leave the branch, and open a pull request with the commit.
            words: title, message and author.

        Returns:
            (commit, number of the pull request)
        """
        with self.store.lock:
            if not self.ref_path(branch).exists():
                raise Refusal(404, f"Invalid rev id: {branch}", "RevisionNotFound")
            head, files = self.files(branch)
            if parent and not head.startswith(parent):
                raise Refusal(412, "A commit has happened since. Please refresh and try again.")
            number = 1 + max(map(int, self.refs(PULLS)), default=0) if new_pull else None
            sha = self.add_commit(edit(dict(files)), head, **words)
            self.move(f"{PULLS}{number}" if new_pull else branch, sha)
            return sha, number
