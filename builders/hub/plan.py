"""What publishing a release would change in its repo, compared by content and not by date.

As a person reads it::

    dataset acme/coherent-decisions  (benchmark in out/benchmark)
      checked: 98,200 rows in 12 files read back
      one commit on main: 1 new (12.0 kB), 1 changed (12.1 kB), 10 unchanged
        + cases/test-00000-of-00001.parquet  12.0 kB
        ~ README.md  12.1 kB (was 11.9 kB)
      tag v1.0.0: new
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from builders.errors import UserError
from builders.hub.release import Release

if TYPE_CHECKING:
    from huggingface_hub import HfApi

HUBS_OWN = frozenset({".gitattributes"})
"""What the Hub puts into a new repo by itself; never deleted."""

SHOWN = 12


@dataclass(frozen=True)
class Remote:
    """A repo as it is on the Hub: its head, its files as path -> (bytes, digest), its tags; no head if it is absent."""

    head: str | None
    files: Mapping[str, tuple[int, str]]
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Plan:
    """Paths that are new, changed, unchanged and deleted, and where the tag is already."""

    release: Release
    remote: Remote
    new: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    deleted: tuple[str, ...]
    tag: str | None = None

    @property
    def commits(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.new or self.changed or self.deleted)

    @property
    def tagged(self) -> str | None:
        """The commit at which the tag is already."""
        return None if self.tag is None else self.remote.tags.get(self.tag)


def read_remote(api: HfApi, release: Release, revision: str | None = None) -> Remote:
    """The repo on the Hub, at a revision.

    Raises:
        huggingface_hub.errors.HfHubHTTPError: the Hub refuses, other than by there being no such repo.
    """
    from huggingface_hub import errors
    from huggingface_hub.hf_api import RepoFile

    kind = release.kind.repo_type
    try:
        head = str(api.repo_info(release.repo_id, repo_type=kind, revision=revision).sha)
    except errors.GatedRepoError:
        raise
    except errors.RepositoryNotFoundError:
        return Remote(None, {}, {})
    tree = api.list_repo_tree(release.repo_id, repo_type=kind, revision=head, recursive=True)
    files = {
        each.path: (each.size, each.lfs.sha256 if each.lfs else each.blob_id)
        for each in tree
        if isinstance(each, RepoFile)
    }
    tags = {each.name: each.target_commit for each in api.list_repo_refs(release.repo_id, repo_type=kind).tags}
    return Remote(head, files, tags)


def make_plan(release: Release, remote: Remote, tag: str | None = None) -> Plan:
    """Compares a release with its repo."""
    new: list[str] = []
    changed: list[str] = []
    unchanged: list[str] = []
    for path in release.files:
        if path not in remote.files:
            new.append(path)
        else:
            (unchanged if _same(release, path, *remote.files[path]) else changed).append(path)
    deleted = [path for path in remote.files if path not in release.files and path not in HUBS_OWN]
    return Plan(release, remote, tuple(new), tuple(changed), tuple(unchanged), tuple(sorted(deleted)), tag)


def _same(release: Release, path: str, size: int, digest: str) -> bool:
    """The Hub tells the SHA-256 of a large file and git's SHA-1 of a small one."""
    if release.size(path) != size:
        return False
    content = release.content(path)
    if len(digest) == 64:
        return hashlib.sha256(content).hexdigest() == digest
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest() == digest


def check_tag(plan: Plan, at_tag: Remote) -> None:
    """A version tag is never moved: it may be there already, at these very files.

    Raises:
        UserError: it is there at other files.
    """
    there = make_plan(plan.release, at_tag)
    if there.commits:
        path = (*there.new, *there.changed, *there.deleted)[0]
        raise UserError(
            f"{plan.release.repo_id}: tag {plan.tag} is at {str(plan.tagged)[:7]} with other files ({path}, for "
            "instance) and is never moved; choose another --tag"
        )


def describe(plan: Plan, checked: str, private: bool) -> str:
    """The plan as a person wants to read it: sizes, counts, what changes."""
    release = plan.release
    lines = [f"{release.kind.repo_type} {release.repo_id}  ({release.kind.name} in {release.folder})"]
    lines += [f"  checked: {checked}"] if checked else []
    if plan.remote.head is None:
        lines.append(f"  new {'private' if private else 'public'} repo: {_counted(plan)}")
    elif plan.commits:
        lines.append(f"  one commit on main: {_counted(plan)}")
    else:
        lines.append(f"  nothing to commit, {len(plan.unchanged)} files are as they are on main")
    lines += [f"    {line}" for line in _paths(plan)]
    if release.left_at_home:
        lines.append(f"  not published, working files: {', '.join(release.left_at_home)}")
    lines += [f"  note: {note}" for note in release.notes]
    if plan.tag:
        lines.append(f"  tag {plan.tag}: {'already there' if plan.tagged else 'new'}")
    return "\n".join(lines)


def _counted(plan: Plan) -> str:
    parts = [
        f"{len(paths)} {word} ({_bytes(sum(map(plan.release.size, paths)))})"
        for word, paths in (("new", plan.new), ("changed", plan.changed))
        if paths
    ]
    parts += [f"{len(plan.deleted)} deleted"] if plan.deleted else []
    parts += [f"{len(plan.unchanged)} unchanged"] if plan.unchanged else []
    return ", ".join(parts)


def _paths(plan: Plan) -> Iterable[str]:
    size, was = plan.release.size, plan.remote.files
    lines = [f"+ {path}  {_bytes(size(path))}" for path in plan.new]
    lines += [f"~ {path}  {_bytes(size(path))} (was {_bytes(was[path][0])})" for path in plan.changed]
    lines += [f"- {path}  ({_bytes(was[path][0])})" for path in plan.deleted]
    return lines if len(lines) <= SHOWN else [*lines[:SHOWN], f"... and {len(lines) - SHOWN} more"]


def _bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
