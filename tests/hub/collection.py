"""The loopback Hub's collections."""

from __future__ import annotations

import re
from typing import Any

from tests.hub.calls import Answer, Call, route
from tests.hub.store import Json, Refusal, object_id
from tests.hub.store import now as today

ONE = "/api/collections/{slug}"


def seen(call: Call, slug: str) -> Json:
    """A collection that the visitor may see."""
    for collection in call.site.store.collections():
        if collection["slug"] == slug and call.sees(collection["owner"]["name"], collection["private"]):
            return collection
    raise Refusal(404, "Collection not found")


def own(call: Call, slug: str) -> Json:
    """A collection that the visitor may change."""
    collection = seen(call, slug)
    call.may_write(collection["owner"]["name"])
    return collection


def save(call: Call, collection: Json, **changes: Any) -> Answer:
    for position, item in enumerate(collection["items"]):
        item["position"] = position
    collection |= {**changes, "lastUpdated": today()}
    call.site.store.write(call.site.store.collection_path(collection["slug"]), collection)
    return Answer(collection)


@route("POST", "/api/collections")
def create(call: Call) -> Answer:
    title, namespace = call.json["title"], call.json["namespace"]
    call.may_write(namespace)
    if len(call.json.get("description") or "") > 150:
        raise Refusal(400, "The description must have at most 150 characters")
    words = re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")
    slug = f"{namespace}/{words}-{object_id('collection', title.encode())[:24]}"
    collection = {
        "slug": slug, "title": title, "description": call.json.get("description"), "gating": False, "theme": "blue",
        "owner": {"name": namespace, "fullname": namespace.title(), "type": "org"}, "items": [], "upvotes": 0,
        "private": bool(call.json.get("private")), "position": 0,
    }  # fmt: skip
    with call.site.store.lock:
        if call.site.store.collection_path(slug).exists():
            raise Refusal(409, "This collection already exists", slug=slug)
        return save(call, collection)


@route("GET", "/api/collections")
def search(call: Call) -> Answer:
    owners, items = call.query.get("owner", []), set(call.query.get("item", []))
    found = [
        # The client adds a position of its own to each.
        {key: value for key, value in collection.items() if key != "position"}
        for collection in call.site.store.collections()
        if call.sees(collection["owner"]["name"], collection["private"])
        and (not owners or collection["owner"]["name"] in owners)
        and (not items or items & {f"{item['type']}s/{item['id']}" for item in collection["items"]})
    ]
    return call.page_of(found)


@route("GET", ONE)
def show(call: Call, slug: str) -> Answer:
    return Answer(seen(call, slug))


@route("PATCH", ONE)
def change(call: Call, slug: str) -> Answer:
    with call.site.store.lock:
        changed = save(call, own(call, slug), **call.json)
    return Answer({"success": True, "data": changed.body})


@route("DELETE", ONE)
def delete(call: Call, slug: str) -> Answer:
    own(call, slug)
    call.site.store.collection_path(slug).unlink(missing_ok=True)
    return Answer()


@route("POST", f"{ONE}/items")
def add_item(call: Call, slug: str) -> Answer:
    kind, name = call.json["item"]["type"], call.json["item"]["id"]
    note = {"note": {"text": call.json["note"], "html": call.json["note"]}} if call.json.get("note") else {}
    with call.site.store.lock:
        collection = own(call, slug)
        if kind in ("model", "dataset", "space"):
            call.repo(f"{kind}s", name)
        if any((item["type"], item["id"]) == (kind, name) for item in collection["items"]):
            raise Refusal(409, "Item already in the collection")
        key = object_id("item", f"{slug} {kind} {name}".encode())[:24]
        collection["items"].append({"_id": key, "id": name, "type": kind, "repoType": kind, **note})
        return save(call, collection)


@route("PATCH", f"{ONE}/items/{{key}}")
def change_item(call: Call, slug: str, key: str) -> Answer:
    with call.site.store.lock:
        collection, item = found_item(call, slug, key)
        if "note" in call.json:
            item["note"] = {"text": call.json["note"], "html": call.json["note"]}
        if "position" in call.json:
            collection["items"].remove(item)
            collection["items"].insert(call.json["position"], item)
        save(call, collection)
    return Answer()


@route("DELETE", f"{ONE}/items/{{key}}")
def drop_item(call: Call, slug: str, key: str) -> Answer:
    with call.site.store.lock:
        collection, item = found_item(call, slug, key)
        collection["items"].remove(item)
        save(call, collection)
    return Answer()


def found_item(call: Call, slug: str, key: str) -> tuple[Json, Json]:
    """(collection, its item)"""
    collection = own(call, slug)
    for item in collection["items"]:
        if item["_id"] == key:
            return collection, item
    raise Refusal(404, "Item not found")
