"""The directory and the audit log on stores of several servers: when a change is said to be safe, and that one that was
not survives a failover nonetheless."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auth import (
    AuditLog,
    AuditRecord,
    Authenticator,
    DisabledKey,
    KeyRef,
    Page,
    Ref,
    StoreDirectory,
    TenantRef,
    disabled,
    reapply_after_failovers,
)
from gateway.store.client import StoreClient
from tests.auth.asking import minted
from tests.clusters import GroupServer, running_cluster, running_sentinels, until
from tests.valkey import eventually


@pytest.fixture
def servers() -> Iterator[tuple[GroupServer, GroupServer]]:
    """A master and its replica."""
    with tempfile.TemporaryDirectory(prefix="eg-") as folder, ExitStack() as stack:
        master = GroupServer(Path(folder) / "a", "--repl-diskless-sync-delay", "0")
        replica = GroupServer(Path(folder) / "b", "--replicaof", f"127.0.0.1 {master.port}")
        for server in (master, replica):
            server.start()
            stack.callback(server.kill)
        until(replica.answers)
        until(lambda: replica.facts("INFO", "replication")["master_link_status"] == "up")
        yield master, replica


async def test_change_is_safe_when_a_replica_has_confirmed_it(
    servers: tuple[GroupServer, GroupServer],
) -> None:
    master, replica = servers
    async with StoreClient.open(f"redis://{master.endpoint}", deadline_s=2) as store:
        directory = StoreDirectory(store)
        record, _ = minted()

        assert (await directory.add(record)).is_replicated
        assert (await directory.change(TenantRef("acme"), lambda it: disabled(it, at_s=1.0))).is_replicated
        replica.hang()
        try:
            late = await directory.change(KeyRef(record.key_id), lambda it: disabled(it, at_s=1.0))
        finally:
            replica.resume()
        assert not late.is_replicated
        assert late.record == replace(record, disabled_at_s=1.0) == await directory.get(KeyRef(record.key_id))
        assert (await directory.delete(KeyRef(record.key_id))).is_replicated


@pytest.mark.full
async def test_key_disabled_just_before_the_master_died_stays_disabled() -> None:
    """The replica that takes over has never heard of it; the process that disabled the key has."""
    with running_sentinels() as group:
        async with StoreClient.open(group.url, deadline_s=2) as store:
            directory = StoreDirectory(store, replica_timeout_s=0.2)
            record, headers = minted()
            await directory.add(record)
            told: list[Ref[Any]] = []

            async def tell(refs: Sequence[Ref[Any]]) -> None:
                told.extend(refs)

            watching = asyncio.create_task(
                reapply_after_failovers(directory, server_id=lambda: store.state.server_id, on_reapplied=tell)
            )
            try:
                master, replica = group.master(), group.replica()
                await asyncio.to_thread(replica.kill)
                written = await directory.change(KeyRef(record.key_id), lambda it: disabled(it, at_s=1.0))
                await asyncio.to_thread(master.kill)
                await asyncio.to_thread(replica.start)
                await eventually(lambda: bool(told), within_s=30)
            finally:
                watching.cancel()
                await asyncio.wait([watching])

            assert written.record.disabled_at_s == 1.0
            assert told == [KeyRef(record.key_id)]
            with pytest.raises(DisabledKey):
                await Authenticator(directory).authenticate(headers)


@pytest.mark.full
async def test_directory_and_audit_log_work_on_a_cluster() -> None:
    with running_cluster() as cluster:
        async with StoreClient.open(cluster.url, deadline_s=2) as store:
            directory, log = StoreDirectory(store), AuditLog(store, key=bytes(32), checkpoint_every=2)
            record, headers = minted()

            assert (await directory.add(record)).is_replicated
            assert (await Authenticator(directory).authenticate(headers)).key_id == record.key_id
            written = await directory.change(KeyRef(record.key_id), lambda it: disabled(it, at_s=1.0))
            assert written.is_replicated
            await directory.note_use({record.key_id: 1_000.0})
            assert await directory.keys(tenant="acme") == Page(
                (replace(record, disabled_at_s=1.0, last_used_at_s=1_000.0),), None
            )
            for number in range(5):
                await log.append(
                    AuditRecord(
                        at_s=float(number), actor="ops", role="admin", action="x", target="y", outcome="ok"
                    )
                )
            assert (await log.verify(from_checkpoint=False)).is_intact
