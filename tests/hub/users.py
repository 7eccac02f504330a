"""Who may do what on the loopback Hub: its tokens, its organisation ``acme`` and the roles in it.

A token says who asks; what it may do follows from the token's own role and from the user's role in the organisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.hub.store import Refusal

ORG = "acme"


@dataclass(frozen=True)
class User:
    """The user behind a token.

    Attributes:
        name: also the namespace of their own repos.
        token_role: write, read or fineGrained; a fine-grained token may write to ``ORG`` only.
        org_role: admin, write, contributor or read; None if not in ``ORG``.
    """

    name: str
    token_role: str = "write"
    org_role: str | None = None

    def role_in(self, namespace: str) -> str | None:
        if namespace == self.name:
            return "admin"
        return self.org_role if namespace == ORG else None

    def may_write(self, namespace: str, creator: str | None = None) -> bool:
        """Whether they may write to a repo of that namespace; a contributor only to what they created."""
        role = self.role_in(namespace)
        if self.token_role == "read" or (self.token_role == "fineGrained" and namespace != ORG):
            return False
        return role in ("admin", "write") or (role == "contributor" and creator in (None, self.name))


TOKENS = {
    "hf_writer": User("writer", org_role="write"),
    "hf_admin": User("admin", org_role="admin"),
    "hf_contributor": User("contributor", org_role="contributor"),
    "hf_member": User("member", org_role="read"),
    "hf_stranger": User("stranger"),
    "hf_reader": User("writer", "read", "write"),
    "hf_fine": User("writer", "fineGrained", "write"),
}


def user_of(authorization: str | None) -> User | None:
    """The user whose token is in the header; None without one."""
    if not authorization:
        return None
    user = TOKENS.get(authorization.removeprefix("Bearer "))
    if user is None:
        raise Refusal(401, "Invalid credentials in Authorization header")
    return user


def whoami(user: User) -> dict[str, Any]:
    """The answer of ``/api/whoami-v2``."""
    org = {"type": "org", "id": f"id-{ORG}", "name": ORG, "fullname": ORG.title(), "isEnterprise": False}
    return {
        "type": "user", "id": f"id-{user.name}", "name": user.name, "fullname": user.name.title(), "isPro": False,
        "email": f"{user.name}@example.org", "emailVerified": True, "canPay": False, "periodEnd": None, "avatarUrl": "",
        "orgs": [{**org, "roleInOrg": user.org_role, "canPay": False}] if user.org_role else [],
        "auth": {"type": "access_token", "accessToken": _access_token(user)},
    }  # fmt: skip


def _access_token(user: User) -> dict[str, Any]:
    token = {"displayName": user.token_role, "role": user.token_role, "createdAt": "2026-01-01T00:00:00.000Z"}
    if user.token_role != "fineGrained":
        return token
    permissions = ["repo.content.read", "repo.write", "collection.read", "collection.write"]
    entity = {"_id": f"id-{ORG}", "type": "org", "name": ORG}
    return {
        **token,
        "fineGrained": {
            "canReadGatedRepos": False,
            "global": [],
            "scoped": [{"entity": entity, "permissions": permissions}],
        },
    }
