"""Owns the stored form of tenants, services and keys: what a record is called, listed under and made of.

A record is stored as `[format, record]` in msgpack, the record with the very fields of model.py: a field that is
renamed or changes its meaning there is a new format here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import msgspec

from ..errors import UnreadableRecord
from ..model import KeyRecord, KeyRef, Lineage, R, Record, Ref, Service, ServiceRef, Tenant, TenantRef

FORMAT = 1

# All of them lie in one slot of a cluster, so that a key is read together with its service and tenant.
RECORDS = "eg:{k}:records"  # hash: every record under its field
LAST_USED = (
    "eg:{k}:last-used"  # hash: a key's field to seconds, apart from the record as it changes all the time
)
TENANTS = "eg:{k}:tenants"  # sorted by name, all scores 0, like the lists below
SERVICES = "eg:{k}:services"

_decoder = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])


def ref_of(record: Record) -> Ref[Any]:
    match record:
        case Tenant(name=name):
            return TenantRef(name)
        case Service(tenant=tenant, name=name):
            return ServiceRef(tenant, name)
        case KeyRecord(key_id=key_id):
            return KeyRef(key_id)


def field_of(ref: Ref[Any]) -> str:
    match ref:
        case TenantRef(name):
            return f"t/{name}"
        case ServiceRef(tenant, name):
            return f"s/{tenant}/{name}"
        case KeyRef(key_id):
            return f"k/{key_id}"
        case _:
            raise TypeError(f"{ref!r} names no record")


def keys_of(tenant: str | None = None, service: str | None = None) -> str:
    """The list of all keys, of a tenant's, or of a service's."""
    return "/".join(("eg:{k}:keys", *(name for name in (tenant, service) if name is not None)))


def lists_of(record: Record) -> tuple[str, ...]:
    match record:
        case Tenant():
            return (TENANTS,)
        case Service():
            return (SERVICES,)
        case KeyRecord(tenant=tenant, service=service):
            return (keys_of(), keys_of(tenant), keys_of(tenant, service))


def member_of(record: Record) -> str:
    """What a record is in its lists, such that their order is that of the names or, for keys, of creation."""
    match record:
        case Tenant(name=name):
            return name
        case Service(tenant=tenant, name=name):
            return f"{tenant}/{name}"
        case KeyRecord(key_id=key_id, created_at_s=created_at_s):
            return f"{max(0, round(created_at_s * 1e6)):017d}/{key_id}"


def field_in_list(kind: type[R], member: str) -> str:
    """The field of the record that is `member` in a list of its kind."""
    if kind is KeyRecord:
        return f"k/{member.partition('/')[2]}"
    return f"t/{member}" if kind is Tenant else f"s/{member}"


def encoded(record: Record) -> bytes:
    if isinstance(record, KeyRecord):
        # Whom it belongs to comes first, for the script that reads a key with its service and its tenant.
        path = f"{record.tenant}/{record.service} ".encode()
        return path + msgspec.msgpack.encode((FORMAT, replace(record, last_used_at_s=None)))
    return msgspec.msgpack.encode((FORMAT, record))


def decoded(kind: type[R], stored: bytes, last_used: bytes | None = None) -> R:
    """Raises `UnreadableRecord`."""
    if kind is KeyRecord:
        stored = stored.partition(b" ")[2]
    try:
        format_, kept = _decoder.decode(stored)
        if format_ != FORMAT:
            raise UnreadableRecord(
                f"A {kind.__name__} in the store has format {format_}, this release reads {FORMAT}. "
                "Use a newer release."
            )
        record = msgspec.msgpack.decode(kept, type=kind)
    except msgspec.MsgspecError as error:
        raise UnreadableRecord(f"A {kind.__name__} in the store cannot be read.") from error
    if isinstance(record, KeyRecord) and last_used is not None:
        return replace(record, last_used_at_s=float(last_used))
    return record


def kind_of(ref: Ref[R]) -> type[R]:
    kinds = {TenantRef: Tenant, ServiceRef: Service, KeyRef: KeyRecord}
    return cast(type[R], kinds[type(ref)])


def lineage_of(key: bytes, service: bytes | None, tenant: bytes | None) -> Lineage:
    """Raises `UnreadableRecord`, also where a record that must be there is not."""
    if service is None or tenant is None:
        raise UnreadableRecord("The store holds a key without the service or tenant it belongs to.")
    return Lineage(decoded(KeyRecord, key), decoded(Service, service), decoded(Tenant, tenant))


def services_range(tenant: str) -> tuple[str, str]:
    """The part of the list of services that is one tenant's, as ZRANGE BYLEX takes it."""
    return f"[{tenant}/", f"({tenant}0"  # the character after the slash


def parents_of(record: Record) -> tuple[Tenant | Service, ...]:
    """Whom a record belongs to, as they are when nothing was said of them."""
    created_at_s = record.created_at_s
    match record:
        case Tenant():
            return ()
        case Service(tenant=tenant):
            return (Tenant(tenant, created_at_s),)
        case KeyRecord(tenant=tenant, service=service):
            return (Service(tenant, service, created_at_s), Tenant(tenant, created_at_s))


def dependents_of(ref: Ref[Any]) -> tuple[str, str, str]:
    """A list and the part of it in which what belongs to a record would be."""
    match ref:
        case TenantRef(name):
            return (SERVICES, *services_range(name))
        case ServiceRef(tenant, name):
            return (keys_of(tenant, name), "-", "+")
        case _:
            return (TENANTS, "-", "-")  # an empty range: nothing belongs to a key
