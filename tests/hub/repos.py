"""The loopback Hub's answers about repos: their settings, refs, commits and files."""

from __future__ import annotations

import base64
import fnmatch
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

from tests.hub.calls import Answer, Call, route
from tests.hub.cards import card_tags, metadata
from tests.hub.store import HEADS, PULLS, TAGS, Files, Json, Refusal, Repo, Store, object_id, pointer, under

REPO = "/api/{kind}/{name}"
LARGE = 10 * 2**20
"""More bytes than this go to LFS whatever they are."""

# --- Repos ------------------------------------------------------------------------------------------------------------


def named(call: Call) -> tuple[str, str]:
    """(kind, full name) of the repo that the body of a request to /api/repos is about."""
    namespace = call.json.get("organization") or call.user.name
    return f"{call.json.get('type') or 'model'}s", f"{namespace}/{call.json['name']}"


def is_private(body: Json) -> bool:
    return bool(body.get("private", body.get("visibility") == "private"))


@route("POST", "/api/repos/create")
def create(call: Call) -> Answer:
    kind, name = named(call)
    call.may_write(name.split("/")[0])
    with call.site.store.lock:
        repo = call.site.store.repo(kind, name)
        if repo.exists:
            raise Refusal(409, f"You already created this {kind[:-1]} repo", url=call.url(repo))
        if kind == "spaces" and not call.json.get("sdk"):
            raise Refusal(400, "A Space needs an sdk")
        settings = {"private": is_private(call.json), "gated": False, "sdk": call.json.get("sdk")}
        call.site.store.create(kind, name, call.user.name, **settings)
    return Answer({"url": call.url(repo), "name": name, "id": repo.settings["id"]})


@route("DELETE", "/api/repos/delete")
def delete(call: Call) -> Answer:
    with call.site.store.lock:
        call.site.store.delete(call.own_repo(*named(call)))
    return Answer()


@route("PUT", f"{REPO}/settings")
def change_settings(call: Call, kind: str, name: str) -> Answer:
    repo = call.own_repo(kind, name)
    if {"private", "visibility"} & set(call.json):
        repo.set(private=is_private(call.json))
    if "gated" in call.json:
        repo.set(gated=call.json["gated"])
    return Answer({key: repo.settings[key] for key in ("private", "gated")})


@route("GET", f"{REPO}/auth-check")
def may_read(call: Call, kind: str, name: str) -> Answer:
    check_gate(call, call.repo(kind, name))
    return Answer()


@route("GET", f"{REPO}/auth-check/write")
def may_write(call: Call, kind: str, name: str) -> Answer:
    call.own_repo(kind, name)
    return Answer()


def check_gate(call: Call, repo: Repo) -> None:
    if repo.settings["gated"] and not call.sees(repo.namespace, True):
        raise Refusal(
            403 if call.visitor else 401, f"Access to {repo.kind[:-1]} {repo.name} is restricted", "GatedRepo"
        )


def info_of(repo: Repo, revision: str = "main") -> Json:
    sha, files = repo.files(revision)
    settings, card = repo.settings, metadata(repo, files)
    info = {
        "_id": settings["id"], "id": repo.name, "author": repo.namespace, "sha": sha, "createdAt": settings["created"],
        "lastModified": repo.commit(sha)["date"], "private": settings["private"], "gated": settings["gated"],
        "disabled": False, "downloads": 0, "likes": 0, "tags": card_tags(card), "cardData": card or None,
    }  # fmt: skip
    if repo.kind == "models":
        info |= {"modelId": repo.name, **{key: card.get(key) for key in ("library_name", "pipeline_tag")}}
    if repo.kind == "spaces":
        info |= {"sdk": settings["sdk"], "runtime": {"stage": "NO_APP_FILE", "hardware": {}}}
    return info


def sibling(path: str, file: Json, detailed: bool) -> Json:
    if not detailed:
        return {"rfilename": path}
    lfs = {"lfs": {**lfs_info(file), "sha256": file["lfs"]}} if file["lfs"] else {}
    return {"rfilename": path, "size": file["size"], "blobId": file["oid"], **lfs}


@route("GET", REPO)
@route("GET", f"{REPO}/revision/{{revision}}")
def info(call: Call, kind: str, name: str, revision: str = "main") -> Answer:
    repo = call.repo(kind, name)
    files = repo.files(revision)[1]
    siblings = [sibling(path, file, call.said("blobs")) for path, file in files.items()]
    return Answer({**info_of(repo, revision), "siblings": siblings})


@route("GET", "/api/{kind}")
def search(call: Call, kind: str) -> Answer:
    query = {key: call.query.get(key, []) for key in ("author", "filter", "search")}
    repos = [repo for repo in call.site.store.repos(kind) if call.sees(repo.namespace, repo.settings["private"])]
    return call.page_of(
        [
            info
            for info in map(info_of, repos)
            if {info["author"]} >= set(query["author"])
            and set(info["tags"]) >= set(query["filter"])
            and all(word.lower() in info["id"].lower() for word in query["search"])
        ]
    )


# --- Refs and history -------------------------------------------------------------------------------------------------


@route("GET", f"{REPO}/refs")
def refs(call: Call, kind: str, name: str) -> Answer:
    repo = call.repo(kind, name)
    starts = {"branches": HEADS, "tags": TAGS} | ({"pullRequests": PULLS} if call.said("include_prs") else {})
    listed: Json = {
        key: [{"name": short, "ref": start + short, "targetCommit": sha} for short, sha in repo.refs(start).items()]
        for key, start in starts.items()
    }
    return Answer({"converts": [], **listed})


def add_ref(repo: Repo, ref: str, revision: str) -> Answer:
    if not re.fullmatch(r"(?!.*\.\.)[^\s~^:?*\[\\]+", ref):
        raise Refusal(400, f"Invalid reference name: {ref}")
    with repo.store.lock:
        if repo.ref_path(ref).exists():
            what = "Tag reference" if ref.startswith(TAGS) else "Reference"
            raise Refusal(409, f"{what} exists already: {ref}")
        repo.move(ref, repo.resolve(revision))
    return Answer()


@route("POST", f"{REPO}/branch/{{branch}}")
def add_branch(call: Call, kind: str, name: str, branch: str) -> Answer:
    return add_ref(call.own_repo(kind, name), HEADS + branch, call.json.get("startingPoint") or "main")


@route("DELETE", f"{REPO}/branch/{{branch}}")
def drop_branch(call: Call, kind: str, name: str, branch: str) -> Answer:
    call.own_repo(kind, name).drop(HEADS + branch)
    return Answer()


@route("POST", f"{REPO}/tag/{{revision}}")
def add_tag(call: Call, kind: str, name: str, revision: str) -> Answer:
    return add_ref(call.own_repo(kind, name), TAGS + call.json["tag"], revision)


@route("DELETE", f"{REPO}/tag/{{tag}}")
def drop_tag(call: Call, kind: str, name: str, tag: str) -> Answer:
    call.own_repo(kind, name).drop(TAGS + tag)
    return Answer()


@route("GET", f"{REPO}/commits/{{revision}}")
def commits(call: Call, kind: str, name: str, revision: str) -> Answer:
    repo = call.repo(kind, name)
    return call.page_of([commit_info(commit) for commit in repo.log(repo.resolve(revision))])


def commit_info(commit: Json) -> Json:
    kept = {key: commit[key] for key in ("title", "message", "date")}
    return {**kept, "id": commit["sha"], "authors": [{"user": commit["author"]}], "formatted": kept}


@route("GET", f"{REPO}/discussions")
def discussions(call: Call, kind: str, name: str) -> Answer:
    call.repo(kind, name)
    return Answer({"discussions": [], "count": 0, "start": 0})


# --- Files ------------------------------------------------------------------------------------------------------------


def lfs_info(file: Json) -> Json:
    return {"oid": file["lfs"], "size": file["size"], "pointerSize": len(pointer(file["lfs"], file["size"]))}


def entry(files: Files, path: str) -> Json:
    """A file or a folder, as trees list it."""
    file = files.get(path)
    if file is None:
        inside = json.dumps(under(files, path)).encode()
        return {"type": "directory", "oid": object_id("tree", inside), "size": 0, "path": path}
    lfs = {"lfs": lfs_info(file)} if file["lfs"] else {}
    return {"type": "file", "oid": file["oid"], "size": file["size"], "path": path, **lfs}


def expanded(repo: Repo, sha: str, entries: list[Json], wanted: bool) -> list[Json]:
    """The entries, with the commit that each is from if that is wanted."""

    def last(path: str) -> Json:
        commit = repo.last_change(sha, path)
        return {"id": commit["sha"], "title": commit["title"], "date": commit["date"]}

    return [{**entry, "lastCommit": last(entry["path"])} for entry in entries] if wanted else entries


def listed(files: Files, folder: str, recursive: bool) -> list[str]:
    """The paths of the files and folders in a folder, directly or at any depth."""
    start = f"{folder}/" if folder else ""
    inside = [path.removeprefix(start).split("/") for path in files if path.startswith(start)]
    depths = [range(1, len(parts) + 1 if recursive else 2) for parts in inside]
    return sorted({start + "/".join(parts[:n]) for parts, depth in zip(inside, depths, strict=True) for n in depth})


@route("GET", f"{REPO}/tree/{{revision}}")
@route("GET", f"{REPO}/tree/{{revision}}/{{path}}")
def tree(call: Call, kind: str, name: str, revision: str, path: str = "") -> Answer:
    repo = call.repo(kind, name)
    sha, files = repo.files(revision)
    paths = listed(files, path, call.said("recursive"))
    if path and not paths:
        raise Refusal(404, f"{path} does not exist on {revision}", "EntryNotFound", {"X-Repo-Commit": sha})
    page = call.page_of(paths)
    page.body = expanded(repo, sha, [entry(files, path) for path in page.body], call.said("expand"))
    return page


@route("POST", f"{REPO}/paths-info/{{revision}}")
def paths_info(call: Call, kind: str, name: str, revision: str) -> Answer:
    repo = call.repo(kind, name)
    sha, files = repo.files(revision)
    form = parse_qs(call.data.decode())
    entries = [entry(files, path) for path in form.get("paths", []) if under(files, path)]
    return Answer(expanded(repo, sha, entries, form.get("expand") == ["true"]))


# --- Commits ----------------------------------------------------------------------------------------------------------


def branch_of(revision: str) -> str:
    return revision if revision.startswith("refs/") else HEADS + revision


def writable(call: Call, kind: str, name: str) -> Repo:
    """A repo that the visitor may commit to; anyone who sees it may open a pull request."""
    if call.said("create_pr") and call.user.token_role != "read":
        return call.repo(kind, name)
    return call.own_repo(kind, name)


def lfs_patterns(repo: Repo, files: Files) -> list[str]:
    if ".gitattributes" not in files:
        return []
    lines = repo.store.content(files[".gitattributes"]).read_text().splitlines()
    return [line.split()[0] for line in lines if "filter=lfs" in line.split()]


@route("POST", f"{REPO}/preupload/{{revision}}")
def preupload(call: Call, kind: str, name: str, revision: str) -> Answer:
    repo = writable(call, kind, name)
    files = repo.files(branch_of(revision))[1]
    patterns = lfs_patterns(repo, files)

    def plan(file: Json) -> Json:
        there = files.get(file["path"])
        names = (file["path"], file["path"].rpartition("/")[2])
        large = file["size"] > LARGE or b"\0" in base64.b64decode(file.get("sample") or "")
        large = large or any(fnmatch.fnmatch(name, pattern) for name in names for pattern in patterns)
        mode = {"uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
        return {"path": file["path"], **mode, "oid": (there["lfs"] or there["oid"]) if there else None}

    return Answer({"files": [plan(file) for file in call.json["files"]]})


def operations(data: bytes) -> Iterator[tuple[str, Json]]:
    for line in filter(None, data.split(b"\n")):
        operation = json.loads(line)
        yield operation["key"], operation["value"]


def edit(store: Store, files: Files, key: str, value: Json) -> None:
    """Does one operation of a commit."""
    path = value["path"]
    if any(part in ("", ".", "..", ".git") for part in path.rstrip("/").split("/")):
        raise Refusal(400, f"Invalid path: {path}")
    if key == "file":
        files[path] = store.put_blob(base64.b64decode(value["content"]))
    elif key == "lfsFile":
        files[path] = store.lfs_file(value["oid"])
    elif key in ("deletedFile", "deletedFolder"):
        gone = under(files, path.rstrip("/")) if key == "deletedFolder" else {path} & set(files)
        if not gone:
            raise Refusal(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
        for one in gone:
            del files[one]
    else:
        raise Refusal(400, f"Unknown operation {key}")


@route("POST", f"{REPO}/commit/{{revision}}")
def commit(call: Call, kind: str, name: str, revision: str) -> Answer:
    repo = writable(call, kind, name)
    (_, header), *todo = operations(call.data)

    def edited(files: Files) -> Files:
        for key, value in todo:
            edit(repo.store, files, key, value)
        return files

    words = {"title": header["summary"], "message": header.get("description") or "", "author": call.user.name}
    sha, number = repo.change(branch_of(revision), edited, header.get("parentCommit"), call.said("create_pr"), **words)
    pull: Any = call.url(repo, "discussions", str(number)) if number else None
    done = {"success": True, "commitOid": sha, "commitUrl": call.url(repo, "commit", sha), "hookOutput": ""}
    return Answer({**done, "pullRequestUrl": pull})
