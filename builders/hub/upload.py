"""One commit for each repo, then the tag, then the collection; interrupted anywhere, the same command completes it.

The commit names the head that the plan was made from as its parent: whatever somebody else pushed meanwhile is refused
by the Hub, never mixed with ours. A tag is put on the commit itself, so that it is right however main moves on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from builders.errors import UserError
from builders.hub.plan import Plan, check_tag, make_plan, read_remote
from builders.hub.release import Release

if TYPE_CHECKING:
    from huggingface_hub import HfApi

TITLE = "Coherent Decisions"
DESCRIPTION = "Benchmark, metric, outputs, SFT sets and adapters: do language models decide by their own beliefs?"
TRIES = 5
"""How often a push is repeated with ``retry`` when others push at the same time."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How to publish: the organisation, the tag, whether new repos are private, a pull request instead of a commit."""

    org: str
    tag: str | None = None
    private: bool = False
    create_pr: bool = False
    retry: bool = False


class PushConflictError(UserError):
    """Somebody else pushed to the repo after the plan was made."""


def check_rights(api: HfApi, org: str) -> str:
    """The name of the token's user, once it is known that it may write to the organisation.

    Raises:
        UserError: there is no token, it is not valid, or it may not write there.
    """
    from huggingface_hub import errors

    try:
        with told(f"the Hub at {api.endpoint}"):
            user = api.whoami()
    except errors.LocalTokenNotFoundError:
        raise UserError("no token; set HF_TOKEN to one that may write, or run: hf auth login") from None
    name = str(user["name"])
    roles = {each["name"]: each.get("roleInOrg") for each in user.get("orgs", ())}
    if org != name and org not in roles:
        raise UserError(f"{name} is no member of {org}; give --org {name}, or a token of a member")
    if roles.get(org) == "read":
        raise UserError(f"{name} may only read in {org}; ask an admin for the role write")
    if user.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise UserError("the token may only read; set HF_TOKEN to one with the role write")
    return name


def look(api: HfApi, release: Release, tag: str | None) -> Plan:
    """The plan for a release, with the tag's own files compared if it is there.

    Raises:
        UserError: the Hub cannot be read, or the tag is at other files.
    """
    with told(release.repo_id):
        plan = make_plan(release, read_remote(api, release), tag)
        if plan.tagged:
            check_tag(plan, read_remote(api, release, plan.tagged))
    return plan


def push(api: HfApi, plan: Plan, settings: Settings, say: Say) -> None:
    """Carries a plan out: repo, commit, tag.

    Raises:
        PushConflictError: somebody else pushed meanwhile, and there is no retry or none helped.
        UserError: the Hub refused or could not be reached; what was there before is untouched.
    """
    for left in reversed(range(TRIES if settings.retry else 1)):
        try:
            return _push(api, plan, settings, say)
        except PushConflictError as conflict:
            if not left:
                raise
            say(f"{conflict}: trying again")
            plan = look(api, plan.release, settings.tag)


def _push(api: HfApi, plan: Plan, settings: Settings, say: Say) -> None:
    release, kind = plan.release, plan.release.kind.repo_type
    with told(release.repo_id):
        if plan.remote.head is None:
            sdk = "static" if kind == "space" else None
            api.create_repo(release.repo_id, repo_type=kind, private=settings.private, exist_ok=True, space_sdk=sdk)
            plan = make_plan(release, read_remote(api, release), settings.tag)
        head = _commit(api, plan, settings, say) if plan.commits else plan.remote.head
        if not plan.commits:
            say(f"{release.repo_id}: nothing to commit, main is {str(head)[:7]}")
        if settings.tag and not settings.create_pr and not plan.tagged:
            _tag(api, release, settings.tag, str(head))
            say(f"{release.repo_id}: tag {settings.tag} is {str(head)[:7]}")


def _commit(api: HfApi, plan: Plan, settings: Settings, say: Say) -> str:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, errors

    release = plan.release
    operations: list[Any] = [
        CommitOperationAdd(
            path, release.files[path] if isinstance(release.files[path], bytes) else str(release.files[path])
        )
        for path in (*plan.new, *plan.changed)
    ]
    operations += [CommitOperationDelete(path, is_folder=False) for path in plan.deleted]
    message = f"Publish {release.kind.name}{f' {settings.tag}' if settings.tag else ''}"
    try:
        commit = api.create_commit(
            release.repo_id,
            operations,
            commit_message=message,
            repo_type=release.kind.repo_type,
            parent_commit=plan.remote.head,
            create_pr=settings.create_pr,
        )
    except errors.HfHubHTTPError as error:
        if error.response.status_code != 412:
            raise
        return _arrived_all_the_same(api, plan)
    where = commit.pr_url if settings.create_pr else f"commit {commit.oid[:7]} on main"
    say(f"{release.repo_id}: {where}")
    return str(commit.oid)


def _arrived_all_the_same(api: HfApi, plan: Plan) -> str:
    """The head, if it has our files: an answer that was lost and a commit that was sent again also end in a refusal."""
    remote = read_remote(api, plan.release)
    if make_plan(plan.release, remote).commits:
        raise PushConflictError(
            f"{plan.release.repo_id}: somebody else pushed meanwhile (main went from {str(plan.remote.head)[:7]} to "
            f"{str(remote.head)[:7]}); look at their commit, then run the same command again, or give --retry"
        )
    return str(remote.head)


def _tag(api: HfApi, release: Release, tag: str, commit: str) -> None:
    from huggingface_hub import errors

    kind = release.kind.repo_type
    try:
        api.create_tag(release.repo_id, tag=tag, revision=commit, repo_type=kind)
    except errors.HfHubHTTPError as error:
        if error.response.status_code != 409:
            raise
        if read_remote(api, release).tags.get(tag) != commit:
            raise UserError(
                f"{release.repo_id}: somebody else made the tag {tag} meanwhile; it is never moved"
            ) from None


def collect(api: HfApi, done: Sequence[Release], settings: Settings) -> str:
    """Links the repos in the organisation's collection; returns its slug.

    Raises:
        UserError: the Hub refused.
    """
    with told(f"the collection {TITLE!r} of {settings.org}"):
        collection = api.create_collection(
            TITLE, namespace=settings.org, description=DESCRIPTION, private=settings.private, exists_ok=True
        )
        there = {(each.item_type, each.item_id) for each in collection.items}
        for release in done:
            kind: Any = release.kind.repo_type
            if (kind, release.repo_id) not in there:
                api.add_collection_item(collection.slug, release.repo_id, kind, exists_ok=True)
    return collection.slug


@contextmanager
def told(where: str) -> Iterator[None]:
    """What the Hub's client raises, as one line that names no address and no token.

    Raises:
        UserError: in place of the client's errors.
    """
    import httpx2
    from huggingface_hub import errors

    try:
        yield
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        reason = _clean(error.server_message or error.response.reason_phrase or "no reason given")
        hint = {401: "; is the token valid?", 403: "; may the token write there?"}.get(status, "")
        again = "; run the same command again" if status >= 500 or status == 429 else ""
        raise UserError(f"{where}: the Hub answered {status} ({reason}){hint}{again}") from None
    except errors.HFValidationError as error:
        raise UserError(f"{where}: not a valid name on the Hub ({_clean(str(error))})") from None
    except (httpx2.HTTPError, ConnectionError, TimeoutError) as error:
        raise UserError(
            f"{where}: the Hub cannot be reached ({type(error).__name__}); what is published is whole, run the same "
            "command again"
        ) from None
    except ValueError as error:
        raise UserError(f"{where}: {_clean(str(error))}") from None


def _clean(text: str) -> str:
    """One line without addresses and tokens."""
    return re.sub(r"https?://\S+|hf_\w+", "…", " ".join(text.split()))[:300]
