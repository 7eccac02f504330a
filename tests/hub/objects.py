"""The loopback Hub's LFS uploads and its downloads of files."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

from tests.hub.calls import Answer, Call, route
from tests.hub.repos import check_gate
from tests.hub.store import Json, Refusal

# --- Uploads ----------------------------------------------------------------------------------------------------------


@route("POST", "/{prefix}{name}.git/info/lfs/objects/batch")
def batch(call: Call, prefix: str, name: str) -> Answer:
    # Whoever may open a pull request may upload; the commit then says no to the others.
    call.repo(prefix.rstrip("/") or "models", name)
    if call.user.token_role == "read":
        raise Refusal(403, "This token may only read")
    objects = [planned(call, asked["oid"], asked["size"]) for asked in call.json["objects"]]
    parted = any("chunk_size" in one.get("actions", {}).get("upload", {}).get("header", {}) for one in objects)
    return Answer({"transfer": "multipart" if parted else "basic", "objects": objects})


def planned(call: Call, oid: str, size: int) -> Json:
    """How an object is to be uploaded; without actions, it is there already."""
    if call.site.store.lfs(oid).exists():
        return {"oid": oid, "size": size}
    start = f"{call.site.base}/_lfs/{oid}"
    upload: Json = {"href": f"{start}/put", "header": {}}
    if 0 < call.site.multipart < size:
        numbers = range(1, -(-size // call.site.multipart) + 1)
        parts = {f"{number:05d}": f"{start}/part/{number}" for number in numbers}
        upload = {"href": f"{start}/complete", "header": {"chunk_size": str(call.site.multipart), **parts}}
    actions = {"upload": upload, "verify": {"href": f"{start}/verify", "header": {}}}
    return {"oid": oid, "size": size, "authenticated": True, "actions": actions}


def uploaded(call: Call) -> Path:
    assert isinstance(call.body, Path)
    return call.body


@route("PUT", "/_lfs/{oid}/put")
def put(call: Call, oid: str) -> Answer:
    call.site.store.put_lfs(oid, uploaded(call))
    return Answer()


@route("PUT", "/_lfs/{oid}/part/{number}")
def put_part(call: Call, oid: str, number: str) -> Answer:
    tag = call.site.store.put_part(oid, int(number), uploaded(call))
    return Answer(headers={"ETag": tag})


@route("POST", "/_lfs/{oid}/complete")
def complete(call: Call, oid: str) -> Answer:
    for part in call.json["parts"]:
        if part["etag"] != call.site.store.part_tag(oid, part["partNumber"]):
            raise Refusal(400, f"Part {part['partNumber']} has another ETag")
    call.site.store.join_parts(oid, [part["partNumber"] for part in call.json["parts"]])
    return Answer()


@route("POST", "/_lfs/{oid}/verify")
def verify(call: Call, oid: str) -> Answer:
    path = call.site.store.lfs(oid)
    if not path.exists() or path.stat().st_size != call.json["size"]:
        raise Refusal(404, "Object not found")
    return Answer()


# --- Downloads --------------------------------------------------------------------------------------------------------


def file_answer(call: Call, path: Path, headers: dict[str, str]) -> Answer:
    """A file, or the part of it that the request's Range asks for."""
    size = path.stat().st_size
    headers |= {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
    asked = re.fullmatch(r"bytes=(\d*)-(\d*)", call.headers.get("range", ""))
    if not asked or asked[0] == "bytes=-":
        return Answer(path, headers=headers, part=(0, size))
    first = int(asked[1]) if asked[1] else max(0, size - int(asked[2]))
    last = min(size - 1, int(asked[2])) if asked[1] and asked[2] else size - 1
    if first > last:
        raise Refusal(416, "Range not satisfiable", headers={"Content-Range": f"bytes */{size}"})
    headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    return Answer(path, 206, headers, (first, last - first + 1))


@route("GET", "/{prefix}{name}/resolve/{revision}/{path}")
def resolve(call: Call, prefix: str, name: str, revision: str, path: str) -> Answer:
    repo = call.repo(prefix.rstrip("/") or "models", name)
    check_gate(call, repo)
    sha, files = repo.files(revision)
    headers = {"X-Repo-Commit": sha}
    file = files.get(path)
    if file is None:
        raise Refusal(404, "Entry not found", "EntryNotFound", headers)
    headers["ETag"] = f'"{file["lfs"] or file["oid"]}"'
    if not file["lfs"]:
        return file_answer(call, repo.store.content(file), headers)
    headers |= {"X-Linked-Etag": headers["ETag"], "X-Linked-Size": str(file["size"])}
    headers["Location"] = f"{call.site.cdn}/_cdn/{file['lfs']}?name={quote(path, safe='')}"
    return Answer(b"", 302, headers)


@route("GET", "/_cdn/{oid}")
def download(call: Call, oid: str) -> Answer:
    if "authorization" in call.headers:
        raise Refusal(400, "The token was sent to another origin")
    if not call.site.store.lfs(oid).exists():
        raise Refusal(404, "Object not found")
    return file_answer(call, call.site.store.lfs(oid), {"ETag": f'"{oid}"'})
