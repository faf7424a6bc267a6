"""Audit logs with records in them, and how to meddle with what the store has of them."""

from __future__ import annotations

from auth import AuditLog, AuditRecord, AuditReport
from gateway.store.client import StoreClient

KEY = bytes(range(32))
RECORDS, END, CHECKPOINTS = "eg:{audit}:records", "eg:{audit}:end", "eg:{audit}:checkpoints"


def a_log(store: StoreClient, *, key: bytes = KEY, keep: int = 1_000) -> AuditLog:
    """One as another process would have it, too."""
    return AuditLog(store, key=key, checkpoint_every=10, keep=keep)


def a_record(number: int) -> AuditRecord:
    return AuditRecord(
        at_s=1_000.0 + number,
        actor="ops",
        role="admin",
        action="key.disable",
        target=f"key {number}",
        outcome="ok",
        source_ip="192.0.2.7",
        before={"name": "Zoë’s"},
        after={"name": "Zoë’s", "disabled_at_s": 1_000.5},
    )


async def grown(log: AuditLog, count: int) -> None:
    for number in range(1, count + 1):
        await log.append(a_record(number))


async def fields_of(store: StoreClient, number: int) -> dict[bytes, bytes]:
    ((_, fields),) = await store.execute("XRANGE", RECORDS, f"{number}-0", f"{number}-0")
    return dict(zip(fields[::2], fields[1::2], strict=True))


async def rewritten(store: StoreClient, number: int, changes: dict[bytes, bytes]) -> None:
    """Put other content in the place of a record, which a stream does not make easy."""
    replies = await store.execute("XRANGE", RECORDS, "-", "+")
    await store.execute("DEL", RECORDS)
    for entry_id, fields in replies:
        values = dict(zip(fields[::2], fields[1::2], strict=True))
        if entry_id == b"%d-0" % number:
            values |= changes
        await store.execute("XADD", RECORDS, entry_id, *(part for pair in values.items() for part in pair))


def intact(last: int, *, since: int = 0) -> AuditReport:
    return AuditReport(
        since=since, last=last, checked=last - since, starts_after=0, is_covered=True, problems=()
    )
