"""Decides what each role of an admin key may do: one table."""

from __future__ import annotations

from typing import Final, Literal

from .stored_keys import Role

Permission = Literal["read", "operate", "write", "read-audit", "transfer", "read-texts", "admin-keys"]

# read: tenants, services, keys, limits, usage. operate: disable and enable. write: make, change, rotate, delete.
# transfer: export and import records with the hashes of their secrets, and entries of the cache. read-texts: what was
# asked and answered, where the configuration shows it.
PERMISSIONS: Final[dict[Role, frozenset[Permission]]] = {
    "viewer": frozenset({"read"}),
    "operator": frozenset({"read", "operate"}),
    "admin": frozenset({"read", "operate", "write", "read-audit"}),
    "owner": frozenset({"read", "operate", "write", "read-audit", "transfer", "read-texts", "admin-keys"}),
}


def may(role: Role, permission: Permission) -> bool:
    return permission in PERMISSIONS[role]
